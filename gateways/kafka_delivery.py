"""Records on their way to Kafka: sent, sent again, confirmed, or given to the dead letters with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from functools import partial
from typing import ClassVar, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from gateways.counters import Counters
from gateways.delivery import Header
from gateways.protocols.ends import Receipt
from gateways.sinks.records import POISON
from gateways.sinks.sink import Sink, SinkError
from schemas.topics import KafkaTopics

_REASON_CHARACTERS: Final = 200
# The producer gave the record up when it was closed: not yet sent, or sent and not answered.
_PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - the library's public names
# A dead letter is to be read by a person: of a payload beyond this its beginning, below Kafka's usual limit of 1 MiB.
DEAD_LETTER_BYTES: Final = 900_000
_AGAIN_AFTER_S: Final = 0.05


class Record(NamedTuple):
    """One record for Kafka, and what its message's acknowledgement needs."""

    topic: str
    key: bytes
    payload: bytes
    headers: list[Header]
    receipt: Receipt


class KafkaDelivery:
    """Implements gateways.delivery.Delivery on an idempotent producer with acks=all.

    Args:
        producer: a row of SINKS, opened.
        early_ack: acknowledge when the producer has the record, not when Kafka has: the careless mode.
        fatal: called with a line when the producer can go no further; what is unacknowledged comes again.
        in_flight: called with each record that the producer, when it was closed, had sent and Kafka had not answered.
    """

    platform: ClassVar[str] = "Kafka"
    acknowledge: Callable[[Receipt], None]

    def __init__(
        self,
        *,
        producer: Sink,
        topics: KafkaTopics,
        counters: Counters,
        early_ack: bool = False,
        fatal: Callable[[str], None],
        in_flight: Callable[[Record], None] | None = None,
    ) -> None:
        self.held = 0
        self.held_bytes = 0
        self._producer = producer
        self._produce = producer.produce
        self._topic = topics.status
        self._dead_letter_topic = topics.dead_letter
        self._counters = counters
        self._early_ack = early_ack
        self._fatal = fatal
        self._in_flight = in_flight
        self._loop = asyncio.get_running_loop()

    def deliver(self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt) -> None:
        self.held += 1
        self.held_bytes += len(payload)
        record = Record(self._topic, key, payload, headers, receipt)
        try:  # `_send` written out: a call less for each message
            self._produce(
                self._topic, payload, key, on_delivery=partial(self._reported, record), headers=headers
            )
        except (BufferError, KafkaException) as error:
            self._refused(record, error)
        if self._early_ack:
            self._settle(receipt)

    def dead_letter(
        self,
        key: bytes,
        payload: bytes,
        headers: list[Header],
        receipt: Receipt,
        reason: str,
        *,
        size_bytes: int | None = None,
    ) -> None:
        self._write_letter(key, payload, headers, receipt, reason, size_bytes=size_bytes)
        if self._early_ack:
            self._settle(receipt)

    def poll(self) -> None:
        self._producer.poll(0)
        if self._producer.fatal is not None:
            self._give_up(self._producer.fatal)

    def flush(self) -> None:
        """Do nothing: the producer has every record already."""

    def _settle(self, receipt: Receipt) -> None:
        self._counters.acknowledged += 1
        self.acknowledge(receipt)

    def _send(self, record: Record) -> None:
        """Give a record to the producer, now or soon; what it refuses for good goes to the dead letters."""
        topic, key, payload, headers, _receipt = record
        try:
            self._produce(topic, payload, key, on_delivery=partial(self._reported, record), headers=headers)
        except (BufferError, KafkaException) as error:
            self._refused(record, error)

    def _refused(self, record: Record, error: BufferError | KafkaException) -> None:
        if isinstance(error, BufferError):
            # librdkafka's queue is larger than all that may be held; only a burst of retries can fill it.
            self._loop.call_later(_AGAIN_AFTER_S, self._send, record)
        else:
            self._counters.produce_errors += 1
            self._unsendable(record, error.args[0])

    def _reported(self, record: Record, error: SinkError | None, message: Sized) -> None:
        """Kafka's delivery report for one record."""
        if error is not None:
            self._not_delivered(record, error)
            return
        self.held -= 1
        self.held_bytes -= len(message)
        self._counters.delivered += 1
        if not self._early_ack:
            self._counters.acknowledged += 1
            self.acknowledge(record.receipt)

    def _not_delivered(self, record: Record, error: SinkError) -> None:
        """Poison goes to the dead letters, anything else is sent again; a fatal error ends the gateway."""
        if error.code() in _PURGED:
            if self._in_flight is not None and error.code() == KafkaError._PURGE_INFLIGHT:  # noqa: SLF001
                self._in_flight(record)
            return
        self._counters.produce_errors += 1
        if error.fatal() or self._producer.fatal is not None:
            self._give_up(error.str())
        elif error.code() in POISON:
            self._unsendable(record, error)
        else:
            self._loop.call_later(_AGAIN_AFTER_S, self._send, record)

    def _unsendable(self, record: Record, error: SinkError) -> None:
        """Tell the dead letters what Kafka will never take; end the gateway where even that is impossible."""
        topic, key, payload, headers, receipt = record
        if error.code() not in POISON or (topic == self._dead_letter_topic and not payload):
            self._give_up(error.str())
            return
        if topic == self._dead_letter_topic:
            # Its topic takes even less than Kafka does by default: a tenth still says what it was.
            beginning = payload[: len(payload) // 10]
            self.held_bytes -= len(payload) - len(beginning)
            self._send(record._replace(payload=beginning))
            return
        self.held -= 1
        self.held_bytes -= len(payload)
        self._write_letter(key, payload, headers, receipt, f"{self.platform}: {error.str()}")

    def _write_letter(
        self,
        key: bytes,
        payload: bytes,
        headers: list[Header],
        receipt: Receipt,
        reason: str,
        *,
        size_bytes: int | None = None,
    ) -> None:
        self._counters.dead_letters += 1
        told: list[Header] = [
            ("reason", reason[:_REASON_CHARACTERS].encode()),
            ("payload_bytes", b"%d" % (len(payload) if size_bytes is None else size_bytes)),
            *headers,
        ]
        beginning = payload[:DEAD_LETTER_BYTES]
        self.held += 1
        self.held_bytes += len(beginning)
        self._send(Record(self._dead_letter_topic, key, beginning, told, receipt))

    def _give_up(self, reason: str) -> None:
        self._fatal(f"the producer cannot go on: {reason}")
