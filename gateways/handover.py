"""Records on their way to Kafka: sent, sent again, reported, acknowledged, or given to the dead letters with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from gateways.counters import Counters
from gateways.producer import POISON, Header, RecordProducer
from gateways.protocols.base import Intake, Receipt
from schemas.topics import HEADERS, KafkaTopics

_REASON_CHARACTERS = 200
# A dead letter is to be read by a person: of a payload beyond this its beginning, below Kafka's usual limit of 1 MiB.
_DEAD_LETTER_BYTES = 900_000
FORMAT, PROTOCOL, MODE, EPOCH, SEQUENCE, SAMPLED, RECEIVED = HEADERS


class Record(NamedTuple):
    """One record for Kafka, and what its message's acknowledgement needs."""

    topic: str
    key: bytes
    payload: bytes
    headers: list[Header]
    receipt: Receipt


class HandOver:
    """What is held between an intake and Kafka, and its bound; everything runs on the event loop's thread.

    Args:
        origin: the headers format, protocol and mode, which every record here has alike.
        held_max, held_bytes_max: above either the intake is paused.
        early_ack: acknowledge when the producer has the record, not when Kafka has: the careless mode.
        fatal: called with a line when the producer can go no further; what is unacknowledged comes again.
    """

    intake: Intake

    def __init__(
        self,
        *,
        producer: RecordProducer,
        topics: KafkaTopics,
        origin: tuple[Header, Header, Header],
        held_max: int,
        held_bytes_max: int,
        early_ack: bool,
        fatal: Callable[[str], None],
    ) -> None:
        self.counters = Counters()
        self.held = 0
        self.held_bytes = 0
        self.paused = False
        self._producer = producer
        self._produce = producer.produce
        self._topics = topics
        self._topic = topics.status
        self._origin = origin
        self._held_max = held_max
        self._held_bytes_max = held_bytes_max
        self._early_ack = early_ack
        self._fatal = fatal
        self._loop = asyncio.get_running_loop()

    def _hand_over(self, record: Record, *, acknowledged: bool = False) -> None:
        self.held += 1
        self.held_bytes += len(record.payload)
        if not self._send(record):
            return
        if self._early_ack and not acknowledged:
            self.counters.acknowledged += 1
            self.intake.acknowledge(record.receipt)
        if (self.held > self._held_max or self.held_bytes > self._held_bytes_max) and not self.paused:
            self.paused = True
            self.counters.pauses += 1
            self.intake.pause()

    def _send(self, record: Record) -> bool:
        """Give a record to the producer, now or soon; False when it takes none such and another place was found."""
        topic, key, payload, headers, _receipt = record
        try:
            self._produce(topic, payload, key, on_delivery=partial(self._reported, record), headers=headers)
        except BufferError:
            # librdkafka's queue is larger than all that may be held; only a burst of retries can fill it.
            self._loop.call_later(0.05, self._send, record)
        except KafkaException as error:
            self.counters.produce_errors += 1
            self._unsendable(record, error.args[0], acknowledged=False)
            return False
        return True

    def _reported(self, record: Record, error: KafkaError | None, message: Any) -> None:
        """Kafka's delivery report for one record."""
        if error is not None:
            self._not_delivered(record, error)
            return
        self.held -= 1
        self.held_bytes -= len(message)
        self.counters.delivered += 1
        if not self._early_ack:
            self.counters.acknowledged += 1
            self.intake.acknowledge(record.receipt)

    def _not_delivered(self, record: Record, error: KafkaError) -> None:
        """Poison goes to the dead letters, anything else is sent again; a fatal error ends the gateway."""
        self.counters.produce_errors += 1
        if error.fatal() or self._producer.fatal is not None:
            self._fatal(f"the producer cannot go on: {error.str()}")
        elif error.code() in POISON and record.topic == self._topic:
            self._unsendable(record, error, acknowledged=self._early_ack)
        else:
            self._loop.call_later(0.05, self._send, record)

    def _unsendable(self, record: Record, error: KafkaError, *, acknowledged: bool) -> None:
        """Tell the dead letters what Kafka will never take; end the gateway where even that is impossible."""
        if error.code() not in POISON or record.topic != self._topic:
            self._fatal(f"the producer cannot go on: {error.str()}")
            return
        self.held -= 1
        self.held_bytes -= len(record.payload)
        received_at_ns = int(record.headers[-1][1])
        reason = f"Kafka: {error.str()}"
        address = record.key.decode()
        self._dead_letter(address, b"", received_at_ns, record.receipt, reason, acknowledged=acknowledged)

    def _dead_letter(
        self,
        address: str,
        payload: bytes,
        received_at_ns: int,
        receipt: Receipt,
        reason: str,
        *,
        acknowledged: bool = False,
    ) -> None:
        self.counters.dead_letters += 1
        headers: list[Header] = [
            ("reason", reason[:_REASON_CHARACTERS].encode()),
            *self._origin,
            (RECEIVED, b"%d" % received_at_ns),
        ]
        beginning = payload[:_DEAD_LETTER_BYTES]
        record = Record(self._topics.dead_letter, address.encode(), beginning, headers, receipt)
        self._hand_over(record, acknowledged=acknowledged)
