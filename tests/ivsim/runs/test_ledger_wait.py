"""A ledger ends: written, dead or too late, and each is told in a line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ivsim.runs.interrupt import Interrupted
from ivsim.runs.ledger_job import await_ledger, why
from ivsim.testbed.child import Child
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from ledger.build import ledger_limit_s


def child(run_record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Child:
    (tmp_path / "ledger_of_paper.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    return Child("ledger", ["ledger_of_paper"], run_record, stop_timeout_s=1.0)


def test_one_that_is_written_in_time(run_record, tmp_path, monkeypatch) -> None:
    await_ledger(child(run_record, tmp_path, monkeypatch, "print('{}')"), 60.0)


def test_one_that_fails_says_its_last_word(run_record, tmp_path, monkeypatch) -> None:
    program = "import sys\nprint('ledger: vehicle 7: 3 due, 2 placed', file=sys.stderr)\nsys.exit(1)"
    with pytest.raises(ProcessDied) as died:
        await_ledger(child(run_record, tmp_path, monkeypatch, program), 60.0)
    assert why(died.value) == "ledger ended with exit code 1: ledger: vehicle 7: 3 due, 2 placed"


def test_one_that_takes_too_long_is_ended(run_record, tmp_path, monkeypatch) -> None:
    slow = child(run_record, tmp_path, monkeypatch, "import time\ntime.sleep(600)")
    with pytest.raises(NotReady, match="ledger was not written within 0 s"):
        await_ledger(slow, 0.1)
    assert not slow.running()


def test_one_that_a_signal_ends_is_gone(run_record, tmp_path, monkeypatch) -> None:
    slow = child(run_record, tmp_path, monkeypatch, "import time\ntime.sleep(600)")

    def interrupted(_seconds: float) -> None:
        raise Interrupted(2)

    monkeypatch.setattr("ivsim.runs.ledger_job.time.sleep", interrupted)
    with pytest.raises(Interrupted):
        await_ledger(slow, 60.0)
    monkeypatch.undo()
    assert not slow.running()


def test_more_messages_may_take_longer() -> None:
    assert ledger_limit_s(1_000) == pytest.approx(120.1)
    assert ledger_limit_s(6_000_000) == 720.0
