"""A run that is stopped or killed: nothing stays, and what is known is reported.

What becomes of a run that loses a part is in tests/ivsim/runs/test_testbed.py.
"""

from __future__ import annotations

import itertools
import re
import signal
import time

import pytest
from end_to_end_runs import Runs, due_of, namespaces_of, processes_of

from ivsim.audit import audit
from ivsim.runs.interrupt import TWICE_S

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

LONG = ("--vehicles", "5", "--duration", "120", "--loss-timeout", "5", "--link", "auto")


def test_ctrl_c_keeps_the_partial_result(runs: Runs) -> None:
    """SIGTERM takes the same way: tests/ivsim/runs/test_testbed.py, and test_up.py here."""
    run = runs.start("ctrl-c", *LONG)
    run.wait_until_emitting(20)
    run.popen.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 128 + signal.SIGINT
    assert done.metrics["partial"] is True
    assert "SIGINT" in done.metrics["partial_reason"]
    ledger = done.rows("ledger.parquet")
    assert len(ledger) == 600
    assert done.metrics["run_due"] == len(due_of(ledger)) < 600
    emitted = [row for row in ledger if row["emitted_at_ns"] is not None]
    assert 0 < len(emitted) <= done.metrics["run_due"]
    # What the twins have stands in the figures, though no loss timeout was over.
    arrived = sum(row["fate"] in {"delivered", "late"} for row in ledger)
    assert done.metrics["run_received"] == arrived > 0
    said = " ".join(done.stderr.split())
    assert re.search(
        r"stopped by SIGINT after \d+ s: \d+ messages emitted, .* in the twin; accounting for", said
    )
    assert "This run is invalid: the ledger is partial" in (done.directory / "report.html").read_text()
    assert processes_of(done.manifest["run"]) == []
    assert namespaces_of(done.manifest["run"]) == []


@pytest.mark.full
def test_a_second_ctrl_c_leaves_the_account_for_later(runs: Runs) -> None:
    # To account for 400,000 messages takes some seconds.
    long = ("--topology", "echo", "--vehicles", "100", "--duration", "800", "--interval", "0.2")
    run = runs.start("twice", *long)
    run.wait_until_emitting(500)
    run.popen.send_signal(signal.SIGINT)
    run.wait_for(lambda: "SIGINT: no more is sent; accounting for what was" in run.stderr())
    assert f"A second signal leaves that to `ivsim report {run.directory} --ledger`" in run.stderr()
    time.sleep(TWICE_S + 0.2)  # sooner it would be the first once more
    run.popen.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 128 + signal.SIGINT
    kept = f"stopped by SIGINT while accounting: every log, table and record is kept in {done.directory}"
    assert kept in done.stderr
    assert "Traceback" not in done.stderr
    assert not (done.directory / "ledger.parquet").exists()
    made = runs.call("report", str(done.directory), "--ledger")
    assert "Traceback" not in made.stderr
    rows = done.rows("ledger.parquet")
    assert len(rows) == 400_000
    assert len(due_of(rows)) == done.metrics["run_due"] < 400_000
    assert done.metrics["partial_reason"] == "stopped by SIGINT"


@pytest.mark.full
def test_ctrl_c_in_accounting_keeps_all_that_a_ledger_is_made_of(runs: Runs) -> None:
    run = runs.start(
        "accounting",
        "--topology",
        "echo",
        "--vehicles",
        "2",
        "--duration",
        "2",
        "--loss-timeout",
        "1",
        "--no-probe",
    )
    run.wait_for(lambda: "accounting for every message" in run.stderr())
    run.popen.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 128 + signal.SIGINT
    assert f"`ivsim report {done.directory} --ledger` makes the ledger" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (done.directory / "ledger.parquet").exists()
    assert (done.metrics["run_due"], done.metrics["due"]) == (4, None)
    assert processes_of(done.manifest["run"]) == []
    made = runs.call("report", str(done.directory), "--ledger")
    assert "Traceback" not in made.stderr
    assert len(done.rows("ledger.parquet")) == 4
    assert done.metrics["run_received"] == sum(
        row["fate"] == "delivered" for row in done.rows("ledger.parquet")
    )
    assert done.metrics["partial"] is False


