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
        self._before = {server.process.pid: _cpu_s(server.process.pid) for server in servers}

    def facts(self) -> dict[str, Any]:
        """Return `cpu_s`, of all servers since the start, and `resident_bytes` now; None where they are not known."""
        pids = [server.process.pid for server in self._servers]
        if not pids or self._before.keys() != set(pids):
            return {"cpu_s": None, "resident_bytes": None}
        try:
            return {
                "cpu_s": sum(_cpu_s(pid) - self._before[pid] for pid in pids),
                "resident_bytes": sum(psutil.Process(pid).memory_info().rss for pid in pids),
            }
        except psutil.Error:
            return {"cpu_s": None, "resident_bytes": None}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
