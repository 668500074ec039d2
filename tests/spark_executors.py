"""Find the executors of a Spark cluster among processes of this host."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil

CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors_among(pids: Iterable[int]) -> list[int]:
    """Return those of `pids` that are executors.

    An executor's child has the command line of its parent until it has called execve(2), and executors start `chmod` for each
    file that they lay down: who has an executor for a parent is none.
    """
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if CLASS in process.cmdline() and CLASS not in (process.parent() or process).cmdline():
                found.append(pid)
    return found


def executors_of(worker: int) -> list[int]:
    """Return the executors of the worker that has this process id."""
    return executors_among(child.pid for child in psutil.Process(worker).children(recursive=True))
