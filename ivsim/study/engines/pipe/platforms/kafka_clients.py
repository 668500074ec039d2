"""Kafka's clients by confluent-kafka (librdkafka), as a producer's or a consumer's process has them.

librdkafka's defaults that other settings would differ from are written out. A record's timestamp is its number, in
milliseconds after the topic's origin, which is a time of today. One counted from 1970 would be long expired: a broker
that recovers its log from its end's records drops the state of idempotent producers that last wrote
`producer.id.expiration.ms` ago by their timestamps, and takes a batch that it has a second time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full, Place, Refused, Report

ANSWER_S: Final = 30.0
STATISTICS_MS: Final = 500
# A queue that is full slows a producer down; it must hold the largest batches of all partitions.
QUEUE_MESSAGES: Final = 100_000
QUEUE_KIB: Final = 262_144
UNASSIGNED: Final = -1
BARE_POLL: Final = 128
# librdkafka's names of TUNING, for a producer and for a consumer.
_SOCKETS: Final = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes")
PRODUCER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "in_flight": ("max.in.flight.requests.per.connection",),
    "socket_buffer_bytes": _SOCKETS,
    "retries": ("message.send.max.retries",),
    "message_max_bytes": ("message.max.bytes",),
}
CONSUMER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "fetch_min_bytes": ("fetch.min.bytes",),
    "socket_buffer_bytes": _SOCKETS,
}


# Options of which nothing need be said.
PRODUCER_OPTIONS: Final = {
    "in_flight": "max.in.flight.requests.per.connection",
    "queue_messages": "queue.buffering.max.messages",
    "expiry_ms": "message.timeout.ms",
}


def _tuned(settings: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    tuning = settings.get("tuning", {})
    return {name: tuning[key] for key, found in names.items() if key in tuning for name in found}


def producer_settings(place: Place, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's properties of a producer."""
    return {
        "bootstrap.servers": place["bootstrap"],
        "log_level": 0,
        "acks": settings["acks"],
        "enable.idempotence": settings["idempotence"],
        "compression.codec": settings["codec"],
        "linger.ms": settings["linger_ms"],
        "batch.size": settings["batch_bytes"],
        "batch.num.messages": settings["batch_messages"],
        "queue.buffering.max.messages": QUEUE_MESSAGES,
        "queue.buffering.max.kbytes": QUEUE_KIB,
        "partitioner": "murmur2_random",
        "statistics.interval.ms": STATISTICS_MS,
        **{name: settings[key] for key, name in PRODUCER_OPTIONS.items() if settings.get(key) is not None},
        **_tuned(settings, PRODUCER_TUNING),
        **_security(place),
    }


