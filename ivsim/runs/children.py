"""Our own processes of one run: each is started from its specification, and may be killed and started again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from ivsim.testbed.child import Child, Event, write_config
from ivsim.testbed.forked import ForkedChild, ForkServer
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.control import LAST_WORDS

READY_S = 90.0


@dataclass(frozen=True)
class ChildSpec:
    """How one process is started.

    Attributes:
        name: its name in the run, which is also that of its log and its configuration.
        arguments: module and words before the configuration file.
        config: what it is told.
        namespace: the network namespace it is born in; None is the host's.
    """

    name: str
    arguments: tuple[str, ...]
    config: BaseModel | dict[str, Any]
    namespace: str | None = None


class Part(Protocol):
    """A process of a run as its owner speaks to it, on this machine or another (see `Child`)."""

    name: str
    latest: dict[str, Event]

    def send(self, command: str, **fields: Any) -> None: ...

    def wait_for(self, event: str, timeout_s: float) -> Event: ...

    def check(self) -> None: ...

    def running(self) -> bool: ...

    def stop(self) -> int: ...


class Children:
    """The processes of one run by name, in the order in which they were started; `stack` stops them in reverse.

    With `forks` they are forked of it, and leave no last words.

    Whose process is on another machine is known by `part` alone: its owner there stops it.

    Attributes:
        down: names of processes, of servers too, that are down on purpose.
        dead: how processes ended whose end the run survives.
    """

    def __init__(
        self, record: RunRecord, work: Path, stack: ExitStack, forks: ForkServer | None = None
    ) -> None:
        self._record, self._work, self._stack, self._forks = record, work, stack, forks
        self._specs: dict[str, ChildSpec] = {}
        self._running: dict[str, Child] = {}
        self._elsewhere: dict[str, Part] = {}
        self.down: set[str] = set()
        self.dead: dict[str, ProcessDied] = {}

    def __getitem__(self, name: str) -> Child:
        return self._running[name]

    def __iter__(self) -> Iterator[Child]:
        return iter(tuple(self._running.values()))

    def get(self, name: str) -> Child | None:
        """Return a process by name, None where the run has none such."""
        return self._running.get(name)

    def part(self, name: str) -> Part:
        """Return a process by name, wherever it is."""
        return self._elsewhere[name] if name in self._elsewhere else self._running[name]

    def adopt(self, part: Part) -> None:
        """Take in a process that is on another machine."""
        self._elsewhere[part.name] = part

    def start(self, spec: ChildSpec) -> Child:
        """Start a process with its configuration in a file that only its owner reads; it is not yet ready."""
        before = self._running.get(spec.name)
        if before is not None and not before.running():
            before.stop()  # lets go of its pipes
        path = self._work / f"{spec.name}.json"
        write_config(path, spec.config)
        arguments = [*spec.arguments, str(path)]
        if self._forks is not None:
            child: Child = ForkedChild(
                self._forks, spec.name, arguments, self._record, namespace=spec.namespace
            )
        else:
            last_words = last_words_of(self._work, spec.name)
            last_words.unlink(missing_ok=True)  # of one of its name that was before
            environment = {LAST_WORDS: str(last_words)}
            child = Child(
                spec.name, arguments, self._record, namespace=spec.namespace, environment=environment
            )
        self._specs[spec.name] = spec
        self._running[spec.name] = child
        self._stack.callback(child.stop)
        return child

    def restart(self, name: str) -> None:
        """Start again a process that has ended, with the same configuration; return once it is ready."""
        self.relaunch(name).wait_for("ready", READY_S)

    def relaunch(self, name: str) -> Child:
        """Begin to start again a process that has ended, with the same configuration; it is not yet ready."""
        return self.start(self._specs[name])

    def check(self) -> None:
        """Raise ProcessDied when a process has ended that is not down on purpose, and whose end is not known yet."""
        for child in self:
            if child.name not in self.down and child.name not in self.dead:
                child.check()

    def spare(self, names: Sequence[str]) -> None:
        """Note which of these have died; ProcessDied, the last one's, when none of them lives any more."""
        for name in names:
            if name in self.dead:
                continue
            try:
                self.part(name).check()
            except ProcessDied as death:
                if len(self.dead.keys() & set(names)) == len(names) - 1:
                    raise
                self.dead[name] = death


def last_words_of(work: Path, name: str) -> Path:
    """Return where a process leaves its event `done`, too: there is the file if it came to its end, whoever was there."""
    return work / f"{name}.done.json"
