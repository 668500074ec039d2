"""CPU time and memory of a client's process with its children (a JVM beside it), and of the platform's processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil


class Spent(NamedTuple):
    """CPU seconds so far."""

    own_s: float
    platform_s: float


class Usage:
    """Reads clocks; of children and the platform to 10 ms, of this process to a nanosecond.

    Args:
        platform: processes of the platform.
    """

    def __init__(self, platform: Sequence[int]) -> None:
        self._own = psutil.Process(os.getpid())
        self._platform = [psutil.Process(pid) for pid in platform]

    def _children(self) -> Iterator[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield from self._own.children(recursive=True)

    def now(self) -> Spent:
        """Return what was spent so far."""
        return Spent(time.process_time() + _sum(self._children()), _sum(self._platform))

    def since(self, before: Spent, messages: int, stage: str) -> dict[str, float]:
        """Return CPU microseconds a message since then, by stage and by whom."""
        now = self.now()
        return {
            f"{stage}_client_cpu_us": (now.own_s - before.own_s) * 1e6 / messages,
            f"{stage}_broker_cpu_us": (now.platform_s - before.platform_s) * 1e6 / messages,
        }

    def resident_mib(self) -> float:
        """Return the resident memory of this process and its children."""
        found = self._own.memory_info().rss
        for child in self._children():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += child.memory_info().rss
        return float(found) / 2**20


def _sum(processes: Iterator[psutil.Process] | Sequence[psutil.Process]) -> float:
    total = 0.0
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total
