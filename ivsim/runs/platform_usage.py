"""What a platform's servers take while a run goes: CPU time and memory, by the kernel's own counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psutil

from ivsim.testbed.server import Server


class PlatformUsage:
    """Counts from its making on; of a server that was started again meanwhile nothing is known.

    Args:
        servers: that the testbed has started for the platform; none where it is somebody else's.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._before = self._now()

    def facts(self) -> dict[str, Any]:
        """Return `cpu_s`, of all servers since the start, and `resident_bytes` now; None where they are not known."""
        now = self._now()
        if not now or self._before.keys() != now.keys():
            return {"cpu_s": None, "resident_bytes": None}
        return {
            "cpu_s": sum(cpu_s - self._before[pid][0] for pid, (cpu_s, _) in now.items()),
            "resident_bytes": sum(resident_bytes for _, resident_bytes in now.values()),
        }

    def _now(self) -> dict[int, tuple[float, int]]:
        """Return of each server's process its CPU time in s, and its bytes; nothing where one has ended."""
        found = {}
        try:
            for server in self._servers:
                process = psutil.Process(server.process.pid)
                times = process.cpu_times()
                found[process.pid] = (float(times.user + times.system), int(process.memory_info().rss))
        except psutil.Error:
            return {}
        return found
