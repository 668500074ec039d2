"""Kafka's clients, against a made-up producer of librdkafka: whose record a delivery report is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ivsim.study.engines.pipe.platforms import kafka_clients

Delivered = Callable[[None, "Answered"], None]


class Answered:
    """What librdkafka hands back of a record in a batch that the broker has had before: the last one's timestamp."""

    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp


class MadeUpProducer:
    """Takes records, and reports them all at the flush."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.timestamps: list[int] = []
        self._waiting: list[Delivered] = []

    def produce(self, _topic: str, _value: bytes, _key: bytes | None, _partition: int, **more: Any) -> None:
        self.timestamps.append(more["timestamp"])
        self._waiting.append(more["on_delivery"])

    def flush(self, _timeout_s: float) -> int:
        for delivered in self._waiting:
            delivered(None, Answered(self.timestamps[-1]))
        self.properties["stats_cb"]('{"tx_bytes": 1, "topics": {}}')
        return 0

    def poll(self, _timeout_s: float) -> int:
        return 0


def test_a_report_is_of_its_own_record_whatever_time_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MadeUpProducer] = []

    def producer(properties: dict[str, Any]) -> MadeUpProducer:
        made.append(MadeUpProducer(properties))
        return made[-1]

    monkeypatch.setattr(kafka_clients, "Producer", producer)
    reports: list[tuple[int, str | None]] = []
    place = {"bootstrap": "127.0.0.1:1", "topic": "t", "partitions": 2, "origin_ms": 1_700_000_000_000}
    settings = {
        "acks": "all",
        "idempotence": True,
        "codec": "none",
        "linger_ms": 5,
        "batch_bytes": 1_000,
        "batch_messages": 100,
        "partitioner": "spread",
    }
    sender = kafka_clients.sender(
        place, settings, 0, lambda number, problem: reports.append((number, problem))
    )
    for number in (1, 2, 3):
        sender.send(number, None, b"v", 0)
    sender.flush(1.0)
    assert reports == [(1, None), (2, None), (3, None)]
    # Of today: Kafka forgets an idempotent producer whose last record is as old as 1970 when it recovers.
    assert made[0].timestamps == [1_700_000_000_001, 1_700_000_000_002, 1_700_000_000_003]
