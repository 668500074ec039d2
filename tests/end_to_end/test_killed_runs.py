"""A run whose own process is killed at any moment behind its first message is finished by `ivsim report`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from end_to_end_runs import Finished, Runs, Started, due_of, namespaces_of, processes_of

from ivsim.audit import audit
from simulator.links.proof.certificate import CHANGES

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

LONG = ("--vehicles", "5", "--duration", "60", "--interval", "0.2", "--loss-timeout", "2", "--link", "auto")
SHORT = ("--vehicles", "3", "--duration", "2", "--loss-timeout", "1", "--link", "direct")
ECHO = (*SHORT, "--topology", "echo")


def killed_at(run: Started, path: Path) -> None:
    """Kill a run at the moment at which one of its files is there."""
    end = time.monotonic() + 120
    while not path.exists():
        assert run.popen.poll() is None, run.stderr()
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.001)  # a look at a directory: the next file comes some ms later
    run.popen.send_signal(signal.SIGKILL)


def killed_report(run: Started) -> None:
    """Kill `ivsim report` while it has the run's Kafka up once more: the next one has its processes before it."""
    command = [sys.executable, "-m", "ivsim.cli", "report", str(run.directory)]
    environment = {**os.environ, "IVSIM_STATE_DIR": str(run.directory.parent / "state")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as report:
        assert report.stderr is not None
        assert any("reading Kafka's log" in line for line in report.stderr)
        until = time.monotonic() + 20
        while not list((run.directory / "work").glob("report-*/kafka/server.properties")):
            assert time.monotonic() < until
            time.sleep(0.05)  # a look, within the limit above
        report.kill()


def finished(runs: Runs, run: Started) -> Finished:
    """Have `ivsim report` finish a killed run; return the run."""
    done = run.finish()
    assert done.code == -signal.SIGKILL
    listed = " ".join(runs.call("results", "list", str(done.directory.parent)).stdout.split())
    assert f"`ivsim report {done.directory}`" in listed
    made = runs.call("report", str(done.directory))
    assert made.returncode == 0, made.stderr
    assert "Traceback" not in made.stderr
    name = done.manifest["run"]
    assert processes_of(name) == []
    assert namespaces_of(name) == []
    assert not [note for note in run.state_files() if name in note.name]
    assert not (done.directory / "work").exists()
    rows = done.rows("ledger.parquet")
    assert len(due_of(rows)) == done.metrics["run_due"]
    assert all(row["fate"] for row in rows)
    judged = audit(done.directory)
    assert [(sheet.name, sheet.differences) for sheet in judged.sheets if sheet.differences] == []
    again = runs.call("report", str(done.directory), "--ledger")
    assert "figures changed: 0" in again.stdout, again.stdout + again.stderr
    return done


def test_a_run_that_is_killed_while_it_emits_is_finished_with_what_kafka_held(runs: Runs) -> None:
    run = runs.start("killed-emitting", *LONG)
    run.wait_until_emitting(100)
    run.popen.send_signal(signal.SIGKILL)
    run.popen.wait(10)
    # What the parts are told, passwords among it, their owner alone reads.
    told = list((run.directory / "work").glob("*.json"))
    assert {"sender.json", "gateway-0.json", "capture.json", "twin.json"} <= {path.name for path in told}
    assert [
        path for path in told if path.stat().st_mode & 0o077 and not path.name.endswith(".done.json")
    ] == []
    killed_report(run)
    done = finished(runs, run)
    assert done.metrics["partial_reason"] == "the run's own process was killed"
    assert done.metrics["validity"]["verdict"] == "invalid"
    fates = Counter(row["fate"] for row in done.rows("ledger.parquet"))
    assert fates["delivered"] + fates["late"] > 20  # by Kafka's own log, opened once more
    assert fates["unsent"] > 1_000  # of 1,500 due
    # Of what was on its way nobody knows, within its loss timeout.
    stopped_at_ns = json.loads((done.directory / "run.json").read_text())["stop_at_ns"]
    unknown = [row["emitted_at_ns"] for row in done.rows("ledger.parquet") if row["fate"] == "unknown"]
    assert all(at_ns > stopped_at_ns - 2 * 10**9 for at_ns in unknown)
    # So does the link's player with what it has played, but for the counts of its last second.
    link = [row for row in done.rows("link.parquet") if row["second"] >= 0 and row["asked_delay_ms"]]
    seconds = {row["second"] for row in link if row["qdisc_packets"] is not None}
    assert seconds == set(range(max(row["second"] for row in link)))
    late = next(one for one in done.metrics["certificate"]["checks"] if one["parameter"] == CHANGES)
    assert "ms late" in late["achieved"]
    assert done.metrics["wire_bytes_uplink"] > done.metrics["probe_bytes_uplink"] > 0
    # Parts leave their last words to whoever comes.
    assert done.metrics["security"]["sender_cpu_s"] > 0
    assert done.metrics["security"]["gateway_cpu_s"] > 0
    assert "the run&#39;s own process was killed" in (done.directory / "report.html").read_text()


@pytest.mark.full
@pytest.mark.parametrize("name", ["kafka_records.parquet", "SHA256SUMS"])
def test_a_run_with_twins_that_is_killed_behind_its_last_message(runs: Runs, name: str) -> None:
    run = runs.start(f"killed-at-{name}", *SHORT)
    killed_at(run, run.directory / name)
    done = finished(runs, run)
    assert {row["fate"] for row in done.rows("ledger.parquet")} == {"delivered"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "manifest.json", "emissions.parquet", "clock.json", "run.json", "ledger.parquet", "metrics.json", "report.html",
    ],
)  # fmt: skip
def test_an_echo_run_that_is_killed_when_a_file_of_its_is_there(runs: Runs, name: str) -> None:
    run = runs.start(f"killed-at-{name}", *ECHO)
    killed_at(run, run.directory / name)
    done = finished(runs, run)
    fates = {row["fate"] for row in done.rows("ledger.parquet")}
    assert fates == ({"unsent"} if name == "manifest.json" else {"delivered"})
