"""The place of what has to be on time before other processes; what the system does not grant is said, not assumed."""

from __future__ import annotations

import contextlib
import os

_NICE = -10


def go_first() -> str:
    """Ask the scheduler to prefer the calling thread, since its lateness would be read as the network's.

    Return what was granted. Real time first: a nice value counts only within the session where the kernel
    groups processes by session (sched(7), autogroup).
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        return "SCHED_RR 1"
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    return f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"


def go_back() -> None:
    """Let the scheduler treat the calling thread as any other; a nice value stays."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
