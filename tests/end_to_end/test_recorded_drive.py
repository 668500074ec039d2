"""A run whose vehicles replay a recorded drive: what they send is what the log says, byte for byte, and is accounted for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim import Testbed
from ivsim.audit import audit
from ivsim.option_rules import run_options
from ivsim.runs.processes import scenario_of
from schemas.topics import vehicle_id
from simulator.fleet import emissions

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.netns]

DRIVES = Path(__file__).resolve().parents[2] / "examples/drives"


@pytest.mark.full
def test_a_recorded_drive_is_replayed_and_accounted_for(testbed: Testbed, tmp_path: Path) -> None:
    log, mapping = DRIVES / "two-trucks.csv", DRIVES / "two-trucks.toml"
    options = run_options(
        vehicle_log=str(log), vehicle_mapping=str(mapping), format="json", vehicles=3, duration_s=4,
        loss_timeout_s=5, topology="echo", link="direct", protocol="coap", mode="con",
    )  # fmt: skip
    outcome = testbed.run(options, tmp_path / "run")
    assert outcome.error is None
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["vehicle_log"] == {
        "log_sha256": hashlib.sha256(log.read_bytes()).hexdigest(),
        "mapping_sha256": hashlib.sha256(mapping.read_bytes()).hexdigest(),
        "drives": ["north", "south"],
    }
    expected = {
        (vehicle_id(one.vehicle), one.sequence): len(one.payload)
        for one in emissions(scenario_of(options), manifest["start_at_ns"])
    }
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    assert {(row["vehicle_id"], row["sequence"]): row["payload_bytes"] for row in rows} == expected
    assert len(set(expected.values())) > 1
    assert {row["fate"] for row in rows} == {"delivered"}
    sheets = audit(tmp_path / "run").sheets
    assert {sheet.name: sheet.differences for sheet in sheets if sheet.differences} == {}
