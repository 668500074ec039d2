"""A testbed that is idle when a signal ends its program: nothing stays, and the signal is what ended it.

And signals within runs within something else: the first one counts, for all of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ivsim.runs.interrupt import Interrupted, interruptible
from ivsim.runs.runner import EXIT_FAILED, Outcome, add_failure

PROGRAM = """
import asyncio, signal, sys, time
from ivsim import Testbed

def wait(testbed):
    print("open", flush=True)
    time.sleep(60)

def a_notebook():
    testbed = Testbed().open()
    wait(testbed)

def a_block():
    with Testbed() as testbed:
        wait(testbed)

def a_loop():
    async def cell():
        testbed = Testbed().open()
        print("open", flush=True)
        await asyncio.sleep(60)
    asyncio.run(cell())

def an_owner():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    with Testbed() as testbed:
        wait(testbed)

def closed():
    with Testbed():
        pass
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("program", "number", "ends"),
    [
        ("a_notebook", signal.SIGTERM, -signal.SIGTERM),
        ("a_notebook", signal.SIGHUP, -signal.SIGHUP),
        ("a_block", signal.SIGTERM, -signal.SIGTERM),
        ("a_loop", signal.SIGTERM, -signal.SIGTERM),
        ("an_owner", signal.SIGTERM, 7),
        ("closed", signal.SIGTERM, -signal.SIGTERM),
    ],
)
def test_nothing_stays_of_an_idle_testbed(
    tmp_path: Path, program: str, number: signal.Signals, ends: int
) -> None:
    places = {"IVSIM_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    # Under nohup a program is started with SIGHUP ignored, and keeps to that.
    begin = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n{PROGRAM}\n{program}()"
    with subprocess.Popen(
        [sys.executable, "-c", begin], env=os.environ | places, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        if program != "closed":
            assert list(tmp_path.glob("ivsim-testbed-*"))
            assert list((tmp_path / "state").iterdir())
        child.send_signal(number)
        assert child.wait(60) == ends
    assert list(tmp_path.glob("ivsim-testbed-*")) == []
    assert [path for path in (tmp_path / "state").iterdir() if path.suffix == ".jsonl"] == []


def test_a_second_signal_waits_until_what_is_around_the_run_is_closed() -> None:
    closed = False
    with interruptible():
        with pytest.raises(Interrupted), interruptible():
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        closed = True
    assert closed


def test_a_run_that_was_not_interrupted_leaves_the_first_signal_to_what_is_around_it() -> None:
    def around() -> None:
        with interruptible():
            with interruptible():
                pass
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        around()


def test_a_run_stopped_by_a_signal_says_so_whatever_fails_afterwards() -> None:
    stopped = Outcome(128 + signal.SIGINT, error="stopped by SIGINT")
    add_failure(stopped, "there is no ledger")
    assert (stopped.signal, stopped.error) == (signal.SIGINT, "stopped by SIGINT; there is no ledger")
    broken = Outcome()
    add_failure(broken, "there is no ledger")
    assert (broken.exit_code, broken.signal) == (EXIT_FAILED, None)
