"""What a client's process used: CPU time by stage, and memory.

Stages of a producer are taken on some of the records: reading a thread's clock costs about as much as a stage.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import Final

EVERY: Final = 16
_CALIBRATIONS: Final = 2_001


def clock_cost_ns() -> float:
    """Return what two readings in a row differ by, which every stage has in it once."""
    found = []
    for _ in range(_CALIBRATIONS):
        before = thread_time_ns()
        found.append(thread_time_ns() - before)
    return float(median(found))


class Stages:
    """Sums of CPU time by stage.

    Args:
        names: of the stages.
    """

    def __init__(self, *names: str) -> None:
        self._sums_ns = dict.fromkeys(names, 0.0)
        self._counts = dict.fromkeys(names, 0)
        self._clock_ns = clock_cost_ns()

    def add(self, name: str, spent_ns: int, records: int = 1) -> None:
        """Count what one call of a stage took, for so many records."""
        self._sums_ns[name] += spent_ns - self._clock_ns
        self._counts[name] += records

    def means_us(self) -> dict[str, float | None]:
        """Return the mean of each stage by record; None where it was never taken."""
        return {
            name: max(0.0, total) / self._counts[name] / 1e3 if self._counts[name] else None
            for name, total in self._sums_ns.items()
        }


def peak_kib() -> int:
    """Return this process's largest resident set so far.

    `getrusage` does not say it: of a process that another has started, it begins with that one's.
    """
    match = re.search(r"^VmHWM:\s+([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None, "Linux has it"
    return int(match[1])
