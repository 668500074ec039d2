"""One measurement: starts the clients of a platform, lets them send and read, and reads what they wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from ivsim.runs.children import Children, ChildSpec
from ivsim.runs.clock import ClockWatch
from ivsim.runs.crossing import Crossing
from ivsim.runs.interrupt import Interrupted, Late, again, unhurried
from ivsim.study.engines.pipe import columns as kept
from ivsim.study.engines.pipe import consumer as consuming
from ivsim.study.engines.pipe import producer as producing
from ivsim.study.engines.pipe.idioms import needs_registry
from ivsim.study.engines.pipe.kills import BROKER, CONSUMER, PRODUCER, Kill, Killed, kill_of
from ivsim.study.engines.pipe.ledger import Arrived, Integers, Produced, close
from ivsim.study.engines.pipe.measured import Died, Measured, Stopped
from ivsim.study.engines.pipe.options import FIXED, PipeOptions, link_options
from ivsim.study.engines.pipe.platform_usage import PlatformUsage
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.platforms.base import OpenPlatform, Place
from ivsim.study.engines.pipe.registry_stub import registry_if
from ivsim.study.engines.pipe.site import Asked, Site
from ivsim.testbed.child import Child
from ivsim.testbed.forked import ForkServer
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord

READY_S: Final = 60.0
LEAD_NS: Final = 500_000_000  # from the word to the first record
LINK_LEAD_NS: Final = 1_500_000_000  # another process takes the link meanwhile
SEND_GRACE_S: Final = 120.0
STALL_S: Final = 15.0
LOOK_S: Final = 0.05
END_S: Final = 30.0

Answer = TypeVar("Answer")
# Phase, seconds of it that are over, records sent and received so far.
Tell = Callable[[str, float, int, int], None]


class PlatformDied(Exception):  # noqa: N818 - what happened
    """A process of the platform has ended; `line` says which, and how."""

    def __init__(self, death: ProcessDied) -> None:
        super().__init__(str(death))
        self.line = death.line


@contextmanager
def _of_platform() -> Iterator[None]:
    """Tell a death of the platform from one of its clients."""
    try:
        yield
    except ProcessDied as death:
        raise PlatformDied(death) from death


def module_of(role: str) -> str:
    """Return the module of a role's processes."""
    return f"ivsim.study.engines.pipe.{role}"


def clients_of(options: PipeOptions, role: str) -> str:
    """Return the module of a role's clients."""
    row = platform_named(options.platform)
    if role == PRODUCER and options.batching != FIXED:
        assert row.choosing is not None
        return row.choosing
    return row.clients


def modules_of(options: PipeOptions) -> tuple[str, ...]:
    """Return what producers and consumers of a measurement import."""
    roles = (PRODUCER, CONSUMER)
    return tuple(dict.fromkeys([*map(module_of, roles), *(clients_of(options, role) for role in roles)]))