@pytest.mark.full
def test_ctrl_c_while_the_link_is_proven_ends_that_and_nothing_else(runs: Runs) -> None:
    run = runs.start("proving", "--topology", "echo", "--vehicles", "2", "--duration", "3")
    # What only the living parts know is written once all sources have stopped; then the link is driven for some seconds.
    run.wait_for((run.directory / "run.json").exists)
    assert "proving the link" in run.stderr()
    time.sleep(1.0)  # into those seconds: a probe says nothing while it goes on
    run.popen.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 128 + signal.SIGINT
    said = " ".join(done.stderr.split())
    assert "SIGINT: the link is driven no further; all that was sent is accounted for" in said
    assert f"when all was accounted for: nothing is missing in {done.directory}" in said
    assert not (done.directory / "link_proof.json").exists()
    assert (done.metrics["due"], done.metrics["partial"]) == (6, False)
    assert done.metrics["certificate"]["verdict"] == "unproven"
    assert processes_of(done.manifest["run"]) == []
    assert namespaces_of(done.manifest["run"]) == []


@pytest.mark.full
def test_whatever_the_moment_a_signal_loses_nothing_that_was_measured(runs: Runs) -> None:
    """Ten moments over the length of a run, from its first imports to its report, each by one of three signals."""
    short = (
        "--vehicles",
        "5",
        "--duration",
        "5",
        "--interval",
        "0.2",
        "--loss-timeout",
        "2",
        "--link",
        "auto",
    )
    begin_s = time.monotonic()
    assert runs.run("whole", *short).in_order
    length_s = time.monotonic() - begin_s
    signals = itertools.cycle((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    ends: list[str] = []
    stopped: list[bool] = []
    for moment in range(10):
        run = runs.start(f"moment-{moment}", *short)
        time.sleep(length_s * (moment + 0.5) / 10)  # the moment itself
        number = next(signals)
        run.popen.send_signal(number)
        done = run.finish()
        assert "Traceback" not in done.stderr
        stopped.append(done.code == 128 + number)
        assert stopped[-1] or done.in_order, done.stderr
        listed = runs.call("results", "list", str(runs.base)).stdout
        if not done.directory.exists():
            assert done.directory.name not in listed
            ends.append("nothing")
            continue
        assert done.directory.name in listed
        assert processes_of(done.manifest["run"]) == []
        assert namespaces_of(done.manifest["run"]) == []
        if not (done.directory / "ledger.parquet").exists():
            assert f"`ivsim report {done.directory} --ledger`" in done.stderr
            made = runs.call("report", str(done.directory), "--ledger")
            assert "Traceback" not in made.stderr
        rows = done.rows("ledger.parquet")
        assert len(rows) == 125
        assert len(due_of(rows)) == done.metrics["run_due"]
        emitted = sum(row["emitted_at_ns"] is not None for row in rows)
        if said := re.search(r"(\d+) messages emitted", done.stderr):
            assert emitted == int(said[1])
        arrived = sum(row["fate"] in {"delivered", "late"} for row in rows)
        assert arrived == done.metrics["run_received"]
        judged = audit(done.directory)
        assert [(sheet.name, sheet.differences) for sheet in judged.sheets if sheet.differences] == []
        ends.append(f"{emitted} emitted, {arrived} arrived")
        removed = runs.call("results", "rm", "--yes", str(done.directory))
        assert (removed.returncode, done.directory.exists()) == (0, False), removed.stderr
    assert sum(stopped) >= 6  # the others were over by themselves
    assert ends[0] == "nothing"
    assert any(end.startswith("125 emitted") for end in ends), ends


@pytest.mark.full
def test_after_kill_9_doctor_cleans_and_the_next_run_works(runs: Runs) -> None:
    """Of a run with Kafka and Spark: test_killed_runs.py."""
    run = runs.start("killed", *LONG, "--topology", "echo")
    run.wait_until_emitting(20)
    run.popen.send_signal(signal.SIGKILL)
    name = run.finish().manifest["run"]
    assert namespaces_of(name)
    after = runs.run("after-the-kill", "--vehicles", "3", "--duration", "3", "--quiet", "--topology", "echo")
    assert after.in_order, after.stderr
    assert after.metrics["delivery_ratio"] == 1.0
    cleaned = runs.call("doctor", "--clean")
    assert "Traceback" not in cleaned.stderr
    assert processes_of(name) == []
    assert namespaces_of(name) == []
    # The tests' own testbed may be up beside it, and has a note of its own.
    assert not [note for note in run.state_files() if name in note.name]
