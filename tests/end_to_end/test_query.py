"""A query beside the twin's own, in a whole run: every message has its answer, its figures follow from the files."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from end_to_end_runs import ended_in_order

from ivsim import Testbed
from ivsim.audit import audit
from ivsim.option_rules import run_options
from ivsim.runs.processes import scenario_of
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.fleet import emissions
from twin.queries.stations import read_stations

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

STATIONS = Path(__file__).resolve().parents[2] / "examples/stations.csv"


@pytest.mark.full
def test_positions_from_gateways_at_the_edge_are_answered(testbed: Testbed, tmp_path: Path) -> None:
    options = run_options(
        topology="edge", trace="paper-rtt", loss_ratio=0.0, rtt="40", vehicles=5, duration_s=8, format="json",
        batching="fixed", batch_messages=3, batch_ms=50.0, query="nearest-station", stations=str(STATIONS),
        answer_limit_ms=60_000.0,
    )  # fmt: skip
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory)
    assert outcome.error is None
    assert ended_in_order(outcome.exit_code, outcome.metrics), outcome.metrics["validity"]
    assert outcome.metrics["due"] == outcome.metrics["delivered"] == 40
    query = outcome.metrics["query"]
    assert (query["name"], query["answers"], query["answers_in_time_ratio"]) == ("nearest-station", 40, 1.0)
    # A record crosses the link before it can be answered.
    assert 20 < query["answer_latency_p50_ms"] <= query["answer_latency_p99_ms"] < 60_000
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["stations_sha256"] == hashlib.sha256(STATIONS.read_bytes()).hexdigest()
    stations = np.array([one[1:] for one in read_stations(STATIONS).every])
    sent = {
        (vehicle_id(one.vehicle), one.sequence): FORMATS["json"].decode(one.payload).position
        for one in emissions(scenario_of(options), manifest["start_at_ns"])
    }
    for row in pq.read_table(directory / "answers.parquet").to_pylist():
        place = sent[row["vehicle_id"], row["sequence"]]
        # Of places this near to each other the plane does: within 1 %.
        north = (stations[:, 0] - place.latitude_deg) * 111_195
        east = (stations[:, 1] - place.longitude_deg) * 111_195 * math.cos(math.radians(place.latitude_deg))
        assert row["distance_m"] == pytest.approx(float(np.hypot(north, east).min()), rel=0.01)
    assert "Answers of the query nearest-station" in (directory / "report.html").read_text()
    found = audit(directory)
    assert {sheet.name: sheet.differences for sheet in found.sheets if sheet.differences} == {}
