"""Batches between the bridge and a producer of paper: what is held, sent and acknowledged, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError

from gateways.batched_delivery import BatchedDelivery
from gateways.batching.batcher import BatchSetting
from gateways.counters import Counters
from schemas.topics import KafkaTopics


class Paper:
    """A producer that reports when it is told."""

    def __init__(self) -> None:
        self.fatal: str | None = None
        self.waiting: list[tuple[bytes, Any]] = []

    def produce(self, _topic: str, value: bytes, _key: bytes, *, on_delivery: Any, headers: Any) -> None:
        self.waiting.append((value, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        pass

    @property
    def values(self) -> list[bytes]:
        return [value for value, _ in self.waiting]

    def report(self, error: KafkaError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for value, on_delivery in waiting:
            on_delivery(error, value)


class Stand:
    def __init__(self, setting: BatchSetting, *, early_ack: bool = False) -> None:
        self.now_s = 0.0
        self.producer = Paper()
        self.counters = Counters()
        self.acknowledged: list[Any] = []
        self.delivery = BatchedDelivery(
            setting=setting,
            partition_of=lambda key: key[0] % 2,
            clock_s=lambda: self.now_s,
            producer=self.producer,
            topics=KafkaTopics(),
            counters=self.counters,
            early_ack=early_ack,
            fatal=pytest.fail,
        )
        self.delivery.acknowledge = self.acknowledged.append

    def give(self, *values: bytes, key: bytes = b"\0") -> None:
        for value in values:
            self.delivery.deliver(key, value, [], value)


async def test_a_message_waits_for_its_batch_and_is_acknowledged_after_kafka() -> None:
    stand = Stand(BatchSetting(3, 100.0))
    stand.give(b"a", b"b")
    stand.delivery.poll()
    assert (stand.producer.values, stand.delivery.held, stand.delivery.held_bytes) == ([], 2, 2)
    stand.give(b"x", key=b"\1")
    stand.give(b"c")
    assert stand.producer.values == [b"a", b"b", b"c"]
    assert stand.acknowledged == []
    stand.producer.report()
    assert stand.acknowledged == [b"a", b"b", b"c"]
    assert (stand.delivery.held, stand.counters.batches, stand.counters.full_batches) == (1, 1, 1)


async def test_a_batch_leaves_at_its_age() -> None:
    stand = Stand(BatchSetting(3, 100.0))
    stand.give(b"a")
    stand.now_s = 0.099
    stand.delivery.poll()
    assert stand.producer.values == []
    stand.now_s = 0.1
    stand.delivery.poll()
    assert stand.producer.values == [b"a"]
    assert (stand.counters.batches, stand.counters.full_batches) == (1, 0)


async def test_a_new_setting_holds_at_once() -> None:
    stand = Stand(BatchSetting(5, 1_000.0))
    stand.give(b"a", b"b", b"c")
    stand.delivery.change(BatchSetting(2, 1_000.0))
    assert stand.producer.values == [b"a", b"b", b"c"]
    stand.give(b"d", b"e")
    assert stand.producer.values == [b"a", b"b", b"c", b"d", b"e"]
    assert (stand.counters.batches, stand.counters.full_batches) == (3, 1)


async def test_a_flush_lets_nothing_wait() -> None:
    stand = Stand(BatchSetting(5, 1_000.0))
    stand.give(b"a")
    stand.give(b"b", key=b"\1")
    stand.delivery.flush()
    assert stand.producer.values == [b"a", b"b"]


async def test_early_acknowledgement_waits_for_no_batch() -> None:
    stand = Stand(BatchSetting(5, 1_000.0), early_ack=True)
    stand.give(b"a")
    assert (stand.acknowledged, stand.producer.values) == ([b"a"], [])
    stand.delivery.flush()
    stand.producer.report()
    assert stand.acknowledged == [b"a"]


async def test_a_dead_letter_and_a_record_sent_again_wait_for_no_batch() -> None:
    stand = Stand(BatchSetting(2, 1_000.0))
    stand.delivery.dead_letter(b"", b"broken", [], "letter", "no reason")
    assert stand.producer.values == [b"broken"]
    stand.producer.report()
    stand.give(b"a", b"b")
    stand.producer.report(KafkaError(KafkaError._TIMED_OUT))
    assert stand.acknowledged == ["letter"]

    async def again() -> None:
        while len(stand.producer.values) < 2:
            await asyncio.sleep(0.001)

    await asyncio.wait_for(again(), 5)
    assert stand.producer.values == [b"a", b"b"]
