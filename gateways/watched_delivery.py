"""Batches whose messages are timed, so that the next setting can be chosen by them."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from gateways.batched_delivery import BatchedDelivery
from gateways.batching.period import Period
from gateways.delivery import Header
from gateways.kafka_delivery import Record
from gateways.protocols.ends import Receipt
from gateways.sinks.sink import SinkError


class TimedRecord(Record):
    """A record that knows when it was taken and when its batch was ended, by the delivery's clock."""

    taken_s: float
    ended_s: float


class WatchedDelivery(BatchedDelivery):
    """Tells a period what was taken and what Kafka has confirmed; dead letters are none of its matters.

    Args:
        period: to be told.
        others: of BatchedDelivery.
    """

    def __init__(self, *, period: Period, **others: Any) -> None:
        super().__init__(**others)
        self._period = period

    def _recorded(
        self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt, now_s: float
    ) -> Record:
        self._period.taken += 1
        record = TimedRecord(self._topic, key, payload, headers, receipt)
        record.taken_s = now_s
        return record

    def _send_batch(self, batch: list[Record]) -> None:
        now_s = self._clock_s()
        for record in batch:
            if isinstance(record, TimedRecord):
                record.ended_s = now_s
        super()._send_batch(batch)

    def _reported(self, record: Record, error: SinkError | None, message: Sized) -> None:
        if error is None and isinstance(record, TimedRecord):
            self._period.confirmed(record.taken_s, record.ended_s, self._clock_s())
        super()._reported(record, error, message)
