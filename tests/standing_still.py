"""Stop a server as a whole: behind `stand_still` it answers nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

LIMIT_S = 10.0


def stand_still(pid: int) -> None:
    """Stop a process, and return when all its threads stand.

    A signal to a process reaches one thread, which stops the others when it has a processor: on a busy machine a Java program
    went on for 10 to 18 ms behind kill(2), and answered what came in that time.
    """
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + LIMIT_S
    while any(_state(task) != "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < end, f"process {pid} did not stop within {LIMIT_S:g} s"
        time.sleep(0.001)


def _state(task: Path) -> str:
    """Return a thread's state, the first field behind its name (proc_pid_stat(5)); "T" of one that has ended meanwhile."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"
