"""What one measurement came to, before any figure; it measures nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ivsim.runs.interrupt import Interrupted
from ivsim.study.engines.pipe.kills import Killed
from ivsim.study.engines.pipe.ledger import Arrived, Ledger
from ivsim.study.engines.pipe.options import PipeOptions
from ivsim.study.engines.pipe.platform_usage import Busy
from ivsim.study.engines.pipe.site import Crossed


class Stopped(NamedTuple):
    """A signal that ended a measurement early, and how long after the start it came, in s."""

    number: int
    after_s: float


class Died(NamedTuple):
    """The end of a platform within a measurement, in a line, and how long after the start it was seen, in s."""

    line: str
    after_s: float


@dataclass
class Measured:
    """What one measurement came to, before any figure.

    Attributes:
        platform_cpu_s: CPU time of each process of the platform, from the warm-up's end to the last record read.
        platform_peak_mib: its largest resident set that was seen.
        machine: how busy the whole machine was, in the same time; None where the warm-up never ended.
        stored_bytes: on disk; None where that cannot be said.
        acknowledges: whether a delivery report means that the platform has the record.
        killed: what became of the kill that was asked for.
        crossed: what the link between producers and platform did; None without one.
        capacity_per_s: what came through at full speed just before; None where nothing was asked of it.
        stopped: what ended it early; its records are those that were sent until then.
        died: how the platform ended before its time; fates that it alone knew are unknown.
    """

    options: PipeOptions
    start_at_ns: int
    ledger: Ledger
    arrived: Arrived
    producers: list[dict[str, Any]]
    consumers: list[dict[str, Any]]
    complete: bool
    answered: bool
    acknowledges: bool
    platform_cpu_s: dict[str, float] = field(default_factory=dict)
    platform_peak_mib: dict[str, float] = field(default_factory=dict)
    machine: Busy | None = None
    stored_bytes: int | None = None
    clock_drift_ms: float = 0.0
    killed: Killed | None = None
    crossed: Crossed | None = None
    capacity_per_s: float | None = None
    stopped: Stopped | None = None
    died: Died | None = None

    @property
    def warm_at_ns(self) -> int:
        return self.start_at_ns + round(self.options.warmup_s * 1e9)

    @property
    def measured_s(self) -> float:
        """Return how long records were due after the warm-up."""
        asked_s = self.options.duration_s
        due_s = asked_s if self.stopped is None else min(asked_s, self.stopped.after_s)
        return due_s - self.options.warmup_s


def stopped_words(found: Measured) -> str:
    """Return what ended a measurement early, and what its figures are of."""
    assert found.stopped is not None
    if found.stopped.after_s >= found.options.duration_s:
        return when_all_was_sent(found.stopped.number)
    return (
        f"stopped by {Interrupted(found.stopped.number)} after {found.stopped.after_s:.1f} of"
        f" {found.options.duration_s:g} s: the figures are of what was sent until then"
    )


def when_all_was_sent(number: int) -> str:
    """Return what is told of a signal that ended nothing."""
    return f"stopped by {Interrupted(number)} when all had been sent: nothing is missing"
