"""Runs through each platform to a consumer: the ledger closes, the audit agrees, and a killed platform has its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from end_to_end_runs import ended_in_order

from gateways.sinks import PLATFORM_SINKS
from ivsim import Testbed
from ivsim.audit import audit
from ivsim.chaos.case import Case, run_case
from ivsim.library.report_anew import report_anew
from ivsim.option_rules import run_options
from ivsim.runs.platforms import SERVER_OF
from ivsim.runs.preflight import check_deliveries
from ivsim.runs.started import StartedRun
from schemas.errors import Refusal

pytestmark = [pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

STEADY: dict[str, Any] = {
    "topology": "ingest",
    "link": "direct",
    "vehicles": 10,
    "interval_s": 0.5,
    "loss_timeout_s": 10,
}


@pytest.fixture(scope="module")
def own() -> Iterator[Testbed]:
    """A testbed on which platforms follow each other; none of its runs has a Spark."""
    with Testbed() as made:
        yield made


@pytest.fixture(params=list(SERVER_OF))
def platform(request: pytest.FixtureRequest) -> str:
    """Each platform; of those that set-up leaves out, what is there."""
    name: str = request.param
    remedy = PLATFORM_SINKS[name].remedy if name in PLATFORM_SINKS else ""
    try:
        check_deliveries(run_options(topology="ingest", platform=name))
    except Refusal as refusal:
        if not remedy:
            raise
        pytest.skip(str(refusal))
    return name


def rows(directory: Path, name: str = "ledger.parquet") -> list[dict[str, Any]]:
    return pq.read_table(directory / name).to_pylist()


def assert_audited(directory: Path) -> None:
    """Every figure of the run comes out of its raw logs once more."""
    found = audit(directory)
    assert {sheet.name: sheet.differences for sheet in found.sheets if sheet.differences} == {}


@pytest.mark.parametrize(
    ("protocol", "mode", "durability"), [("mqtt", "qos1", "synced"), ("coap", "con", "cache")]
)
def test_every_message_comes_to_the_consumer(
    own: Testbed, tmp_path: Path, platform: str, protocol: str, mode: str, durability: str
) -> None:
    options = run_options(
        **STEADY,
        platform=platform,
        platform_durability=durability,
        protocol=protocol,
        mode=mode,
        gateways=2 if protocol == "mqtt" else 1,
        duration_s=4,
    )
    outcome = own.run(options, tmp_path / "run")
    assert outcome.error is None
    assert ended_in_order(outcome.exit_code, outcome.metrics), outcome.metrics["validity"]
    metrics = outcome.metrics
    assert metrics["due"] == metrics["delivered"] == outcome.twin_distinct == 80
    assert (metrics["partial"], metrics["duplicates"], metrics["unknown_records"]) == (False, 0, 0)
    assert metrics["processing_delay_p50_ms"] is metrics["twin_updates"] is None
    assert 0 < metrics["bridge_delay_p50_ms"] < metrics["end_to_end_latency_max_ms"]
    assert metrics["platform"]["cpu_s"] > 0
    for row in rows(tmp_path / "run"):
        assert row["received_at_ns"] < row["appended_at_ns"]
        assert row["received_at_ns"] < row["applied_at_ns"]
    lingers = {} if platform == "redis" else {f"{protocol} {mode}": 2}
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["gateway_linger_ms"] == lingers
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"10 vehicles through {platform} ({durability})" in page
    assert f"; to {platform.capitalize()}: bridge delay.</p>" in page
    assert_audited(tmp_path / "run")
    before = (tmp_path / "run" / "ledger.parquet").read_bytes()
    assert report_anew(tmp_path / "run", ledger=True) == []
    assert (tmp_path / "run" / "ledger.parquet").read_bytes() == before


def assert_kept(own: Testbed, tmp_path: Path, platform: str) -> None:
    case = Case("mqtt", "qos1", "platform-kill", platform=platform)
    outcome, judgement = run_case(case, tmp_path, seed=1, testbed=own)
    assert judgement.broken == []
    assert sum(judgement.counts[fate] for fate in ("delivered", "late")) == outcome.twin_distinct
    assert_audited(tmp_path / case.name)


def test_a_platform_that_is_killed_keeps_what_its_mode_promises(own: Testbed, tmp_path: Path) -> None:
    assert_kept(own, tmp_path, "redis")


@pytest.mark.full
def test_so_does_each_platform(own: Testbed, tmp_path: Path, platform: str) -> None:
    assert_kept(own, tmp_path, platform)


def test_a_consumer_that_dies_ends_the_run_and_leaves_what_it_had(own: Testbed, tmp_path: Path) -> None:
    killed = []

    def kill(run: StartedRun) -> None:
        consumer = run.components.consumer
        if (
            not killed
            and consumer is not None
            and consumer.latest.get("progress", {}).get("distinct", 0) > 20
        ):
            consumer.kill()
            killed.append(consumer.name)

    options = run_options(**STEADY, platform="redis", duration_s=8)
    outcome = own.run(options, tmp_path / "run", disturb=kill)
    assert outcome.exit_code == 1
    assert "consumer" in str(outcome.error)
    fates = Counter(row["fate"] for row in rows(tmp_path / "run"))
    assert fates["delivered"] > 20
    assert fates["unknown"] > 0
    assert fates["lost"] == 0
    assert outcome.metrics["partial"]
    assert outcome.metrics["delivery_ratio"] is None
    assert_audited(tmp_path / "run")
