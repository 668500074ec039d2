"""How far the wall clock moved against the monotonic clock while a run went on (architecture, rule 8)."""

from __future__ import annotations

import time
from dataclasses import dataclass

SAMPLES = 32


def wall_minus_monotonic_ns() -> int:
    """Return the offset of the two clocks, from the pair of readings that lay closest together."""
    _, offset_ns = min(_readings() for _ in range(SAMPLES))
    return offset_ns


def _readings() -> tuple[int, int]:
    """Return how far apart two readings of the monotonic clock lay, and the wall clock between them less their middle."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    wall = time.time_ns()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return after - before, wall - (before + after) // 2


@dataclass
class ClockWatch:
    """Takes the offset at the start; `drift_ms` says how far it has moved since."""

    start_offset_ns: int

    @classmethod
    def start(cls) -> ClockWatch:
        return cls(wall_minus_monotonic_ns())

    def drift_ms(self) -> float:
        """Return wall-clock time gained (positive) or lost against the raw monotonic clock, in ms."""
        return (wall_minus_monotonic_ns() - self.start_offset_ns) / 1e6
