"""Writes `twin.state` as the twin job would, from a real fleet: for the service's benchmark and tests."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator

from confluent_kafka import Producer

from ivsim.runs.live_publisher import ROWS
from schemas.formats import FORMATS
from schemas.messages import CurrentStatus
from schemas.topics import KafkaTopics, vehicle_id
from simulator.vehicles.vehicle import Vehicle

Headers = list[tuple[str, bytes]]
VARIANTS = ("rigid", "trailer", "hybrid")
SECOND_NS = 1_000_000_000


def state_headers(sequence: int, sampled_at_ns: int | None, /, **other: object) -> Headers:
    """Return the headers of a record of `twin.state`; a value of None leaves one out."""
    at = sampled_at_ns or time.time_ns()
    words: dict[str, object] = {
        "format": "protobuf", "protocol": "mqtt", "mode": "qos1", "epoch": 1, "sequence": sequence,
        "sampled_at_ns": "" if sampled_at_ns is None else sampled_at_ns, "received_at_ns": at + 40_000_000,
        "messages": sequence, "duplicates": 0, "gaps": 0, "given_up": 0,
        "first_received_at_ns": at, "last_received_at_ns": at + 40_000_000,
    }  # fmt: skip
    words |= other
    return [(name, str(value).encode()) for name, value in words.items() if value is not None]


class Fleet:
    """Vehicles that drive; `status` moves one on to its next sequence."""

    def __init__(self, vehicles: int, seed: int = 1) -> None:
        self._vehicles = [
            Vehicle(k + 1, VARIANTS[k % 3], random.Random(seed * 1_000_003 + k)) for k in range(vehicles)
        ]
        self._sequences = [0] * vehicles

    def status(self, k: int, sampled_at_ns: int) -> tuple[CurrentStatus, int]:
        """Return vehicle k's next living status (k from 0) and its sequence."""
        self._sequences[k] += 1
        vehicle = self._vehicles[k]
        vehicle.advance(self._sequences[k] * SECOND_NS)
        return vehicle.status(self._sequences[k], 1, sampled_at_ns, vehicle.cause), self._sequences[k]


class Load:
    """Produces a fleet's states to a topic."""

    def __init__(
        self, bootstrap: str, topics: KafkaTopics, vehicles: int, format_name: str = "protobuf"
    ) -> None:
        self.topics = topics
        self.vehicles = vehicles
        self.format = format_name
        self.fleet = Fleet(vehicles)
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 2, "message.max.bytes": 20_000_000,
             "queue.buffering.max.messages": 500_000, "log_level": 0}
        )  # fmt: skip

    def one(self, k: int, **other: object) -> None:
        """Send vehicle k's next state, stamped now."""
        # Sampled a moment ago, at the gateway just now.
        now = time.time_ns() - 40_000_000
        status, sequence = self.fleet.status(k, now)
        lost = sequence // 20 if k % 7 == 0 else 0
        words = {"gaps": lost, "messages": sequence - lost + sequence // 30, "duplicates": sequence // 30}
        headers = state_headers(sequence, now, **({"format": self.format} | words | other))
        self.send(vehicle_id(k + 1), FORMATS[self.format].encode(status), headers)

    def send(self, key: str | None, value: bytes | None, headers: Headers | None) -> None:
        """Send one record as it is."""
        while True:
            try:
                self.producer.produce(self.topics.state, value, key, headers=headers)
            except BufferError:
                self.producer.poll(0.05)
            else:
                break
        self.producer.poll(0)

    def all(self) -> None:
        """Send one state of every vehicle and wait until Kafka has them."""
        for k in range(self.vehicles):
            self.one(k)
        self.flush()

    def flush(self) -> None:
        """Return once Kafka has everything."""
        left = self.producer.flush(30)
        assert left == 0, f"{left} records not delivered"

    def figures(self, second: int) -> None:
        """Send the live figures of one second: emissions, link bytes, the fleet's and the vehicles' metrics."""
        emitted, crossed = [], []
        for k in range(self.vehicles):
            row = {"vehicle_id": vehicle_id(k + 1), "second": second}
            emitted.append({**row, "emitted": 1, "unsent": int(k % 97 == 5)})
            for way, size in (("uplink", 1_290), ("downlink", 104)):
                count = size + random.randrange(80)
                crossed.append({**row, "direction": way, "wire_bytes": count})
            self._metrics(vehicle_id(k + 1), None, 46 + k % 30)
        for topic, rows in ((self.topics.emissions, emitted), (self.topics.link, crossed)):
            for at in range(0, len(rows), ROWS):
                self.producer.produce(topic, json.dumps(rows[at : at + ROWS]))
        wave = 10 * math.sin(second / 5)
        self._metrics("*", None, 52)
        self._metrics("*", int(time.time()) // 10 * 10, 52 + wave)
        self.producer.poll(0)

    def _metrics(self, name: str, start: int | None, p50: float) -> None:
        row = {
            "window_start_s": start, "window_s": 10, "received": 10, "duplicates": 0, "gaps": 0,
            "payload_bytes": 11_500, "emitted": 10 * self.vehicles, "unsent": 0, "updates": 10,
            "end_to_end_latency_p50_ms": p50, "end_to_end_latency_p95_ms": p50 * 1.6,
            "end_to_end_latency_p99_ms": p50 * 2.4, "due_to_received_p50_ms": p50 * 0.7,
            "due_to_received_p95_ms": p50, "due_to_received_p99_ms": p50 * 1.5,
        }  # fmt: skip
        body = json.dumps({"vehicle_id": name, "at_ns": time.time_ns(), **row})
        self.producer.produce(self.topics.metrics, body, name)
        self.producer.poll(0)

    def paced(self, per_s: int, seconds: float, skip: int = 0) -> Iterator[int]:
        """Send `per_s` states a second, vehicle after vehicle; yield each second that has gone by.

        The last `skip` vehicles stay silent.
        """
        start_s = time.monotonic()
        sent = 0
        second = 0
        while (gone_s := time.monotonic() - start_s) < seconds:
            while sent < gone_s * per_s:
                self.one(sent % (self.vehicles - skip))
                sent += 1
            if int(gone_s) > second:
                second = int(gone_s)
                yield second
            time.sleep(0.002)
