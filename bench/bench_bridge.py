"""Measures the MQTT bridge: rate and CPU per message, bridge delay at 1,000/s, malformed input, memory."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from bench.mqtt_load import connect_frame, publish_all, publish_frame, publish_paced, throw
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.receive_log import to_table
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.generated.current_status_pb2 import CurrentStatus
from schemas.topics import KafkaTopics, vehicle_id
from simulator.fleet import emissions
from simulator.scenario import Scenario

MESSAGES = 150_000
VEHICLES = 20
PACED_PER_S = 1_000
PACED_S = 15
MALFORMED = 100_000
GOOD_BETWEEN = 2_000
BROKEN_FRAMES = 20_000
WAIT_S = 90.0

Message = tuple[str, bytes]


class Stand:
    """Kafka, mosquitto and one gateway process on loopback."""

    def __init__(self, record: RunRecord, kafka: str, broker: MosquittoServer) -> None:
        self.record = record
        self.kafka = kafka
        self.broker = (broker.host, broker.port)
        self.run = uuid.uuid4().hex[:8]
        self.topics = KafkaTopics(f"{self.run}.")
        self.log = record.directory / f"{self.run}.events"
        create_topics(kafka, self.topics)

    def gateway(self, mode: str = "qos1", **changes: Any) -> Child:
        """Start the gateway; the same session at the broker each time."""
        config = {
            "bootstrap": self.kafka, "host": self.broker[0], "port": self.broker[1], "mode": mode,
            "name": f"bench-{self.run}", "topics_prefix": self.topics.prefix, "receive_log": str(self.log),
        }  # fmt: skip
        path = self.record.directory / f"{self.run}.json"
        path.write_text(json.dumps({**config, **changes}))
        child = Child(f"gateway-{self.run}", ["gateways", "mqtt", "--config", str(path)], self.record)
        child.wait_for("ready", 20.0)
        return child

    def publish(self, messages: Iterator[Message] | list[Message]) -> int:
        return publish_all(self.broker, f"load-{uuid.uuid4().hex[:8]}", messages)


def cpu_s(pid: int) -> float:
    """Return the CPU time of the whole process, librdkafka's threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def messages(total: int) -> Iterator[Message]:
    """Yield a fleet's messages, every sequence once; contents repeat after the first few of each vehicle."""
    fleet = emissions(Scenario(vehicles=VEHICLES, duration_s=5.0), 1_700_000_000_000_000_000)
    templates = [(mqtt_topic(vehicle_id(e.vehicle)), CurrentStatus.FromString(e.payload)) for e in fleet]
    for index in range(total):
        topic, status = templates[index % VEHICLES]
        status.header.sequence_number = index // VEHICLES + 1
        yield topic, status.SerializeToString()


def wait_delivered(gateway: Child, total: int) -> dict[str, Any]:
    """Wait until the gateway has reported that many records."""
    end_s = time.monotonic() + WAIT_S
    while (event := gateway.wait_for("progress", 5.0))["delivered"] < total:
        if time.monotonic() > end_s:
            raise TimeoutError(f"{event['delivered']} of {total} messages delivered")
    return event


def throughput(stand: Stand, mode: str, load: list[Message], **changes: Any) -> str:
    """Fill the gateway's session while it is away, then time how it is emptied."""
    stand.gateway(mode, **changes).stop()
    stand.publish(load)
    with stand.gateway(mode, **changes) as gateway:
        begin_cpu_s = cpu_s(gateway.pid)
        event = wait_delivered(gateway, len(load))
        cpu_us = (cpu_s(gateway.pid) - begin_cpu_s) / len(load) * 1e6
    stamps = to_table(stand.log)["received_at_ns"].to_numpy()
    per_s = len(load) / ((stamps[-1] - stamps[0]) / 1e9)
    size = sum(len(payload) for _, payload in load) / len(load)
    return (
        f"{mode:10} {len(load):8,} x {size:5.0f} B {per_s:10,.0f} msg/s {cpu_us:6.1f} us CPU"
        f"   duplicates {event['duplicates']}  dead letters {event['dead_letters']}"
    )


