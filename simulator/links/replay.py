"""Plays a plan on a link, second by second, and keeps what was asked, when it held and what was counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from simulator.links.base import Applied, Conditions, Link, LinkError
from simulator.links.step_log import Second, StepLog
from simulator.priority import go_first

SECOND_NS: Final = 1_000_000_000
# So long before its time a change is handed over: neither whoever holds this process's lock then makes it late, nor reading a
# large fleet's counts.
AHEAD_NS: Final = 300_000_000
_ANSWER_S: Final = 1.0  # of a link that may be gone
LINK_STEPS: Final = "link.steps"  # what a run names the file of its replay's steps
Schedule = Callable[[int], Conditions]  # second from the start -> every vehicle's conditions


class LinkReplay(threading.Thread):
    """A thread that sets all vehicles each second from `start_at_ns` (wall clock) until it is left.

    A context manager. The conditions of second 0 are set on entering, so that connections before the start
    already meet the link. An error of the link ends the replay and is kept in `failure`. Of what was played, memory has
    the step in force; the others are in a file.

    Args:
        path: of that file, whose directory exists; who removes the directory removes it.
    """

    def __init__(self, link: Link, schedule: Schedule, start_at_ns: int, path: Path) -> None:
        super().__init__(name="link-replay", daemon=True)
        self._link = link
        self._schedule = schedule
        self._start_at_ns = start_at_ns
        self._stopped = threading.Event()
        # A change that is answered when nobody waits for it any more is not noted.
        self._noting, self._left = threading.Lock(), False
        self._log = StepLog(path)
        self._step: Second | None = None  # in force
        self._played = 0
        self._longest_update_ns = 0
        self._latest_ns: int | None = None
        self._scheduling: str | None = None
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        self._change(-1, self._schedule(0), time.time_ns())()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self) -> None:
        try:
            # This thread alone: Linux takes a thread where it is asked about a process (sched_setscheduler(2), 0).
            self._scheduling = go_first()
            self._play()
        except Exception as error:  # noqa: BLE001 - a thread's error must reach its owner
            self.failure = error

    def _play(self) -> None:
        second = 0
        while True:
            due_at_ns = self._start_at_ns + second * SECOND_NS
            change = self._change(second, self._schedule(second), due_at_ns)
            if self._stopped.wait(max(0.0, (due_at_ns - AHEAD_NS - time.time_ns()) / 1e9)):
                return
            change()
            second += 1

    def _change(self, second: int, asked: Conditions, due_at_ns: int) -> Callable[[], None]:
        """Return what makes the change to a second when it is due, and notes how it went."""
        due_s = time.monotonic() + (due_at_ns - time.time_ns()) / 1e9
        apply = self._link.prepare(asked, due_s, count=second >= 0)

        def change() -> None:
            applied = apply()
            with self._noting:
                if not self._left:
                    noted(applied)

        def noted(applied: Applied) -> None:
            began_ns, ended_ns, counted_at_ns = (
                due_at_ns + round((at_s - due_s) * 1e9)
                for at_s in (applied.began_s, applied.ended_s, applied.counted_s)
            )
            over, self._step = self._step, Second(second, asked, due_at_ns, ended_ns, ended_ns - began_ns)
            if second >= 0:
                self._played += 1
                self._longest_update_ns = max(self._longest_update_ns, ended_ns - began_ns)
                late_ns = ended_ns - due_at_ns
                self._latest_ns = late_ns if self._latest_ns is None else max(self._latest_ns, late_ns)
            if over is not None:
                over.counters, over.counted_at_ns = applied.counts, counted_at_ns
                self._log.append(over)

        return change

    def _count(self) -> None:
        """Take the counts that end the step in force."""
        assert self._step is not None
        self._step.counters = self._link.counters()
        self._step.counted_at_ns = time.time_ns()

    def stop(self, *, counted: bool = True) -> None:
        """End the replay and take the last counts; the link's conditions stay as they are.

        Args:
            counted: whether the link still answers; otherwise the step in force has no counts.
        """
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.join(None if counted else _ANSWER_S)
        with self._noting:
            self._left = True
        if self.failure is None and counted:
            try:
                self._count()
            except LinkError as error:
                self.failure = error
        if self._step is not None:
            try:
                self._log.append(self._step)
            except OSError as error:
                self.failure = self.failure or error

    def properties(self) -> dict[str, Any]:
        """Return how punctual the replay was, for the manifest."""
        return {
            "steps": self._played,
            "update_max_ms": round(self._longest_update_ns / 1e6, 3),
            "applied_late_max_ms": round((self._latest_ns or 0) / 1e6, 3),
            "scheduling": self._scheduling,
            "failure": None if self.failure is None else str(self.failure),
        }

    def rows(self) -> StepLog:
        """Return the part of link.parquet that the link knows, a row a second, vehicle and direction; once it has stopped."""
        return self._log
