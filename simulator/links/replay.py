"""Plays a plan on a link, second by second, and keeps what was asked, when it held and what was counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from schemas.topics import vehicle_id
from simulator.links.base import DIRECTIONS, Conditions, Direction, Link, LinkCounter, LinkError

SECOND_NS: Final = 1_000_000_000
Schedule = Callable[[int], Conditions]  # second from the start -> every vehicle's conditions


@dataclass
class Second:
    """One step of the replay.

    Attributes:
        second: its number; -1 holds what was set before the start.
        asked: the conditions of every vehicle.
        due_at_ns: when the step should begin; `applied_at_ns`: when the kernel had all of it.
        update_ns: how long the change took.
        counters: the kernel's counts at the end of the step, since the link was opened.
        counted_at_ns: when they were read; a large fleet's take some time before the next change.
    """

    second: int
    asked: Conditions
    due_at_ns: int
    applied_at_ns: int
    update_ns: int
    counters: list[LinkCounter] = field(default_factory=list)
    counted_at_ns: int = 0


class _Totals(NamedTuple):
    bytes: int = 0
    packets: int = 0
    drops: int = 0
    queue_drops: int = 0


class LinkReplay(threading.Thread):
    """A thread that sets all vehicles each second from `start_at_ns` (wall clock) until it is left.

    A context manager. The conditions of second 0 are set on entering, so that connections before the start
    already meet the link. An error of the link ends the replay and is kept in `failure`.
    """

    def __init__(self, link: Link, schedule: Schedule, start_at_ns: int) -> None:
        super().__init__(name="link-replay", daemon=True)
        self._link = link
        self._schedule = schedule
        self._start_at_ns = start_at_ns
        self._stopped = threading.Event()
        self.steps: list[Second] = []
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        self._apply(-1, self._schedule(0), time.time_ns())
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self) -> None:
        try:
            self._play()
        except Exception as error:  # noqa: BLE001 - a thread's error must reach its owner
            self.failure = error

    def _play(self) -> None:
        second, lead_ns = 0, 0
        while True:
            due_at_ns = self._start_at_ns + second * SECOND_NS
            asked = self._schedule(second)
            # Reading a large fleet's counters takes time that the next change must not wait for.
            if self._wait_until(due_at_ns - lead_ns):
                return
            lead_ns = min(SECOND_NS // 2, self._count())
            if self._wait_until(due_at_ns):
                return
            self._apply(second, asked, due_at_ns)
            second += 1

    def _wait_until(self, at_ns: int) -> bool:
        """Return True when stopped before the time has come."""
        return self._stopped.wait(max(0.0, (at_ns - time.time_ns()) / 1e9))

    def _count(self) -> int:
        """Take the counts that end the step in force; return how long that took, and half as much again."""
        began = time.perf_counter_ns()
        self.steps[-1].counters = self._link.counters()
        self.steps[-1].counted_at_ns = time.time_ns()
        return (time.perf_counter_ns() - began) * 3 // 2

    def _apply(self, second: int, asked: Conditions, due_at_ns: int) -> None:
        began = time.perf_counter_ns()
        self._link.update(asked)
        took = time.perf_counter_ns() - began
        self.steps.append(Second(second, asked, due_at_ns, time.time_ns(), took))

    def stop(self) -> None:
        """End the replay and take the last counts; the link's conditions stay as they are."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.join()
        if self.failure is None:
            try:
                self._count()
            except LinkError as error:
                self.failure = error

    def properties(self) -> dict[str, Any]:
        """Return how punctual the replay was, for the manifest."""
        played = [step for step in self.steps if step.second >= 0]
        late = [(step.applied_at_ns - step.due_at_ns) / 1e6 for step in played]
        return {
            "steps": len(played),
            "update_max_ms": round(max((s.update_ns for s in played), default=0) / 1e6, 3),
            "applied_late_max_ms": round(max(late, default=0.0), 3),
            "failure": None if self.failure is None else str(self.failure),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per second, vehicle and direction: the part of link.parquet that the link knows.

        Counts are those of the step alone; null on a link that does not count.
        """
        rows: list[dict[str, Any]] = []
        before: dict[tuple[int, Direction], _Totals] = {}
        for step in self.steps:
            found = {(c.vehicle, c.direction): c for c in step.counters}
            if step.second >= 0:
                rows += _rows(step, found, before)
            before = {key: _Totals(c.bytes, c.packets, c.drops, c.queue_drops) for key, c in found.items()}
        return rows


def _rows(
    step: Second,
    found: dict[tuple[int, Direction], LinkCounter],
    before: dict[tuple[int, Direction], _Totals],
) -> list[dict[str, Any]]:
    rows = []
    for vehicle, pair in step.asked.items():
        for direction, condition in zip(DIRECTIONS, pair, strict=True):
            now = found.get((vehicle, direction))
            then = before.get((vehicle, direction), _Totals())
            rows.append(
                {
                    "second": step.second,
                    "vehicle_id": vehicle_id(vehicle),
                    "direction": direction,
                    "asked_rate_bps": condition.rate_bps,
                    "asked_delay_ms": condition.delay_ms,
                    "asked_loss_ratio": condition.mean_loss_ratio,
                    "asked_jitter_ms": condition.jitter_ms,
                    "asked_reorder_ratio": condition.reorder_ratio,
                    "asked_burst_packets": condition.burst_packets,
                    "applied_at_ns": step.applied_at_ns,
                    "update_ms": step.update_ns / 1e6,
                    "counted_at_ns": step.counted_at_ns or None,
                    "qdisc_bytes": None if now is None else now.bytes - then.bytes,
                    "qdisc_packets": None if now is None else now.packets - then.packets,
                    "drops": None if now is None else now.drops - then.drops,
                    "queue_drops": None if now is None else now.queue_drops - then.queue_drops,
                    "backlog_bytes": None if now is None else now.backlog_bytes,
                }
            )
    return rows
