"""A testbed that is idle when a signal ends its program: nothing stays, and the signal is what ended it.

And signals within runs within something else: the first one counts, for all of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim.runs import interrupt
from ivsim.runs.accounting import Result, so_far
from ivsim.runs.interrupt import Interrupted, again, interruptible, unhurried
from ivsim.runs.outcome import EXIT_FAILED, Outcome
from ivsim.runs.runner import add_failure, kept_words
from ivsim.runs.started import Ending

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


def test_what_must_not_be_cut_short_hears_of_a_signal_when_it_is_over() -> None:
    with interruptible():
        with unhurried() as late:
            os.kill(os.getpid(), signal.SIGTERM)
            whole = True
        assert (whole, late.number) == (True, signal.SIGTERM)
        with unhurried() as again:
            os.kill(os.getpid(), signal.SIGINT)  # one is enough
        assert again.number is None
    with interruptible():
        with unhurried() as none:
            pass
        assert none.number is None
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_can_be_made_later_heeds_one_signal_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "TWICE_S", 60.0)
    with interruptible():
        assert not interrupt.heard()
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        with again():
            os.kill(os.getpid(), signal.SIGINT)  # the same one: `timeout` sends it twice
        assert interrupt.heard()
    monkeypatch.setattr(interrupt, "TWICE_S", 0.0)
    with interruptible():
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        with again():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted) as second, again():
            os.kill(os.getpid(), signal.SIGTERM)
        assert second.value.number == signal.SIGTERM
        with again(), unhurried() as late:
            os.kill(os.getpid(), signal.SIGTERM)
        assert late.number == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_from_the_beginning_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), number)
            with unhurried() as late:
                os.kill(os.getpid(), number)
                os.kill(os.getpid(), signal.SIGTERM)
            assert late.number == signal.SIGTERM
            assert signal.getsignal(number) is signal.SIG_IGN
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_says_what_is_kept_of_a_run() -> None:
    row = {"emitted": 1_234, "acknowledged": 1_200, "in twin": 1_150, "p50 ms": 80.0}
    run: Any = SimpleNamespace(
        publisher=SimpleNamespace(row=lambda: row),
        start_at_ns=10**18,
        directory=SimpleNamespace(path=Path("results/one")),
    )
    assert so_far(run, Ending(10**18 + 61_400_000_000, 0.0, "stopped by SIGINT")) == (
        "stopped by SIGINT after 61 s: 1,234 messages emitted, 1,200 acknowledged, 1,150 in the twin;"
        " accounting for what there is in results/one"
    )
    result = Result(
        {}, Path("results/one/report.html"), "there is no ledger: stopped by SIGINT", signal.SIGINT
    )
    assert kept_words(result, Path("results/one")) == (
        "stopped by SIGINT while accounting: every log, table and record is kept in results/one, and"
        " `ivsim report results/one --ledger` makes the ledger and its figures"
    )
    whole = Result({}, result.report, None, signal.SIGTERM)
    assert "nothing is missing in results/one" in kept_words(whole, Path("results/one"))


def test_a_run_stopped_by_a_signal_says_so_whatever_fails_afterwards() -> None:
    stopped = Outcome(128 + signal.SIGINT, error="stopped by SIGINT")
    add_failure(stopped, "there is no ledger")
    assert (stopped.signal, stopped.error) == (signal.SIGINT, "stopped by SIGINT; there is no ledger")
    broken = Outcome()
    add_failure(broken, "there is no ledger")
    assert (broken.exit_code, broken.signal) == (EXIT_FAILED, None)
