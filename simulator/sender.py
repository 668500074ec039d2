"""`python -m simulator.sender CONFIG.json`: sends what is due when it is due, whatever became of the last.

Open loop: the schedule comes from the seed, and nothing that happens to a message may move another. Four things would:
building a vehicle (2 ms with its first payload), making payloads (some milliseconds for a block of 128), the collector's
pauses, and answers that are read in the same loop. So vehicles are built before they connect; messages are prepared
ahead, up to five seconds or 20,000 of them, and only while nothing is due before that is done; the collector runs in
quiet moments alone; and the alarm is a timer of the kernel on the wall clock (`wakeup`), since the event loop rounds to
milliseconds. What is late all the same is not hidden: `emitted_at_ns` stands beside `due_at_ns` in the log, and the
report shows the lag. Latency counts from when a message was due.

Every event goes to the emission log, which is flushed each 50 ms and crash-safe: a sender that is killed leaves rows
that say `unsent`, not holes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from gateways.protocols.backoff import Backoff
from schemas.config import read_config
from schemas.control import Commands, emit, failure_line
from schemas.errors import Refusal
from simulator.echo import Echo
from simulator.emission_log import EmissionLog, Kind
from simulator.fleet import Emission, Fleet
from simulator.garbage import QuietCollector
from simulator.priority import go_first
from simulator.sender_config import SenderConfig
from simulator.vehicle_sender import Totals, VehicleSender
from simulator.wakeup import Wakeup

_MILLISECOND_NS = 1_000_000
_AHEAD_NS = 5_000 * _MILLISECOND_NS
_AHEAD_MESSAGES = 20_000
# None is prepared when the next one is due this soon, or sooner than the longest of the last preparations took: most take
# some microseconds, one in a hundred makes a block of payloads. What took longer than this was held up by others.
_QUIET_NS = 2 * _MILLISECOND_NS
_LONGEST_NS = 20 * _MILLISECOND_NS
_SLICE_NS = _MILLISECOND_NS
_BUILD_SLICE_S = 0.02
# What is sent in one go when much is overdue. After it the loop reads what peers have answered: a sender that only sends
# leaves acknowledgements unread, and with them the places in the receive window that it waits for.
_AT_ONCE = 64
_FLUSH_S = 0.05
_PROGRESS_S = 0.5
_CONNECTING_AT_ONCE = 200
_CONNECTED_POLL_S = 0.02
_NOTHING_DUE_NS = 1_000 * _MILLISECOND_NS


class Sender:
    """All vehicles of one process, from connecting to taking leave."""

    def __init__(self, config: SenderConfig) -> None:
        self._config = config
        self._protocol, self._mode = config.rows()
        self._log = EmissionLog(Path(config.events_path))
        self.totals = Totals()
        self._gate = asyncio.Semaphore(_CONNECTING_AT_ONCE)
        self._vehicle_senders = {vehicle: self._vehicle_sender(vehicle) for vehicle in config.numbers()}
        self._echoes = (
            {vehicle: self._echo(vehicle) for vehicle in config.numbers()}
            if config.topology == "echo"
            else {}
        )
        self._fleet = Fleet(config.scenario, config.vehicles)
        self._prepared: deque[Emission] = deque()
        self._coming: Iterator[Emission] = iter(())
        self._exhausted = False
        self._refilling = False
        self._longest_ns = _QUIET_NS
        self._start_at_ns = 0
        self._cpu_at_start_s: float | None = None
        self._sent_all = asyncio.Event()
        self._wakeup = Wakeup(self._ring)
        self._collector = QuietCollector()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> int:
        """Build every vehicle, then connect it and its receiver; return how many vehicles there are.

        Raises Refusal when not all are connected at once within `connect_wait_s`: a run that begins with a part of its
        fleet offline measures something else.
        """
        self._tasks = [_in_background("the emission log", self._flush_forever())]
        await self._build()
        opening = [end.open() for end in self._ends()]
        try:
            async with asyncio.timeout(self._config.connect_wait_s):
                await asyncio.gather(*opening)
                while True:
                    if self._all_connected():
                        break
                    await asyncio.sleep(_CONNECTED_POLL_S)
        except TimeoutError:
            raise Refusal(self._missing()) from None
        self._collector.begin()
        return self.totals.connected

    async def _build(self) -> None:
        """Build the vehicles before anything is connected; a command to stop is heard meanwhile."""
        slice_ends_s = time.monotonic() + _BUILD_SLICE_S
        for _ in self._fleet.build():
            if time.monotonic() >= slice_ends_s:
                await asyncio.sleep(0)
                slice_ends_s = time.monotonic() + _BUILD_SLICE_S

    def _ends(self) -> list[VehicleSender | Echo]:
        return [*self._vehicle_senders.values(), *self._echoes.values()]

    def _all_connected(self) -> bool:
        return self.totals.connected == len(self._vehicle_senders) and self.totals.subscribed == len(
            self._echoes
        )

    def _missing(self) -> str:
        """Say how many are not connected, and why the first of them is not."""
        connected, wanted = self.totals.connected, len(self._vehicle_senders)
        what = f"{wanted - connected} of {wanted} vehicles are"
        if connected == wanted:
            wanted = len(self._echoes)
            what = f"{wanted - self.totals.subscribed} of {wanted} receivers beside the vehicles are"
        reason = next((end.trouble for end in self._ends() if end.trouble), "no answer")
        where = f"{self._config.host}:{self._config.port}"
        return f"{what} not connected to {where} within {self._config.connect_wait_s:g} s: {reason}"

    def start(self, at_ns: int) -> None:
        """Begin: offset 0 of the scenario is `at_ns` on the wall clock."""
        self._start_at_ns = at_ns
        self._cpu_at_start_s = time.process_time()
        self._log.note(Kind.STARTED, 0, at_ns, epoch=self._config.scenario.epoch)
        self._coming = self._fleet.emissions(at_ns)
        self._refill()

    async def finish(self) -> bool:
        """Wait until everything is sent and acknowledged; False when the time for that is over first.

        What still waits in a vehicle `drain_s` after the last message was due is given up, and is `unsent`. What was
        sent has `drain_s` from its own emission, so that a message that left late is not cut off before the others.
        """
        await self._sent_all.wait()
        drain_ns = round(self._config.drain_s * 1e9)
        outboxes_to_ns = time.time_ns() + drain_ns
        while not self._drained():
            now_ns = time.time_ns()
            if now_ns >= outboxes_to_ns:
                for vehicle_sender in self._vehicle_senders.values():
                    vehicle_sender.give_up()
                if now_ns >= self.totals.last_emitted_at_ns + drain_ns:
                    return False
            await asyncio.sleep(0.02)
        return True

    async def close(self) -> None:
        """Take leave of the peers and close the log; what was not due yet stays `unsent`."""
        self._wakeup.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(echo.close() for echo in self._echoes.values()))
        await asyncio.gather(*(vehicle_sender.close() for vehicle_sender in self._vehicle_senders.values()))
        self._log.close()
        self._collector.end()

    def cpu_s(self) -> float | None:
        """Return the CPU of this process since the start; None before it."""
        return None if self._cpu_at_start_s is None else time.process_time() - self._cpu_at_start_s

    def numbers(self) -> dict[str, int]:
        return dataclasses.asdict(self.totals)

    def _backoff(self, vehicle: int, what: str) -> Backoff:
        config = self._config
        return Backoff(
            config.reconnect_first_s,
            config.reconnect_most_s,
            random.Random(f"{config.scenario.seed}/{vehicle}/{what}"),
        )

    def _vehicle_sender(self, vehicle: int) -> VehicleSender:
        config = self._config
        vehicle_sender = VehicleSender(
            vehicle,
            self._log,
            self.totals,
            backoff=self._backoff(vehicle, "reconnect"),
            limit=config.outbox_limit,
            policy=config.outbox_policy,
            gate=self._gate,
        )
        vehicle_sender.client = self._protocol.vehicle_client(
            config.endpoint(vehicle), vehicle, self._mode, vehicle_sender, config.settings(vehicle)
        )
        return vehicle_sender

    def _echo(self, vehicle: int) -> Echo:
        config = self._config
        echo = Echo(
            vehicle,
            config.scenario.epoch,
            config.scenario.payload_format,
            self._log,
            self.totals,
            backoff=self._backoff(vehicle, "resubscribe"),
            gate=self._gate,
        )
        echo.subscriber = self._protocol.subscriber(
            config.endpoint(vehicle), vehicle, self._mode, echo, config.settings(vehicle)
        )
        return echo

    def _ring(self) -> None:
        """Offer what is due, at most `_AT_ONCE` in one go; nothing else happens here, since each microsecond is lag."""
        prepared = self._prepared
        start_at_ns = self._start_at_ns
        for _ in range(_AT_ONCE):
            if not prepared or start_at_ns + prepared[0].due_offset_ns > time.time_ns():
                break
            emission = prepared.popleft()
            self._vehicle_senders[emission.vehicle].offer(emission)
        self._arm()
        if not self._refilling and not self._exhausted:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _arm(self) -> None:
        if self._prepared:
            self._wakeup.arm(self._start_at_ns + self._prepared[0].due_offset_ns)
        elif self._exhausted:
            self._sent_all.set()

    def _refill(self) -> None:
        """Prepare payloads ahead, in slices, while nothing is due soon."""
        self._refilling = False
        begun_at_ns = now_ns = time.time_ns()
        was_empty = not self._prepared
        while now_ns - begun_at_ns < _SLICE_NS or not self._prepared:
            if self._full(now_ns):
                break
            emission = next(self._coming, None)
            if emission is None:
                self._exhausted = True
                break
            self._prepared.append(emission)
            before_ns, now_ns = now_ns, time.time_ns()
            took_ns = min(now_ns - before_ns, _LONGEST_NS)
            self._longest_ns = max(took_ns, self._longest_ns - self._longest_ns // 1_024)
        if was_empty:
            self._arm()
        if not self._exhausted and not self._refilling and len(self._prepared) < _AHEAD_MESSAGES:
            self._refill_later(now_ns)

    def _full(self, now_ns: int) -> bool:
        """Say whether enough is prepared, or the next message is too close to begin another.

        What is overdue all the same is prepared together for a slice, and then sent: one at a time would cost the loop's
        own round each.
        """
        if not self._prepared:
            return False
        first_ns = self._start_at_ns + self._prepared[0].due_offset_ns - now_ns
        last_ns = self._start_at_ns + self._prepared[-1].due_offset_ns - now_ns
        if first_ns <= 0:
            return last_ns > 0
        return (
            first_ns < max(_QUIET_NS, self._longest_ns)
            or last_ns > _AHEAD_NS
            or len(self._prepared) >= _AHEAD_MESSAGES
        )

    def _refill_later(self, now_ns: int) -> None:
        """Go on at once while there is too little; `_ring` calls again otherwise."""
        if not self._full(now_ns):
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _drained(self) -> bool:
        if self._config.topology == "echo" and self.totals.received < self.totals.emitted:
            return False
        return all(vehicle_sender.idle() for vehicle_sender in self._vehicle_senders.values())

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self._log.flush()
            self._collector.offer(self._quiet_ns())

    def _quiet_ns(self) -> int:
        """Return how long nothing is due."""
        if not self._prepared:
            return _NOTHING_DUE_NS
        return self._start_at_ns + self._prepared[0].due_offset_ns - time.time_ns()


async def run(config: SenderConfig) -> int:
    """Obey the owner until everything is sent, or told to stop, or alone."""
    scheduling = go_first()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    failures: list[str] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End rather than go on with a part missing: a silent vehicle would look like a lossy network."""
        loop.default_exception_handler(context)
        failures.append(failure_line(context))
        stop.set()

    loop.set_exception_handler(failed)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sender = Sender(config)
    tasks: list[asyncio.Task[Any]] = []
    try:
        opening = asyncio.ensure_future(sender.open())
        tasks.append(opening)
        await _first(stop.wait(), asyncio.wait((opening,)))
        if not stop.is_set():
            connected = await opening
            emit("ready", vehicles=len(config.numbers()), connected=connected, scheduling=scheduling)
            tasks += [
                _in_background("a command", _obey(sender, stop)),
                _in_background("the progress report", _report(sender)),
            ]
            await _first(stop.wait(), sender.finish())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await sender.close()
    if failures:
        emit("error", message=failures[0])
        return 1
    emit("done", stopped=stop.is_set(), cpu_s=sender.cpu_s(), **sender.numbers())
    return 0


def _in_background(what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task whose failure ends the process as an error that nobody expected."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": f"{what} failed", "exception": error}
            task.get_loop().call_exception_handler(context)

    task = asyncio.ensure_future(work)
    task.add_done_callback(ended)
    return task


async def _first(*waits: Any) -> None:
    """Wait for the first of several to end; the rest are given up."""
    pending = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _obey(sender: Sender, stop: asyncio.Event) -> None:
    commands = await Commands.open()
    while (command := await commands.next()) is not None:
        if command.get("command") == "start":
            sender.start(int(command["at_ns"]))
        elif command.get("command") == "stop":
            break
    stop.set()


async def _report(sender: Sender) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", **sender.numbers())


def main(argv: list[str]) -> int:
    """Return 0 after the work or a stop, 2 for a refusal."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    if len(argv) != 1:
        emit("error", message="usage: python -m simulator.sender CONFIG.json")
        return 2
    try:
        return asyncio.run(run(read_config(argv[0], SenderConfig)))
    except Refusal as refusal:
        emit("error", message=str(refusal))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
