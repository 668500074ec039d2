"""A fleet of all three protocols over several brokers and gateways, one of which is killed: the ledger closes."""

from __future__ import annotations

from pathlib import Path

import pytest
from end_to_end_runs import ended_in_order

from gateways.receive_log import to_table
from ivsim import Testbed
from ivsim.audit import audit
from ivsim.chaos.case import Disturber
from ivsim.chaos.faults import FAULTS
from ivsim.option_rules import run_options
from ivsim.runs.processes import gateway_places
from ivsim.runs.shards import groups
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

SECONDS = 8


@pytest.mark.full
def test_nothing_is_lost_and_each_broker_has_its_own_vehicles(testbed: Testbed, tmp_path: Path) -> None:
    options = run_options(
        mix="mqtt qos1=50,amqp manual=25,coap con=25",
        brokers=2,
        gateways=2,
        vehicles=12,
        duration_s=SECONDS,
        link="direct",
    )
    # The first gateway, one of two at the first of MQTT's brokers.
    disturber = Disturber(FAULTS["gateway-kill"], at_message=12)
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory, disturb=disturber)
    assert outcome.error is None
    assert disturber.done
    assert ended_in_order(outcome.exit_code, outcome.metrics), outcome.metrics["validity"]
    assert outcome.metrics["due"] == outcome.metrics["delivered"] == 12 * SECONDS
    assert {one["protocol"]: one["delivered"] for one in outcome.metrics["parts"]} == {
        "mqtt": 6 * SECONDS,
        "amqp": 3 * SECONDS,
        "coap": 3 * SECONDS,
    }
    taken: dict[tuple[str, int | None], set[str]] = {}
    for number, (part, peer) in enumerate(gateway_places(options)):
        names = to_table(directory / f"received-{number}.events")["vehicle_id"].to_pylist()
        taken.setdefault((part.protocol.name, peer), set()).update(names)
    assert taken == {
        (part.protocol.name, peer): {vehicle_id(number) for number in own}
        for part in options.parts
        for peer, own in groups(options, part)
    }
    sheets = audit(directory).sheets
    assert {sheet.name: sheet.differences for sheet in sheets if sheet.differences} == {}
