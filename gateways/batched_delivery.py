"""Kafka's delivery with batches of our own above librdkafka's: a thin shell around gateways.batching.batcher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gateways.batching.batcher import Batcher, BatchSetting
from gateways.delivery import Header
from gateways.kafka_delivery import KafkaDelivery, Record
from gateways.protocols.ends import Receipt


class BatchedDelivery(KafkaDelivery):
    """Gives the producer whole batches: what waits for its batch is held, and unacknowledged.

    A batch leaves as one request of the producer's whose own `batch.num.messages` is not below it; one closed for its
    age leaves `linger.ms` later. Dead letters and what is sent again wait for no batch.

    Args:
        setting: of the first batches.
        partition_of: the partition of a key, as the producer chooses it.
        clock_s: seconds that never go back.
        others: of KafkaDelivery.
    """

    def __init__(
        self,
        *,
        setting: BatchSetting,
        partition_of: Callable[[bytes], int],
        clock_s: Callable[[], float] = time.monotonic,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self._batcher: Batcher[Record] = Batcher(setting)
        self._add = self._batcher.add
        self._partition_of = partition_of
        self._clock_s = clock_s

    def deliver(self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt) -> None:
        self.held += 1
        self.held_bytes += len(payload)
        now_s = self._clock_s()
        record = self._recorded(key, payload, headers, receipt, now_s)
        closed = self._add(self._partition_of(key), record, now_s)
        if closed is not None:
            self._counters.full_batches += len(closed) == self._batcher.setting.messages
            self._send_batch(closed)
        if self._early_ack:
            self._settle(receipt)

    def _recorded(
        self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt, _now_s: float
    ) -> Record:
        return Record(self._topic, key, payload, headers, receipt)

    def poll(self) -> None:
        self._send_batches(self._batcher.due(self._clock_s()))
        super().poll()

    def flush(self) -> None:
        self._send_batches(self._batcher.close())

    def change(self, setting: BatchSetting) -> None:
        """Make batches by another setting from now on, those that are open included.

        A count above the producer's `batch.num.messages` makes several requests of a batch.
        """
        self._send_batches(self._batcher.change(setting, self._clock_s()))

    def _send_batches(self, batches: Iterable[list[Record]]) -> None:
        for batch in batches:
            self._send_batch(batch)

    def _send_batch(self, batch: list[Record]) -> None:
        self._counters.batches += 1
        for record in batch:
            self._send(record)
