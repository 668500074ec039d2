"""Our own Python child processes and the lines of JSON they speak; it decides nothing about the run."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ivsim.testbed.process import NotReady, OwnedProcess, ProcessDied
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import write_secret

Event = dict[str, Any]
# Of each name that nobody waits for: a run's parts tell their progress twice a second.
KEPT_EVENTS = 10
READER_TIMEOUT_S = 5.0


class Child(OwnedProcess):
    """`python -m MODULE ARGUMENTS`, its events on standard output and its log on standard error.

    Events of one name are handed out in order, each once, by `wait_for`; of those that nobody waits for the newest
    `KEPT_EVENTS` are kept. `latest` is the newest of each.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        record: RunRecord,
        *,
        namespace: str | None = None,
        environment: Mapping[str, str] | None = None,
        stop_timeout_s: float = 30.0,  # a gateway has 10 s for what it holds, and as many for its share of a group
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        super().__init__(
            name,
            [sys.executable, "-m", *arguments],
            record,
            namespace=namespace,
            environment=environment,
            pipes=True,
            stop_timeout_s=stop_timeout_s,
        )
        self.latest: dict[str, Event] = {}
        self._waiting: defaultdict[str, deque[Event]] = defaultdict(lambda: deque(maxlen=KEPT_EVENTS))
        self._changed = threading.Condition()
        self._ended = False
        self._on_event = on_event
        self._reader = threading.Thread(target=self._read, name=f"events of {name}", daemon=True)
        self._reader.start()

    def send(self, command: str, **fields: Any) -> None:
        """Send one command; ProcessDied when nobody reads any more."""
        pipe = self.popen.stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps({"command": command, **fields}) + "\n")
            pipe.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._death() from error

    def wait_for(self, event: str, timeout_s: float) -> Event:
        """Return the next `event`.

        ProcessDied when the child ends, or reports an error, before it; NotReady after `timeout_s`.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not self._waiting[event]:
                if self._ended or "error" in self.latest:
                    raise self._death()
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise NotReady(f"{self.name} did not report {event!r} within {timeout_s:g} s")
                self._changed.wait(left_s)
            return self._waiting[event].popleft()

    def check(self) -> None:
        """Raise ProcessDied when the child has ended without a "done", or has reported an error."""
        gone = not self.running()
        with self._changed:
            if gone:  # its last words may still be on their way from the pipe
                self._changed.wait_for(lambda: self._ended, READER_TIMEOUT_S)
            if "error" in self.latest or (gone and "done" not in self.latest):
                raise self._death()

    def forget_error(self) -> None:
        """Listen again to a child that has reported an error and lives on."""
        with self._changed:
            self.latest.pop("error", None)

    def stop(self, timeout_s: float | None = None) -> int:
        """Ask the child to stop, by command and end of file; then as every other process."""
        limit_s = self.stop_timeout_s if timeout_s is None else timeout_s
        pipe = self.popen.stdin
        if self.running() and pipe is not None and not pipe.closed:
            with contextlib.suppress(ProcessDied):
                self.send("stop")
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
            self.wait_end(limit_s)
        return super().stop(READER_TIMEOUT_S)

    def _drained(self) -> None:
        # The reader must have left the pipe before it is closed below it.
        self._reader.join(READER_TIMEOUT_S)

    def _death(self) -> ProcessDied:
        message = str(self.latest.get("error", {}).get("message", ""))
        # End of file comes a moment before the end.
        code = self._end() if self.wait_end(1.0) else None
        return ProcessDied(self.name, code, message) if message else self.death(code)

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.log_path.open("a") as log:
            for line in self.popen.stdout:
                event = _event(line)
                if event is None:
                    log.write(line)  # a library's own print: it belongs to the log
                    log.flush()
                else:
                    self._take(event)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, event: Event) -> None:
        with self._changed:
            self.latest[event["event"]] = event
            self._waiting[event["event"]].append(event)
            self._changed.notify_all()
        if self._on_event is not None:
            self._on_event(event)


def write_config(path: Path, config: BaseModel | Mapping[str, Any]) -> None:
    """Write what a child is told as the JSON that it reads; its owner alone reads it, too: there may be passwords in it."""
    write_secret(path, config.model_dump_json() if isinstance(config, BaseModel) else json.dumps(config))


def _event(line: str) -> Event | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None
