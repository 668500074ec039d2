"""A testbed that is idle when a signal ends its program: nothing stays, and the signal is what ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
