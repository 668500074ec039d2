"""Three known messages, lost on purpose at three known places: the ledger names each, and no other."""

from __future__ import annotations

import json

import pytest
from end_to_end_runs import Runs

from schemas.topics import vehicle_id
from simulator.fleet import schedule
from simulator.scenario import Scenario

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.netns]

# One interval without a road: one message of the vehicle, and neither a late road nor a late vehicle makes it another.
INTERVAL_S, SECOND, DURATION_S = 2, 4, 10


def _due_in_the_middle(scenario: Scenario) -> tuple[int, int]:
    """Return vehicle and sequence of the message that is due nearest to the middle of the blackout."""
    middle_ns = (SECOND + INTERVAL_S / 2) * 1e9
    due = min(schedule(scenario), key=lambda due: abs(due.due_offset_ns - middle_ns))
    return due.vehicle, due.sequence


def test_the_ledger_names_each_loss_and_its_hop(runs: Runs) -> None:
    # CoAP NON over a steady road: nothing repairs a loss, and nothing else loses.
    scenario = Scenario(vehicles=6, interval_s=INTERVAL_S, duration_s=DURATION_S, format="small", seed=3)
    vehicle, sequence = _due_in_the_middle(scenario)
    others = [number for number in range(1, 7) if number != vehicle]
    at_gateway, at_twin = (vehicle_id(others[0]), 2), (vehicle_id(others[1]), 3)
    faults = {"link": [(vehicle, SECOND, INTERVAL_S)], "gateway": [at_gateway], "twin": [at_twin]}
    done = runs.on_testbed(
        "known-losses", "--protocol", "coap", "--non", "--vehicles", "6", "--interval", str(INTERVAL_S),
        "--duration", str(DURATION_S),
        "--format", "small", "--seed", "3", "--loss", "0", "--rtt", "40", "--loss-timeout", "8", "--quiet", "--link", "auto",
        "--trace", "paper-rtt", "--faults", json.dumps(faults),
    )  # fmt: skip
    assert done.in_order, done.stderr
    lost = {
        (r["vehicle_id"], r["sequence"]): r["hop"] for r in done.rows("ledger.parquet") if r["fate"] == "lost"
    }
    assert lost == {(vehicle_id(vehicle), sequence): "link", at_gateway: "gateway", at_twin: "kafka"}
    assert done.metrics["lost"] == 3
    assert done.metrics["delivered"] == 6 * DURATION_S / INTERVAL_S - 3
    assert [done.metrics[f"lost_at_{hop}"] for hop in ("link", "gateway", "kafka")] == [1, 1, 1]
    assert "lost on purpose" in (done.directory / "report.html").read_text()
