"""Whom a test may kill as an executor of Spark's."""

from __future__ import annotations

import subprocess
import sys

import psutil

from tests.spark_executors import CLASS, executors_among, executors_of

FORKS = """
import os, sys
child = os.fork()
if child:
    print(child, flush=True)
sys.stdin.read()
"""
WORKER = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], *sys.stdin.readline().split()])"


def test_a_child_that_has_not_called_execve_is_no_executor() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{CLASS}\n")
        worker.stdin.flush()
        forked = psutil.Process(int(worker.stdout.readline()))
        executor = forked.parent()
        assert executor is not None
        assert forked.cmdline() == executor.cmdline()
        assert executors_of(worker.pid) == [executor.pid]
        assert executors_among([forked.pid, executor.pid, worker.pid]) == [executor.pid]
        worker.stdin.close()
    assert executors_among([forked.pid]) == []
