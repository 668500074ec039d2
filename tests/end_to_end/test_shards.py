"""A run whose vehicles are shared by two senders, and one of them is killed: real broker, gateway and ledger."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ivsim import Testbed
from ivsim.audit import audit
from ivsim.option_rules import run_options
from ivsim.runs.started import StartedRun
from schemas.topics import vehicle_id
from simulator.emission_log import Kind
from simulator.emission_table import read_events

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.netns]

SECONDS, KILLED_AT_S = 6, 3.0


def kill_the_second(started: StartedRun) -> None:
    children = started.components.children
    if time.time_ns() >= started.start_at_ns + KILLED_AT_S * 1e9 and children["sender-1"].running():
        children["sender-1"].kill()


def test_a_sender_that_is_killed_takes_its_own_vehicles_alone(testbed: Testbed, tmp_path: Path) -> None:
    options = run_options(
        shards=2, vehicles=5, duration_s=SECONDS, loss_timeout_s=5, topology="echo", link="direct"
    )
    outcome = testbed.run(options, tmp_path / "run", disturb=kill_the_second)
    assert outcome.error is None
    metrics = outcome.metrics
    assert metrics["due"] == 5 * SECONDS
    died = next(c for c in metrics["validity"]["causes"] if c["name"] == "sender_died")
    assert died["severity"] == "degraded"
    assert "sender-1" in died["words"]
    assert "2 of 5 vehicles" in died["words"]
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet")
    of_second = pc.is_in(rows["vehicle_id"], pc.cast([vehicle_id(2), vehicle_id(4)], "string"))
    living, dead = rows.filter(pc.invert(of_second)), rows.filter(of_second)
    assert set(living["fate"].to_pylist()) == {"delivered"}
    assert living.num_rows == 3 * SECONDS
    reasons = dead.filter(pc.equal(dead["fate"], "unsent"))["unsent_reason"].to_pylist()
    assert set(reasons) == {"sender_ended"}
    assert 2 * 2 <= len(reasons) < 2 * SECONDS
    for shard, own in enumerate(({1, 3, 5}, {2, 4})):
        events = read_events(tmp_path / "run" / f"emissions-{shard}.events")
        assert set(events["vehicle"][events["kind"] == Kind.EMITTED].tolist()) == own
    sheets = audit(tmp_path / "run").sheets
    assert {sheet.name: sheet.differences for sheet in sheets if sheet.differences} == {}
