"""AMQP and CoAP through the whole bridge into Kafka, while the gateway or Kafka fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from confluent_kafka import Consumer
from standing_still import stand_still

from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id
from simulator.emission_table import to_table
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.kafka]
START_S = 60.0
SAFE = [("amqp", "manual-confirms-persistent"), ("coap", "con")]


class Rig:
    """One run: Kafka's topics, a gateway that may be killed and started again, a sender."""

    def __init__(self, stack: ExitStack, record: RunRecord, kafka: str, broker: tuple[str, int], tmp: Path):
        self._stack = stack
        self._record = record
        self._kafka = kafka
        self._broker = broker
        self._tmp = tmp
        self._gateways = 0
        self.topics = KafkaTopics(f"f{uuid.uuid4().hex[:8]}.")
        create_topics(kafka, self.topics)

    def gateway(self, protocol: str, mode: str, **settings: Any) -> Child:
        if protocol == "amqp":
            host, port = self._broker
        else:
            host, port = "127.0.0.1", settings.pop("port")
        config = {
            "bootstrap": self._kafka, "host": host, "port": port, "mode": mode, "metrics_port": None,
            "topics_prefix": self.topics.prefix, "name": f"g-{self._record.run_id}", **settings,
        }  # fmt: skip
        path = self._tmp / "gateway.json"
        path.write_text(json.dumps(config))
        self._gateways += 1
        child = Child(
            f"gateway-{self._gateways}", ["gateways", protocol, "--config", str(path)], self._record
        )
        self._stack.enter_context(child)
        child.port = child.wait_for("ready", START_S)["port"]
        return child

    def sender(self, protocol: str, mode: str, port: int, scenario: dict[str, Any], **settings: Any) -> Child:
        path, self.events = self._tmp / "sender.json", self._tmp / "emissions.events"
        config = {
            "scenario": scenario, "protocol": protocol, "mode": mode, "host": "127.0.0.1", "port": port,
            "events_path": str(self.events), "reconnect_first_s": 0.1, "reconnect_most_s": 0.5, **settings,
        }  # fmt: skip
        path.write_text(json.dumps(config))
        child = self._stack.enter_context(Child("sender", ["simulator.sender", str(path)], self._record))
        child.wait_for("ready", START_S)
        self.scenario, self.start_at_ns = scenario, time.time_ns() + 300_000_000
        child.send("start", at_ns=self.start_at_ns)
        return child

    def rows(self) -> list[dict[str, Any]]:
        return to_table(self.events, Scenario(**self.scenario), self.start_at_ns).to_pylist()

    def records(self, wanted: set[tuple[str, int]], timeout_s: float = 30.0) -> list[tuple[str, int]]:
        """Return (vehicle, sequence) of every record, once those wanted are there or time is over."""
        consumer = Consumer(
            {"bootstrap.servers": self._kafka, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        )
        found: list[tuple[str, int]] = []
        try:
            consumer.subscribe([self.topics.status])
            end_s = time.monotonic() + timeout_s
            while not wanted <= set(found) and time.monotonic() < end_s:
                found += [
                    (message.key().decode(), int(dict(message.headers())["sequence"]))
                    for message in consumer.consume(1000, 0.2)
                    if message.error() is None
                ]
        finally:
            consumer.close()
        return found


@pytest.fixture
def rig(
    run_record: RunRecord, kafka: str, rabbitmq_loopback: tuple[str, int], tmp_path: Path
) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack, run_record, kafka, rabbitmq_loopback, tmp_path)


