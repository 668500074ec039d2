"""The echo topology through the real sender, vehicles and cloud in namespaces of their own.

One message crosses the link twice: from a vehicle's address to the broker (CoAP: the echo server), and back
to the receiver on the same address.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateways.protocols import PROTOCOLS
from ivsim.testbed.child import Child
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import CLOUD_ADDRESS
from simulator.emission_table import to_table
from simulator.links.direct import DirectLink
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.netns]

VEHICLES = 4
COAP_PORT = 5683
START_S = 40.0
# The seven configurations of the paper (docs: protocol-paper), and the default of AMQP here.
CONFIGURATIONS = [
    ("mqtt", "qos0"),
    ("mqtt", "qos1"),
    ("mqtt", "qos2"),
    ("amqp", "auto"),
    ("amqp", "manual"),
    ("amqp", "manual-confirms-persistent"),
    ("coap", "non"),
    ("coap", "con"),
]


@pytest.fixture
def link(run_record: RunRecord) -> Iterator[DirectLink]:
    made = DirectLink(run_record.run_id, VEHICLES)
    run_record.namespace(made.vehicles_namespace)
    run_record.namespace(made.cloud_namespace)
    with made:
        yield made


def server(stack: ExitStack, record: RunRecord, namespace: str, protocol: str, mode: str) -> int:
    """Start what echoes and return its port."""
    if protocol == "mqtt":
        return stack.enter_context(MosquittoServer(record, host=CLOUD_ADDRESS, namespace=namespace)).port
    if protocol == "amqp":
        return stack.enter_context(RabbitmqServer(record, host=CLOUD_ADDRESS, namespace=namespace)).port
    path = record.directory / "echo.json"
    config = {"host": CLOUD_ADDRESS, "port": COAP_PORT, "mode": mode, "namespace": namespace}
    path.write_text(json.dumps(config))
    child = stack.enter_context(Child("coap-echo", ["gateways", "coap-echo", "--config", str(path)], record))
    assert child.wait_for("ready", START_S)["port"] == COAP_PORT
    return COAP_PORT


def test_the_configurations_are_modes():
    for protocol, mode in CONFIGURATIONS:
        assert mode in PROTOCOLS[protocol].modes
    assert {protocol for protocol, _ in CONFIGURATIONS} == set(PROTOCOLS)


@pytest.mark.parametrize("format_name", ["protobuf", pytest.param("small", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("protocol", "mode"),
    [
        pytest.param(
            *one,
            marks=[
                *([pytest.mark.timing] if one[0] == "coap" else []),
                *([] if one in {("mqtt", "qos1"), ("coap", "con")} else [pytest.mark.full]),
            ],
        )
        for one in CONFIGURATIONS
    ],
)
def test_every_message_comes_back_to_its_own_vehicle(
    link: DirectLink, run_record: RunRecord, tmp_path: Path, protocol: str, mode: str, format_name: str
) -> None:
    # Observe keeps the newest state alone: a message that comes before the last one's second block was fetched
    # takes its place (RFC 7641, 1.3), and a machine with two tests at a time may stand still for 200 ms.
    interval_s = 1.0 if protocol == "coap" else 0.2
    scenario = {
        "vehicles": VEHICLES,
        "interval_s": interval_s,
        "duration_s": 8 * interval_s,
        "format": format_name,
    }
    path, events_path = tmp_path / "sender.json", tmp_path / "emissions.events"
    with ExitStack() as stack:
        port = server(stack, run_record, link.cloud_namespace, protocol, mode)
        config = {
            "scenario": scenario, "protocol": protocol, "mode": mode, "host": CLOUD_ADDRESS, "port": port,
            "topology": "echo", "bind_addresses": True, "events_path": str(events_path), "drain_s": 5.0,
        }  # fmt: skip
        path.write_text(json.dumps(config))
        sender = stack.enter_context(
            Child("sender", ["simulator.sender", str(path)], run_record, namespace=link.vehicles_namespace)
        )
        sender.wait_for("ready", START_S)
        start_at_ns = time.time_ns() + 300_000_000
        sender.send("start", at_ns=start_at_ns)
        sender.wait_for("done", START_S)
    rows = to_table(events_path, Scenario(**scenario), start_at_ns).to_pylist()
    assert len(rows) == VEHICLES * 8
    assert [row for row in rows if row["received_at_ns"] is None] == []
    assert all(row["received_at_ns"] > row["emitted_at_ns"] for row in rows)
    assert all(row["unsent_reason"] is None for row in rows)
    if PROTOCOLS[protocol].modes[mode].acknowledged:
        assert all(row["acknowledged_at_ns"] for row in rows)
