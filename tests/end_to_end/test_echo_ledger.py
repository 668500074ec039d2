"""Runs without Kafka, whose ledger has a broker's refusals to tell, or is not written at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.option_rules import run_options
from ivsim.runs import ledger_job
from ivsim.runs.outcome import EXIT_FAILED, Outcome
from ivsim.runs.runner import execute
from ivsim.testbed.mosquitto import MosquittoServer
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.broker, pytest.mark.netns]

SECONDS = 4


def echo_run(directory: Path, mode: str) -> Outcome:
    options = run_options(
        protocol="mqtt", mode=mode, topology="echo", link="direct", vehicles=3, duration_s=SECONDS, loss_timeout_s=5,
        message_bytes=400,
    )  # fmt: skip
    return execute(options, directory, quiet=True)


@pytest.mark.full  # the refusal itself: test_mqtt_vehicle_faults.py; its place in the ledger: tests/ledger/test_ledger_of_kafka.py
@pytest.mark.parametrize("mode", ["qos1", "qos2"])
def test_what_a_broker_refuses_is_refused_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """mosquitto lets vehicle 2 connect and subscribe, and not publish."""
    shared = MosquittoServer._account_lines

    def denying(server: MosquittoServer) -> list[str]:
        path = server._dir / "acl"
        topics = [("readwrite", 1), ("read", 2), ("readwrite", 3)]
        path.write_text("".join(f"topic {right} vehicles/{vehicle_id(n)}/#\n" for right, n in topics))
        return [*shared(server), f"acl_file {path}"]

    monkeypatch.setattr(MosquittoServer, "_account_lines", denying)
    outcome = echo_run(tmp_path / "run", mode)
    assert outcome.error is None
    metrics = outcome.metrics
    assert (metrics["due"], metrics["delivered"], metrics["refused"], metrics["refused_by_broker"]) == (
        3 * SECONDS,
        2 * SECONDS,
        SECONDS,
        SECONDS,
    )
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    told = Counter((r["vehicle_id"], r["fate"], r["hop"], r["refused_reason"]) for r in rows)
    assert told[vehicle_id(2), "refused", "broker", "Not authorized"] == SECONDS
    assert len(told) == 3
    assert outcome.report is not None
    assert "Not authorized" in outcome.report.read_text()


@pytest.mark.full
def test_a_run_whose_ledger_is_not_written_keeps_its_tables_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "run" / "ledger.parquet"

    def no_time_for_figures(_: int) -> float:
        """Return no time, and leave rows without figures."""
        rows.write_bytes(b"rows")
        return 0.0

    monkeypatch.setattr(ledger_job, "ledger_limit_s", no_time_for_figures)
    outcome = echo_run(tmp_path / "run", "qos1")
    assert outcome.exit_code == EXIT_FAILED
    assert outcome.error == "there is no ledger: ledger was not written within 0 s"
    metrics = outcome.metrics
    assert (metrics["run_due"], metrics["due"], metrics["delivery_ratio"]) == (3 * SECONDS, None, None)
    assert metrics["validity"]["verdict"] == "invalid"
    directory = tmp_path / "run"
    for name in ("emissions.parquet", "link.parquet", "connections.parquet", "manifest.json", "metrics.json"):
        assert (directory / name).is_file(), name
    assert not rows.exists()
    assert outcome.report is not None
    assert "there is no ledger: ledger was not written" in outcome.report.read_text()