def follow(gateway: Child, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end_s = time.monotonic() + 60
    while not condition(event := gateway.wait_for("progress", 60)):
        assert time.monotonic() < end_s, f"still {event}"
    return event


@pytest.mark.parametrize(("protocol", "mode"), SAFE)
def test_a_killed_gateway_loses_nothing_acknowledged(rig, protocol, mode):
    gateway = rig.gateway(protocol, mode, **({"port": 0} if protocol == "coap" else {}))
    scenario = {"vehicles": 10, "interval_s": 0.1, "duration_s": 4.0}
    sender = rig.sender(protocol, mode, gateway.port, scenario, drain_s=40.0)
    follow(gateway, lambda event: event["delivered"] >= 100)
    gateway.kill()
    rig.gateway(protocol, mode, **({"port": gateway.port} if protocol == "coap" else {}))
    sender.wait_for("done", 90)
    rows = rig.rows()
    assert len(rows) == 400
    due = {(row["vehicle_id"], row["sequence"]) for row in rows}
    acknowledged = {(row["vehicle_id"], row["sequence"]) for row in rows if row["acknowledged_at_ns"]}
    # Retransmission (CoAP) and the queue (AMQP) bridge the gap, so that here it is all of them.
    assert acknowledged == due
    assert set(rig.records(acknowledged)) == due


@pytest.mark.parametrize(
    ("protocol", "mode"),
    [
        ("coap", "con"),
        *(pytest.param(*one, marks=pytest.mark.full) for one in (SAFE[0], ("amqp", "auto"), ("coap", "non"))),
    ],
)
def test_while_kafka_stands_still_the_gateway_holds_no_more_than_allowed(
    run_record, tmp_path, rabbitmq_loopback, protocol, mode
):
    with ExitStack() as stack:
        server = stack.enter_context(KafkaServer(run_record))
        rig = Rig(stack, run_record, server.bootstrap, rabbitmq_loopback, tmp_path)
        gateway = rig.gateway(protocol, mode, receive_max=5, port=0) if protocol == "coap" else rig.gateway(
            protocol, mode, receive_max=5
        )  # fmt: skip
        # Before the first message: in the middle of a run the gateway may pause while 3 of 5 are held, and stay so.
        stand_still(server.process.pid)
        try:
            scenario = {"vehicles": 10, "interval_s": 0.1, "duration_s": 5.0}
            sender = rig.sender(protocol, mode, gateway.port, scenario, drain_s=40.0)
            held = follow(gateway, lambda event: event["held"] >= 5)["held"]
            for _ in range(6):
                event = gateway.wait_for("progress", 10)
                held = max(held, event["held"])
                assert event["delivered"] == 0
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        # Automatic acknowledgement has no prefetch: what one read of the socket brought is held besides.
        assert held <= 5 if (protocol, mode) != ("amqp", "auto") else held < 500
        sender.wait_for("done", 90)
        rows = rig.rows()
        due = {(row["vehicle_id"], row["sequence"]) for row in rows}
        if mode == "non":
            taken = {(r["vehicle_id"], r["sequence"]) for r in rows if r["acknowledged_at_ns"]}
            assert taken <= set(rig.records(taken))
            assert taken < due, "5.03 to a NON request is a loss, and the sender was told so"
        else:
            assert set(rig.records(due)) == due
        if protocol == "coap":
            assert follow(gateway, lambda _: True)["unavailable"] > 0


async def test_garbage_over_coap_is_answered_by_its_kind_and_is_in_the_dead_letters(rig: Rig) -> None:
    gateway = rig.gateway("coap", "con", port=0)
    context = await aiocoap.Context.create_client_context()
    uri = f"coap://127.0.0.1:{gateway.port}/vehicles/{vehicle_id(1)}/status"
    codes = []
    try:
        for options in ({"payload": b"garbage"}, {"payload": b"{}", "content_format": 60}):
            request = aiocoap.Message(code=aiocoap.POST, uri=uri, **options)
            async with asyncio.timeout(30):
                codes.append((await context.request(request).response).code)
    finally:
        await context.shutdown()
    assert codes == [aiocoap.BAD_REQUEST, aiocoap.UNSUPPORTED_CONTENT_FORMAT]
    progress = follow(gateway, lambda event: event["dead_letters"] == 2)
    assert (progress["received"], progress["acknowledged"]) == (2, 2)
