"""A sender process on an agent, as its run sees one of its own: commands, events, the end; its log is written here."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ivsim.agents.clocks import ClockLine
from ivsim.agents.log_times import by_our_clock, events_of
from ivsim.agents.messages import Command, Ended, Event, Log, Message, ProtocolError
from ivsim.testbed.child import KEPT_EVENTS
from ivsim.testbed.process import NotReady, ProcessDied
from simulator.emission_table import read_events

_STOP_S: Final = 30.0


class AgentLost(ProcessDied):
    """The agent of a sender is gone: whether it has sent what its log does not say any more nobody knows."""

    def __init__(self, name: str, agent: str, reason: str) -> None:
        super().__init__(name, None, None)
        self.line = f"{name} on agent {agent} is lost: {reason}"
        self.args = (self.line,)


class RemoteSender:
    """One sender of an agent.

    Args:
        name: of the sender in its run.
        number: by which the agent knows it.
        agent: address of the agent, for people.
        say: sends a message to the agent.
        log: takes the emission log by our clock, as it comes; live figures are read from it.
        raw: takes it by the agent's clock.

    Attributes:
        latest: the newest event of each name.
        ahead_ns: how far the agent's clock is ahead, as far as is known by now.
    """

    def __init__(
        self, name: str, number: int, agent: str, say: Callable[[Message], None], *, log: Path, raw: Path
    ) -> None:
        self.name, self.number, self.agent = name, number, agent
        self._say, self.log, self._raw = say, log, raw
        self.latest: dict[str, dict[str, Any]] = {}
        self.ahead_ns = 0
        self._waiting: defaultdict[str, deque[dict[str, Any]]] = defaultdict(
            lambda: deque(maxlen=KEPT_EVENTS)
        )
        self._changed = threading.Condition()
        self._ended: Ended | None = None
        self._lost = ""

    def take(self, message: Message) -> None:
        """Take what the agent says of this sender; ProtocolError for what it cannot say."""
        match message:
            case Log():
                self._append(message.content())
            case Event():
                name = str(message.event.get("event"))
                with self._changed:
                    self.latest[name] = message.event
                    self._waiting[name].append(message.event)
                    self._changed.notify_all()
            case Ended():
                with self._changed:
                    self._ended = message
                    self._changed.notify_all()
            case _:
                raise ProtocolError(f"{message.type}: that is no word of a sender")

    def lose(self, reason: str) -> None:
        """Learn that the agent is gone."""
        with self._changed:
            self._lost = self._lost or reason
            self._changed.notify_all()

    def send(self, command: str, **fields: Any) -> None:
        """Send one command; a start is told how far the agent's clock is ahead. ProcessDied when nobody is there."""
        self._check_there()
        if command == "start":
            fields["clock_ahead_ns"] = self.ahead_ns
        self._say(Command(sender=self.number, command={"command": command, **fields}))
        self._check_there()

    def wait_for(self, event: str, timeout_s: float) -> dict[str, Any]:
        """Return the next `event`; ProcessDied when the sender or its agent ends before it, NotReady after `timeout_s`."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while not self._waiting[event]:
                if self._lost or self._ended is not None or "error" in self.latest:
                    raise self._death()
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise NotReady(
                        f"{self.name} on agent {self.agent} did not report {event!r} in {timeout_s:g} s"
                    )
                self._changed.wait(left_s)
            return self._waiting[event].popleft()

    def running(self) -> bool:
        """Say whether it may still send."""
        return not self._lost and self._ended is None

    def gone(self) -> bool:
        """Say whether its agent is lost and it has not ended before: its log may lack what it did last."""
        return bool(self._lost) and self._ended is None

    def check(self) -> None:
        """Raise ProcessDied when it has ended without a "done", or has reported an error; AgentLost with its agent."""
        with self._changed:
            done = self._ended is not None and "done" in self.latest
            if "error" in self.latest or (not self.running() and not done):
                raise self._death()

    def stop(self, timeout_s: float = _STOP_S) -> int:
        """Let it end, and return its exit code once its whole log is here; 0 where its agent is lost, which `check` says."""
        if self.running():
            self._say(Command(sender=self.number, command={"command": "stop"}))
        with self._changed:
            self._changed.wait_for(lambda: not self.running(), timeout_s)
            if self._ended is None:
                self._lost = self._lost or f"it has not ended {self.name} within {timeout_s:g} s"
                return 0
            return self._ended.exit_code

    def translate(self, line: ClockLine) -> None:
        """Write the log anew, by what is known of the agent's clock over the whole run."""
        if self._raw.exists():
            part = self.log.with_name(self.log.name + ".part")
            part.write_bytes(by_our_clock(read_events(self._raw), line.ours).tobytes())
            part.replace(self.log)

    def _append(self, records: bytes) -> None:
        try:
            events = events_of(records)
        except ValueError as error:
            raise ProtocolError(f"log: {error}") from None
        ahead_ns = self.ahead_ns
        live = by_our_clock(events, lambda theirs_ns: theirs_ns - ahead_ns)
        for path, content in ((self._raw, records), (self.log, live.tobytes())):
            with path.open("ab") as file:
                file.write(content)

    def _check_there(self) -> None:
        if not self.running():
            raise self._death()

    def _death(self) -> ProcessDied:
        if self.gone():
            return AgentLost(self.name, self.agent, self._lost)
        ended = self._ended
        name = f"{self.name} on agent {self.agent}"
        if message := str(self.latest.get("error", {}).get("message", "")):
            return ProcessDied(name, None if ended is None else ended.exit_code, message)
        if ended is None:
            return ProcessDied(name, None, None)
        # One that has ended as if all was well is asked for no words.
        return ProcessDied(name, ended.exit_code, ended.words if ended.exit_code else None)