def records(stand: Stand, topic: str, total: int) -> list[Any]:
    """Return `total` records of a topic, or what there is after a while."""
    consumer = Consumer(
        {"bootstrap.servers": stand.kafka, "group.id": stand.run, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    end_s = time.monotonic() + WAIT_S
    while len(found) < total and time.monotonic() < end_s:
        found += [m for m in consumer.consume(10_000, 1.0) if m.error() is None]
    consumer.close()
    return found


def paced(stand: Stand) -> str:
    """Bridge delay: Kafka's append minus the gateway's stamp, at a steady 1,000 messages a second."""
    total = PACED_PER_S * PACED_S
    load = list(messages(total))
    with stand.gateway() as gateway:
        publish_paced(stand.broker, f"load-{stand.run}", load, PACED_PER_S)
        wait_delivered(gateway, total)
    delays_ms = sorted(
        m.timestamp()[1] - int(dict(m.headers())["received_at_ns"]) / 1e6
        for m in records(stand, stand.topics.status, total)
    )
    at = [delays_ms[min(int(len(delays_ms) * q), len(delays_ms) - 1)] for q in (0.5, 0.95, 0.99, 1.0)]
    # LogAppendTime counts whole milliseconds, rounded down: half of one is added.
    p50, p95, p99, most = (value + 0.5 for value in at)
    figures = f"p50 {p50:.1f}  p95 {p95:.1f}  p99 {p99:.1f}  max {most:.1f} ms"
    return f"{len(delays_ms):,} messages at {PACED_PER_S:,}/s: bridge delay {figures}"


def malformed(stand: Stand) -> str:
    """Throw 100,000 bad messages with good ones between; memory is read on the way."""
    rng = random.Random(5)
    good = list(messages(GOOD_BETWEEN))
    with stand.gateway() as gateway:
        memory_mb: list[float] = []
        for part in range(10):
            bad = (_bad(rng, good) for _ in range(MALFORMED // 10))
            between = good[part * GOOD_BETWEEN // 10 : (part + 1) * GOOD_BETWEEN // 10]
            stand.publish([*bad, *between])
            event = wait_delivered(gateway, (part + 1) * (MALFORMED + GOOD_BETWEEN) // 10)
            memory_mb.append(resident_mb(gateway.pid))
    kept = {
        (m.key(), dict(m.headers())["sequence"])
        for m in records(stand, stand.topics.status, event["received"] - event["dead_letters"])
    }
    return (
        f"{MALFORMED:,} bad, {GOOD_BETWEEN:,} good: dead letters {event['dead_letters']:,}, good in Kafka"
        f" {len(kept & _identities(good)):,}, resident {memory_mb[0]:.0f} -> {memory_mb[-1]:.0f} MB"
    )


def _identities(good: list[Message]) -> set[tuple[bytes, bytes]]:
    return {
        (topic.split("/")[1].encode(), b"%d" % CurrentStatus.FromString(payload).header.sequence_number)
        for topic, payload in good
    }


def _bad(rng: random.Random, good: list[Message]) -> Message:
    """Return a message that must end in the dead letters."""
    topic, payload = rng.choice(good)
    kind = rng.randrange(4)
    if kind == 0:
        return topic, b"\xff" + rng.randbytes(rng.randrange(1200))
    if kind == 1:
        return topic, payload[: rng.randrange(40)]
    if kind == 2:
        return f"vehicles/{rng.randrange(10**9)}/status/{rng.randrange(9)}", payload
    return mqtt_topic(vehicle_id(rng.randrange(VEHICLES + 1, 60_000))), payload


def broken_frames(stand: Stand) -> str:
    """Throw frames that are no MQTT at the broker's port, good messages between; one connection each."""
    rng = random.Random(6)
    good = list(messages(GOOD_BETWEEN))
    frames = [publish_frame(t, p, 1, 7) for t, p in good[:50]] + [connect_frame("x")]
    with stand.gateway() as gateway:
        for part in range(10):
            for _ in range(BROKEN_FRAMES // 10):
                frame = bytearray(rng.choice(frames)[: rng.randrange(2, 400)])
                for _ in range(rng.randrange(1, 6)):
                    frame[rng.randrange(len(frame))] = rng.randrange(256)
                throw(stand.broker, connect_frame(f"f{rng.random()}") * rng.randrange(2) + bytes(frame))
            stand.publish(good[part * GOOD_BETWEEN // 10 : (part + 1) * GOOD_BETWEEN // 10])
        event = wait_delivered(gateway, GOOD_BETWEEN)
    kept = {
        (m.key(), dict(m.headers())["sequence"]) for m in records(stand, stand.topics.status, GOOD_BETWEEN)
    }
    return (
        f"{BROKEN_FRAMES:,} broken frames at the broker, {GOOD_BETWEEN:,} good: good in Kafka"
        f" {len(kept & _identities(good)):,}, connections of the gateway lost {event['connections_lost']}"
    )


def memory(stand: Stand, load: list[Message], rounds: int = 4) -> str:
    """Send the same load again and again through one process."""
    with stand.gateway() as gateway:
        series = []
        for number in range(1, rounds + 1):
            stand.publish(load)
            wait_delivered(gateway, number * len(load))
            series.append(f"{resident_mb(gateway.pid):.0f}")
    return f"{rounds} x {len(load):,} messages: resident MB after each: {' '.join(series)}"


def main() -> None:
    """Print one line per measurement."""
    load = list(messages(MESSAGES))
    with tempfile.TemporaryDirectory() as name:
        record = RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(name))
        with record, KafkaServer(record, jit="full") as kafka, MosquittoServer(record) as broker:
            for mode in ("qos1", "qos2"):
                print(throughput(Stand(record, kafka.bootstrap, broker), mode, load), flush=True)
            print(paced(Stand(record, kafka.bootstrap, broker)), flush=True)
            print(malformed(Stand(record, kafka.bootstrap, broker)), flush=True)
            print(broken_frames(Stand(record, kafka.bootstrap, broker)), flush=True)
            print(memory(Stand(record, kafka.bootstrap, broker), load[: MESSAGES // 3]), flush=True)


if __name__ == "__main__":
    main()
