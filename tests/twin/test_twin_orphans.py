"""A twin process whose owner is gone, or whose Kafka is, ends all the same; without Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from twin import run_queries

# What `main` has of threads and signals, with a call in the main thread that nobody answers.
STUCK = """
import queue, signal, threading, time
from twin import __main__ as twin
twin.ORPHAN_S = 0.3
inbox = queue.SimpleQueue()
threading.Thread(target=twin._read_commands, args=(inbox,), daemon=True).start()
print("stuck", flush=True)
time.sleep(600)
"""
# A SIGTERM breaks into a handler that is putting, again and again.
SIGNALLED = """
import signal
from typing import get_origin
from twin import __main__ as twin
inbox = get_origin(twin.Inbox)()
signal.signal(signal.SIGTERM, lambda *_: inbox.put(None))
print("ready", flush=True)
for _ in range(100_000):
    inbox.put({})
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(inbox.qsize())
"""


def python(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_it_ends_soon_after_its_owner_whatever_it_is_at() -> None:
    with python(STUCK) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "stuck\n"
        child.stdin.close()
        assert child.wait(30) == 1


def test_signals_that_follow_each_other_do_not_stop_it() -> None:
    with python(SIGNALLED) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        senders = [threading.Thread(target=harass, args=(child,)) for _ in range(2)]
        for sender in senders:
            sender.start()
        assert child.wait(60) == 0
        for sender in senders:
            sender.join()
        assert int(child.stdout.read()) > 100_000  # those of signals are among them


def harass(child: subprocess.Popen[str]) -> None:
    while child.poll() is None:
        child.send_signal(signal.SIGTERM)


class Deaf:
    """A query whose Kafka is gone: Spark waits for it for ever."""

    name = "fleet"

    def processAllAvailable(self) -> None:
        threading.Event().wait()


class Failing(Deaf):
    def processAllAvailable(self) -> None:
        raise ValueError("it ended")


def test_a_query_that_never_takes_all_is_not_waited_for_for_ever() -> None:
    with pytest.raises(TimeoutError, match=r"query fleet has not taken all that there is in 0\.1 s"):
        run_queries.take_all(Deaf(), 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="it ended"):
        run_queries.take_all(Failing(), 10.0)  # type: ignore[arg-type]