def consumer_settings(place: Place, settings: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return librdkafka's properties of a consumer."""
    return {
        "bootstrap.servers": place["bootstrap"],
        "log_level": 0,
        "group.id": place["topic"],
        "enable.auto.commit": False,
        "enable.partition.eof": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 500,
        "fetch.min.bytes": 1,
        **_tuned(settings, CONSUMER_TUNING),
        **_security(place),
    }


def _security(place: Place) -> dict[str, Any]:
    """Return what a client needs for TLS, where the place has it: it checks the broker's certificate and address."""
    authority = place.get("authority")
    return {} if authority is None else {"security.protocol": "ssl", "ssl.ca.location": authority}


class KafkaSender:
    """A producer with its delivery reports and statistics."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._partitions: int = place["partitions"]
        self._spread = settings["partitioner"] == "spread"
        self._own = index if settings["partitioner"] == "own" else UNASSIGNED
        self._answered = settings["acks"] != "0"
        self._next = index % self._partitions
        self._report = report
        self._wire_bytes = 0
        self._batches = 0
        self._batch_records = 0
        self._told = 0
        self._failed: str | None = None
        self._producer = Producer(
            {**producer_settings(place, settings), "stats_cb": self._statistics, "error_cb": self._error}
        )

    def open(self) -> None:
        self._producer.list_topics(self._topic, timeout=ANSWER_S)
        self._producer.poll(0)

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns  # the place of a timestamp is the number's
        partition = self._own
        if self._spread:
            partition = self._next
            self._next = partition + 1 if partition + 1 < self._partitions else 0
        try:
            # The report knows its record by number: for a batch that the broker has had before (it answered, and was
            # killed), librdkafka gives every message the timestamp of the last.
            self._producer.produce(
                self._topic,
                value,
                key,
                partition,
                on_delivery=partial(self._delivered, number),
                timestamp=self._origin_ms + number,
            )
        except BufferError:
            if self._spread:
                self._next = partition
            raise Full from None
        except KafkaException as error:
            raise Refused(error.args[0].str()) from None

    def _delivered(self, number: int, error: KafkaError | None, _message: Message) -> None:
        self._report(number, None if error is None else error.str())

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._failed is not None:
            raise KafkaException(self._failed)

    def flush(self, timeout_s: float) -> int:
        until_s = time.monotonic() + timeout_s
        left = int(self._producer.flush(timeout_s))
        return left if self._answered or left else self._unread(until_s - time.monotonic())

    def _unread(self, timeout_s: float) -> int:
        """Return 0 once the broker has read what was sent without an answer, 1 when it has not in time.

        A broker handles the requests of a connection in their order, and librdkafka has one to it: the answer to a
        request behind all others says that they were read.
        """
        try:
            self._producer.list_topics(self._topic, timeout=max(timeout_s, 1.0))
        except KafkaException:
            return 1
        return 0

    def _statistics(self, text: str) -> None:
        found = json.loads(text)
        self._wire_bytes = int(found["tx_bytes"])
        for topic in found["topics"].values():
            counts = topic["batchcnt"]  # of the records of a batch, since the last report
            self._batches += counts["cnt"]
            self._batch_records += counts["sum"]
        self._told += 1

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = error.str()

    def statistics(self) -> Mapping[str, float | None]:
        told = self._told
        # The last that were told are of the time before the flush: wait for those that count all of it.
        for _ in range(4 * STATISTICS_MS // 10):
            if self._told > told:
                break
            self._producer.poll(0.01)
        if not self._told:
            return {"wire_bytes": None, "batches": None, "batch_records": None}
        return {
            "wire_bytes": self._wire_bytes,
            "batches": self._batches,
            "batch_records": self._batch_records,
        }

    def close(self) -> None:
        """Forget what is still waiting: the measurement is over."""
        self._producer.purge()
        self._producer.flush(1.0)


class KafkaReceiver:
    """A consumer that is assigned its partitions: no group has to agree first."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._partitions = partitions
        self._most: int = settings["take_records"]
        self._full = settings["take"] == "full"
        self._wait_s: float = settings["take_ms"] / 1_000
        self._consumer = Consumer(consumer_settings(place, settings))
        self._early: Message | None = None

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        assigned = [TopicPartition(self._topic, partition, 0) for partition in self._partitions]
        if resumed:
            # An offset below 0: nothing was committed.
            committed = self._consumer.committed(assigned, timeout=ANSWER_S)
            assigned = [TopicPartition(self._topic, one.partition, max(0, one.offset)) for one in committed]
        # Before it fetches: a broker holds back a fetch of nothing, and what is asked behind it on the connection.
        for one in assigned:
            self._consumer.get_watermark_offsets(one, timeout=ANSWER_S)
        self._consumer.assign(assigned)
        # Called once, so that fetching has begun; a topic that is not new may give its first record at once.
        self._early = self._consumer.poll(0)
        return {one.partition: one.offset for one in assigned}

    def poll(self) -> Arrivals:
        if self._early is not None:
            early, self._early = self._early, None
            return self._arrivals([early])
        if self._full:
            return self._arrivals(self._consumer.consume(self._most, self._wait_s))
        first = self._consumer.poll(self._wait_s)
        if first is None:
            return NONE
        return self._arrivals(
            [first] if self._most == 1 else [first, *self._consumer.consume(self._most - 1, 0)]
        )

    def _arrivals(self, messages: Sequence[Message]) -> Arrivals:
        for one in messages:
            if (error := one.error()) is not None:
                raise KafkaException(error)
        origin_ms = self._origin_ms
        return Arrivals(
            [one.timestamp()[1] - origin_ms for one in messages],
            [one.partition() for one in messages],
            [one.offset() for one in messages],
            [one.value() for one in messages],
        )

    def acknowledge(self, partition: int, offset: int) -> None:
        self._consumer.commit(offsets=[TopicPartition(self._topic, partition, offset + 1)], asynchronous=True)

    def close(self) -> None:
        self._consumer.close()


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> KafkaSender:
    """Return the producer's end."""
    return KafkaSender(place, settings, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> KafkaReceiver:
    """Return the consumer's end."""
    return KafkaReceiver(place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone and wait for the answers; return nanoseconds from the first call to the last answer.

    What a measurement through `KafkaSender` costs beside this is the harness.
    """
    producer = Producer(producer_settings(place, settings))
    topic = place["topic"]
    producer.list_topics(topic, timeout=ANSWER_S)
    began_ns = time.perf_counter_ns()
    for number, key in enumerate(keys):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], key, 0)
                break
            except BufferError:
                producer.poll(0.001)
        if not number % BARE_POLL:
            producer.poll(0)
    producer.flush(ANSWER_S)
    return time.perf_counter_ns() - began_ns


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""
    consumer = Consumer(consumer_settings(place, settings))
    most, wait_s = settings["take_records"], settings["take_ms"] / 1_000
    began_ns = time.perf_counter_ns()
    consumer.assign([TopicPartition(place["topic"], 0, 0)])
    came, until_s = 0, time.monotonic() + ANSWER_S
    while came < count and time.monotonic() < until_s:
        first = consumer.poll(wait_s)
        if first is not None:
            came += len([(one.key(), one.value()) for one in (first, *consumer.consume(most - 1, 0))])
    spent_ns = time.perf_counter_ns() - began_ns
    consumer.close()
    if came < count:
        raise KafkaException(f"{came} of {count} records within {ANSWER_S:g} s")
    return spent_ns
