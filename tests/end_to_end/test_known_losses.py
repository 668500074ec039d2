"""Three known messages, lost on purpose at three known places: the ledger names each, and no other."""

from __future__ import annotations

import json

import pytest
from end_to_end_runs import Runs

from schemas.topics import vehicle_id
from simulator.fleet import schedule
from simulator.scenario import Scenario

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.netns]

SECOND = 4


def _due_mid_second(scenario: Scenario) -> tuple[int, int]:
    """Return vehicle and sequence of a message that is due well inside the second of the blackout."""
    for due in schedule(scenario):
        if SECOND + 0.3 < due.due_offset_ns / 1e9 < SECOND + 0.7:
            return due.vehicle, due.sequence
    raise AssertionError("no message is due in the middle of that second")


def test_the_ledger_names_each_loss_and_its_hop(runs: Runs) -> None:
    # CoAP NON over a steady road: nothing repairs a loss, and nothing else loses.
    scenario = Scenario(vehicles=6, duration_s=8, format="small", seed=3)
    vehicle, sequence = _due_mid_second(scenario)
    others = [number for number in range(1, 7) if number != vehicle]
    at_gateway, at_twin = (vehicle_id(others[0]), 3), (vehicle_id(others[1]), 5)
    faults = {"link": [(vehicle, SECOND, 1)], "gateway": [at_gateway], "twin": [at_twin]}
    done = runs.run(
        "known-losses", "--protocol", "coap", "--non", "--vehicles", "6", "--duration", "8", "--format", "small",
        "--seed", "3", "--loss", "0", "--rtt", "40", "--loss-timeout", "8", "--quiet", "--link", "auto",
        "--trace", "paper-rtt", "--faults", json.dumps(faults),
    )  # fmt: skip
    assert done.code == 0, done.stderr
    lost = {
        (r["vehicle_id"], r["sequence"]): r["hop"] for r in done.rows("ledger.parquet") if r["fate"] == "lost"
    }
    assert lost == {(vehicle_id(vehicle), sequence): "link", at_gateway: "gateway", at_twin: "kafka"}
    assert done.metrics["lost"] == 3
    assert done.metrics["delivered"] == 45
    assert [done.metrics[f"lost_at_{hop}"] for hop in ("link", "gateway", "kafka")] == [1, 1, 1]
    assert "lost on purpose" in (done.directory / "report.html").read_text()