class Measurement:
    """The processes of one measurement.

    Args:
        options: checked.
        name: of the place on the platform; files are called after it.
        opened: the platform.
        record: of the run; the processes' logs lie in its directory.
        forks: what starts producers and consumers.
        work: scratch directory.
        site: the link on which it stands; None: everything on loopback.
        tell: called now and then.
        accounts_stopped: a signal ends the sending, and what was sent until then is accounted for; else it is raised.
    """

    def __init__(
        self,
        options: PipeOptions,
        name: str,
        opened: OpenPlatform,
        record: RunRecord,
        forks: ForkServer,
        *,
        work: Path,
        site: Site | None = None,
        tell: Tell = lambda *_: None,
        accounts_stopped: bool = False,
    ) -> None:
        self._options = options
        self._name = name
        self._opened = opened
        self._record = record
        self._forks = forks
        self._work = work
        self._site = site
        self._crossing: Crossing | None = None
        self._tell = tell
        self._accounts_stopped = accounts_stopped
        self._stopped: Stopped | None = None
        self._died: Died | None = None
        self._settings = options.model_dump(mode="json")
        self._row = platform_named(options.platform)
        self._place: Place = {}
        self._registry: str | None = None
        self._kill = None if options.kill is None else kill_of(options.kill)
        self._killed: Killed | None = None
        self._again: Child | None = None

    def run(self) -> Measured:
        """Measure; ProcessDied or NotReady when a client ended or a part hung, Interrupted where a signal's work is not kept.

        What was measured until the platform died is accounted for.
        """
        self._work.mkdir(parents=True, exist_ok=True)
        self._place = self._opened.place(self._name, self._settings)
        clock = ClockWatch.start()
        with ExitStack() as closed, ExitStack() as stack:
            stack.callback(self._clear)
            needed = needs_registry(self._options.record, self._options.format)
            self._registry = stack.enter_context(registry_if(needed, self._options.registry))
            if self._site is not None:  # before the clients: the capture has to see their connections begin
                self._crossing = stack.enter_context(
                    self._site.crossing(self._work / f"{self._name}-link", self._asked())
                )
            self._tell("starting producers and consumers", 0.0, 0, 0)
            children = Children(self._record, self._work, stack, self._forks)
            consumers = [self._child(children, CONSUMER, index) for index in range(self._options.consumers)]
            producers = [self._child(children, PRODUCER, index) for index in range(self._options.producers)]
            for child in (*consumers, *producers):
                child.wait_for("ready", READY_S)
            found = self._go(children, consumers, producers)
            late = closed.enter_context(unhurried())  # what is open is closed in peace
        self._take_late(late, found.start_at_ns)
        found.clock_drift_ms = clock.drift_ms()
        found.killed, found.stopped, found.died = self._killed, self._stopped, self._died
        return found

    def _clear(self) -> None:
        """Remove what the platform holds; of one that has died it goes with its directory."""
        if self._died is None:
            self._opened.clear(self._place)

    def _asked(self) -> Asked:
        """Return what the link is asked."""
        asked = link_options(self._options)
        assert asked is not None
        return Asked(asked, self._options.seed if self._options.link_varies else None)

    def _shares(self) -> list[list[int]]:
        """Return the partitions of each consumer."""
        every = range(self._options.partitions)
        return [list(every)[index :: self._options.consumers] for index in range(self._options.consumers)]

    def _child(self, children: Children, role: str, index: int, *, again: bool = False) -> Child:
        name = f"{self._name}-{role}-{index}" + ("-again" if again else "")
        config = {
            "settings": self._settings,
            "index": index,
            "clients": clients_of(self._options, role),
            "place": self._place,
            "registry": self._registry,
            "out": str(self._out(role, index)),
            "outlives": self._outlives(role),
            "resumed": again,
        }
        if role == CONSUMER:
            config["partitions"] = self._shares()[index]
        if role == PRODUCER and self._options.rate is None and (room := self._row.room_bytes()) is not None:
            config["most_bytes"] = room / self._options.producers
        arguments = (module_of(role),)
        return children.start(ChildSpec(name, arguments, config, self._namespace(role)))

    def _namespace(self, role: str) -> str | None:
        """Return where clients of a role stand: producers at the far end of the link, consumers beside the platform."""
        if self._site is None:
            return None
        return self._site.producers_namespace if role == PRODUCER else self._site.host.namespace

    def _outlives(self, role: str) -> bool:
        """Return whether what clients of a role write must outlive them."""
        return self._kill is not None and self._kill.role == role

    def _out(self, role: str, index: int) -> Path:
        return self._work / f"{self._name}-{role}-{index}.bin"

    def _go(self, children: Children, consumers: list[Child], producers: list[Child]) -> Measured:
        watched = PlatformUsage(self._opened)
        start_at_ns = time.time_ns() + (LEAD_NS if self._crossing is None else LINK_LEAD_NS)
        if self._crossing is not None:
            self._crossing.begin(start_at_ns)
        for child in (*consumers, *producers):
            child.send("start", start_at_ns=start_at_ns)
        try:
            self._until_sent(children, consumers, producers, watched, start_at_ns)
        except Interrupted as signal:
            self._stop(signal, producers, start_at_ns)
        except PlatformDied as death:
            self._note(death, watched, start_at_ns)
            _end(producers)
        with self._closing(start_at_ns):
            return self._read(consumers, producers, watched, start_at_ns)

    def _stop(self, signal: Interrupted, producers: Sequence[Child], start_at_ns: int) -> None:
        """Let producers end with what they have sent; or raise the signal where that is not wanted, or cannot be closed."""
        out = self._killed is not None and not self._killed.back_at_ns
        if not self._accounts_stopped or out:
            raise signal
        self._stopped = Stopped(signal.number, self._over_s(start_at_ns))
        _end(producers)
        self._tell(f"{signal}: no more is sent; reading what was", self._stopped.after_s, 0, 0)

    def _note(self, death: PlatformDied, watched: PlatformUsage, start_at_ns: int) -> None:
        """Note that the platform has died: nobody looks at its processes any more."""
        self._died = Died(death.line, self._over_s(start_at_ns))
        watched.died()
        self._tell(f"{death.line}: accounting for what was sent", self._died.after_s, 0, 0)

    @contextmanager
    def _closing(self, start_at_ns: int) -> Iterator[None]:
        """Raise Interrupted at a second signal where one has stopped the sending; else let the block end, and take one down."""
        if self._stopped is not None:
            with again():
                yield
            return
        with unhurried() as late:
            yield
        self._take_late(late, start_at_ns)

    def _take_late(self, late: Late, start_at_ns: int) -> None:
        """Note a signal that came once all had been sent."""
        if late.number is None or self._stopped is not None:
            return
        if not self._accounts_stopped:
            raise Interrupted(late.number)
        self._stopped = Stopped(late.number, max(self._over_s(start_at_ns), self._options.duration_s))

    @staticmethod
    def _over_s(start_at_ns: int) -> float:
        return max(0.0, (time.time_ns() - start_at_ns) / 1e9)

    def _read(
        self,
        consumers: Sequence[Child],
        producers: Sequence[Child],
        watched: PlatformUsage,
        start_at_ns: int,
    ) -> Measured:
        """Wait for the last acknowledgement, let consumers come to the ends of their partitions, and read what all wrote."""
        options = self._options
        sent = [child.wait_for("done", END_S + producing.FLUSH_S) for child in producers]
        if self._outlives(PRODUCER):
            # What the library had counted is gone with the process.
            for one in sent:
                one["statistics"] = dict.fromkeys(one["statistics"])
        answered = not any(one["unanswered"] for one in sent)
        try:
            if self._died is None:
                self._until_ends(consumers, watched)
        except PlatformDied as death:
            self._note(death, watched, start_at_ns)
        spent_s, machine = watched.spent_s(), watched.machine()
        stored_bytes = self._stored_bytes(watched, start_at_ns)
        if self._died is not None:
            spent_s = watched.spent_s()  # it is not known of one that has died
        crossed = None if self._site is None or self._crossing is None else self._site.crossed(self._crossing)
        _end(consumers)  # one that stands still: what it has must do
        read = [child.wait_for("done", END_S) for child in consumers]
        complete = all(one["complete"] for one in read)
        produced = self._produced([one["records"] for one in sent])
        arrived = self._arrived([one["records"] for one in read])
        acknowledges = self._row.acknowledges(self._settings)
        return Measured(
            options,
            start_at_ns,
            close(produced, arrived, producers=options.producers, complete=complete, answered=answered),
            arrived,
            sent,
            read,
            complete,
            answered,
            acknowledges,
            spent_s,
            watched.peak_mib,
            machine,
            stored_bytes,
            crossed=crossed,
        )

    def _until_ends(self, consumers: Sequence[Child], watched: PlatformUsage) -> None:
        """Let consumers come to the ends of their partitions; PlatformDied where it has none any more."""
        ends = self._said(lambda: self._opened.ends(self._place))
        for child in consumers:
            child.send("until", offsets={str(partition): end for partition, end in ends.items()})
        self._until_read(consumers, watched)

    def _stored_bytes(self, watched: PlatformUsage, start_at_ns: int) -> int | None:
        """Return what the records take on disk; None of a platform that has died, also just now."""
        if self._died is not None:
            return None
        try:
            return self._said(lambda: self._opened.stored_bytes(self._place))
        except PlatformDied as death:
            self._note(death, watched, start_at_ns)
            return None

    def _said(self, ask: Callable[[], Answer]) -> Answer:
        """Return what the platform says; PlatformDied where it has died, whatever its client makes of that."""
        with _of_platform():
            self._opened.check()
            try:
                return ask()
            # Whatever its client says of a platform that dies just now: it is raised if that lives.
            except Exception:
                time.sleep(LOOK_S)  # its end is known once the kernel has told it
                self._opened.check()
                raise

    def _look(self, children: Sequence[Child]) -> None:
        with _of_platform():
            self._opened.check()
        if self._crossing is not None:
            self._crossing.check()
        for child in children:
            child.check()

    @staticmethod
    def _sum(children: Sequence[Child], name: str) -> int:
        return sum(int(child.latest.get("progress", {}).get(name, 0)) for child in children)

    def _until_sent(
        self,
        children: Children,
        consumers: list[Child],
        producers: list[Child],
        watched: PlatformUsage,
        start_at_ns: int,
    ) -> None:
        """Return once every producer has sent and flushed, and who was killed is back."""
        options, warm = self._options, False
        limit_s = options.duration_s + SEND_GRACE_S
        kill, clients = self._kill, {CONSUMER: consumers, PRODUCER: producers}
        while True:
            back = self._is_back(start_at_ns)
            if back and all("done" in child.latest for child in producers):
                return
            over_s = (time.time_ns() - start_at_ns) / 1e9
            if kill is not None and self._killed is None and over_s >= kill.at_s:
                with unhurried() as late:
                    self._do(kill, children, clients, watched)
                if late.number is not None:
                    raise Interrupted(late.number)
            if not warm and over_s >= options.warmup_s:
                warm = True
                watched.warm()
            watched.look()
            self._look((*consumers, *producers))
            if over_s > limit_s:
                raise NotReady(f"producers had not ended {SEND_GRACE_S:g} s after their last record was due")
            self._tell("sending", over_s, self._sum(producers, "sent"), self._sum(consumers, "received"))
            time.sleep(LOOK_S)  # memory is sampled, and so has a rate of its own

    def _do(
        self, kill: Kill, children: Children, clients: dict[str, list[Child]], watched: PlatformUsage
    ) -> None:
        """Kill, and begin to start another in its place."""
        if kill.role == BROKER:
            self._opened.kill(kill.which)
            watched.killed()
            self._killed = Killed(kill.role, kill.which, time.time_ns())
            return
        clients[kill.role][kill.which].kill()
        self._killed = Killed(kill.role, kill.which, time.time_ns())
        self._again = self._child(children, kill.role, kill.which, again=True)
        clients[kill.role][kill.which] = self._again

    def _is_back(self, start_at_ns: int) -> bool:
        """Return whether there is nobody, or nobody any more, who has to come back; let a client begin that has."""
        if self._kill is None:
            return True
        if self._killed is None:
            return False
        if not self._killed.back_at_ns:
            if self._again is None:
                with _of_platform():
                    back = self._opened.back(self._place)
            else:
                back = "ready" in self._again.latest
                if back:
                    self._again.send("start", start_at_ns=start_at_ns)
            if back:
                self._killed.back_at_ns = time.time_ns()
        return self._killed.back_at_ns > 0

    def _until_read(self, consumers: Sequence[Child], watched: PlatformUsage) -> None:
        """Return once every consumer has reached the ends, or none has come further for a while."""
        before, moved_s = -1, time.monotonic()
        while not all("done" in child.latest for child in consumers):
            self._look(consumers)
            watched.look()
            now = self._sum(consumers, "received")
            if now != before:
                before, moved_s = now, time.monotonic()
            if time.monotonic() - moved_s > STALL_S:
                return
            self._tell("reading the rest", self._options.duration_s, now, now)
            time.sleep(LOOK_S)  # as while sending

    def _produced(self, counts: Sequence[int]) -> Produced:
        producers = self._options.producers
        tables = [
            self._table(PRODUCER, index, count, len(producing.COLUMNS)) for index, count in enumerate(counts)
        ]
        numbers = [1 + index + np.arange(count) * producers for index, count in enumerate(counts)]
        number = np.concatenate(numbers).astype(np.int64)
        order = np.argsort(number, kind="stable")
        return Produced(number[order], *np.concatenate(tables, axis=1)[:, order])

    def _arrived(self, counts: Sequence[int]) -> Arrived:
        tables = [
            self._table(CONSUMER, index, count, len(consuming.COLUMNS)) for index, count in enumerate(counts)
        ]
        return Arrived(*np.concatenate(tables, axis=1))

    def _table(self, role: str, index: int, count: int, columns: int) -> Integers:
        """Return what a client wrote, (columns, records); of one that was killed and the next one together."""
        path = self._out(role, index)
        if not self._outlives(role):
            return _columns(path, count, columns)
        found = kept.mapped(path, columns, count) if role == PRODUCER else kept.journaled(path, columns)
        path.unlink()
        return found


def _end(clients: Sequence[Child]) -> None:
    """Let clients end with what they have done."""
    for child in clients:
        if "done" not in child.latest:
            child.send("stop")


def _columns(path: Path, count: int, columns: int) -> Integers:
    """Return what a client wrote, (columns, records)."""
    found = np.fromfile(path, np.int64)
    path.unlink()
    if found.size != count * columns:
        raise ProcessDied(path.stem, None, f"{path.name}: {found.size} values, not {columns} x {count}")
    return found.reshape(columns, count)
