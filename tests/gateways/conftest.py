from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from confluent_kafka import Consumer, TopicPartition

from gateways.protocols.mqtt.address import mqtt_topic
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.formats import FORMATS
from schemas.topics import KafkaTopics, vehicle_id
from simulator.fleet import emissions
from simulator.scenario import Scenario

START_S = 30.0


@pytest.fixture
def topics(kafka: str) -> KafkaTopics:
    topics = KafkaTopics(f"g{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    return topics


@pytest.fixture
def start_gateway(tmp_path: Path, run_record: RunRecord) -> Iterator[Callable[..., Child]]:
    """Start one gateway process and wait until it is ready; all are stopped at the end."""
    with ExitStack() as stack:
        started = 0

        def start(*, protocol: str = "mqtt", **config: Any) -> Child:
            nonlocal started
            started += 1
            path = tmp_path / f"gateway-{started}.json"
            values = {"mode": "qos1", "name": f"g-{run_record.run_id}", **config}
            path.write_text(json.dumps(values))
            child = Child(f"gateway-{started}", ["gateways", protocol, "--config", str(path)], run_record)
            stack.enter_context(child)
            child.wait_for("ready", START_S)
            return child

        yield start


@pytest.fixture
def read_records() -> Callable[..., list[Any]]:
    """Read a topic from its beginning to the end it has once `count` records are there, and they are `enough`.

    Where a message may come twice a number says nothing: `enough` then names what must be there. What there is
    after `timeout_s` is returned in any case.
    """

    def read(
        bootstrap: str,
        topic: str,
        count: int,
        enough: Callable[[list[Any]], bool] = bool,
        timeout_s: float = 20.0,
    ) -> list[Any]:
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        )
        found: list[Any] = []
        try:
            consumer.subscribe([topic])
            end_s = time.monotonic() + timeout_s
            while not (len(found) >= count and enough(found)) and time.monotonic() < end_s:
                found += [m for m in consumer.consume(1000, 0.2) if m.error() is None]
            ends = _ends(consumer, topic)
            while not _at(ends, found) and time.monotonic() < end_s:
                found += [m for m in consumer.consume(1000, 0.2) if m.error() is None]
        finally:
            consumer.close()
        return found

    return read


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    partitions = consumer.list_topics(topic, 10.0).topics[topic].partitions
    return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 10.0)[1] for p in partitions}


def _at(ends: dict[int, int], found: list[Any]) -> bool:
    read = {(m.partition(), m.offset() + 1) for m in found}
    return all(end == 0 or (partition, end) in read for partition, end in ends.items())


@pytest.fixture
def payloads() -> Callable[..., list[tuple[int, int, bytes]]]:
    """Return (vehicle, sequence, payload) of a small fleet in a format."""

    def make(
        vehicles: int, each: int, name: str = "protobuf", epoch: int = 1
    ) -> list[tuple[int, int, bytes]]:
        assert name in FORMATS
        scenario = Scenario(vehicles=vehicles, duration_s=float(each), format=name, epoch=epoch)
        return [(e.vehicle, e.sequence, e.payload) for e in emissions(scenario, 1_700_000_000_000_000_000)]

    return make


@pytest.fixture
def until() -> Callable[..., dict[str, Any]]:
    """Follow a gateway's progress events until a condition holds."""

    def follow(
        gateway: Child, condition: Callable[[dict[str, Any]], bool], timeout_s: float = 30.0
    ) -> dict[str, Any]:
        end_s = time.monotonic() + timeout_s
        while True:
            event = gateway.wait_for("progress", timeout_s)
            if condition(event):
                return event
            assert time.monotonic() < end_s, f"still {event}"

    return follow


@pytest.fixture
def publish() -> Callable[..., None]:
    """Publish (topic, payload) pairs and wait until the broker has acknowledged them."""

    def send(server: Any, messages: list[tuple[str, bytes]], qos: int = 1) -> None:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, uuid.uuid4().hex, protocol=mqtt.MQTTv5)
        client.max_inflight_messages_set(200)
        client.connect(server.host, server.port)
        client.loop_start()
        try:
            infos = [client.publish(topic, payload, qos) for topic, payload in messages]
            for info in infos:
                info.wait_for_publish(20)
                assert info.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    return send


@pytest.fixture
def fuzzed() -> Callable[..., list[tuple[str, bytes]]]:
    """Mix bad messages into good ones, the good ones in their order."""

    def mix(good: list[tuple[str, bytes]], count: int) -> list[tuple[str, bytes]]:
        rng = random.Random(11)
        bad = [_bad(rng, good) for _ in range(count)]
        at = sorted(rng.randrange(count) for _ in good)
        for (position, message), shift in zip(zip(at, good, strict=True), range(len(good)), strict=True):
            bad.insert(position + shift, message)
        return bad

    return mix


def _bad(rng: random.Random, good: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    topic, payload = rng.choice(good)
    choice = rng.randrange(5)
    if choice == 0:
        return topic, b"\xff" + rng.randbytes(rng.randrange(300))
    if choice == 1:
        return topic, payload[: rng.randrange(20)]
    if choice == 2:
        return f"vehicles/{rng.choice(['', '#x', 'a b', 'é', 'x' * 40])}/status".replace("#", "%"), payload
    if choice == 3:
        return "vehicles" + "/x" * rng.randrange(1, 9), payload
    return mqtt_topic(vehicle_id(rng.randrange(100, 60_000))), payload
