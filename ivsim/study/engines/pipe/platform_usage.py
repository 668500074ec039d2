"""What a platform's processes use while records go through it: CPU time and memory, looked at from outside."""

from __future__ import annotations

import time
from typing import NamedTuple

import psutil

from ivsim.study.engines.pipe.platforms.base import OpenPlatform


class Busy(NamedTuple):
    """How long all processors of the machine together were busy, in s, of how long a time."""

    busy_s: float
    span_s: float


def _machine() -> Busy:
    found = psutil.cpu_times()
    return Busy(sum(found) - found.idle - getattr(found, "iowait", 0.0), time.monotonic())


class PlatformUsage:
    """CPU time of each process since the warm-up's end, and the largest resident set that was seen."""

    def __init__(self, opened: OpenPlatform) -> None:
        self._opened = opened
        self._processes = self._found()
        self._warm_s: dict[str, float] = {}
        self._machine: Busy | None = None
        self._killed = False
        self.peak_mib: dict[str, float] = {}

    def _found(self) -> dict[str, psutil.Process]:
        return {name: psutil.Process(pid) for name, pid in self._opened.pids().items()}

    def killed(self) -> None:
        """Look at other processes from now on; what the one that is gone had used by then, nobody knows."""
        self._processes = self._found()
        self._killed = True

    def died(self) -> None:
        """Look at none any more: what they had used by then, nobody knows."""
        self._processes = {}
        self._killed = True

    def _cpu_s(self) -> dict[str, float]:
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: found.user + found.system for name, found in times.items()}

    def warm(self) -> None:
        self._warm_s = self._cpu_s()
        self._machine = _machine()

    def machine(self) -> Busy | None:
        """Return how busy the whole machine was since `warm`; None where the warm-up never ended."""
        if self._machine is None:
            return None
        now, before = _machine(), self._machine
        return Busy(now.busy_s - before.busy_s, now.span_s - before.span_s)

    def look(self) -> None:
        for name, process in self._processes.items():
            now = process.memory_info().rss / 2**20
            self.peak_mib[name] = max(now, self.peak_mib.get(name, 0.0))

    def spent_s(self) -> dict[str, float]:
        """Return CPU time since `warm`; none where the warm-up never ended, or a process was killed."""
        if self._killed:
            return {}
        now = self._cpu_s()
        return {name: now[name] - before for name, before in self._warm_s.items()}
