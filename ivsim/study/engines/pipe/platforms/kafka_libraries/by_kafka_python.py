"""Kafka's clients by kafka-python: Python alone, with a thread of its own for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from gateways.sinks.bounded_producer import BoundedProducer
from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries import ends
from ivsim.study.engines.pipe.platforms.kafka_libraries.ends import (
    Answers,
    Calls,
    Turns,
    checked_size,
    library_settings,
)

QUEUE_MESSAGES = ends.QUEUE_MESSAGES
ANSWER_S: Final = 30.0
END_S: Final = 1.0
_SOCKETS: Final = ("send_buffer_bytes", "receive_buffer_bytes")
PRODUCER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "in_flight": ("max_in_flight_requests_per_connection",),
    "socket_buffer_bytes": _SOCKETS,
    "retries": ("retries",),
}
CONSUMER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "fetch_min_bytes": ("fetch_min_bytes",),
    "socket_buffer_bytes": _SOCKETS,
}

# What it would write to standard error, the measurement's own checks say.
logging.getLogger("kafka").addHandler(logging.NullHandler())


def _tuned(settings: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    tuning = settings.get("tuning", {})
    return {name: tuning[key] for key, found in names.items() if key in tuning for name in found}


def producer_settings(place: Place, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's arguments of a producer."""
    return {
        "bootstrap_servers": place["bootstrap"],
        **library_settings(settings).for_kafka_python(),
        **_tuned(settings, PRODUCER_TUNING),
    }


def consumer_settings(place: Place, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's arguments of a consumer."""
    return {
        "bootstrap_servers": place["bootstrap"],
        "group_id": place["topic"],
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 500,
        "fetch_min_bytes": 1,
        "max_poll_records": settings["take_records"],
        **_tuned(settings, CONSUMER_TUNING),
    }


class PythonSender:
    """A producer."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        self._settings = producer_settings(place, settings)
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._turns = Turns(settings, index, place["partitions"])
        self._report = report
        self._answers = Answers(report, QUEUE_MESSAGES, lambda future: bool(future.is_done), _problem)
        self._producer: Any = None

    def open(self) -> None:
        self._producer = BoundedProducer(**self._settings)
        self._producer.partitions_for(self._topic)

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns  # the place of a timestamp is the number's
        size = checked_size(key, value)
        self._answers.check_room()
        try:
            future = self._producer.send(
                self._topic,
                value,
                key,
                partition=self._turns.take(),
                timestamp_ms=self._origin_ms + number,
            )
        except KafkaError as error:
            self._report(number, str(error))
            return
        self._answers.add(number, size, future)

    def poll(self, timeout_s: float) -> None:
        self._answers.hand_over()
        if timeout_s and (first := self._answers.first) is None:
            time.sleep(timeout_s)  # nothing is under way that could be answered sooner
        elif timeout_s:
            with suppress(KafkaError):  # not yet, or as it is reported below
                first.get(timeout_s)
            self._answers.hand_over()

    def flush(self, timeout_s: float) -> int:
        self._producer.flush(timeout_s)
        self._answers.hand_over()
        return len(self._answers)

    def statistics(self) -> Mapping[str, float | None]:
        """Return nothing: the library has rates, and no sums."""
        return {"wire_bytes": None, "batches": None, "batch_records": None}

    def close(self) -> None:
        """Forget what is still waiting after a moment: the measurement is over."""
        if self._producer is not None:
            self._producer.close(timeout=END_S)


def _problem(future: Any) -> str | None:
    error = future.exception
    return None if error is None else str(error)


class PythonReceiver:
    """A consumer that is assigned its partitions."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._settings = consumer_settings(place, settings)
        self._origin_ms: int = place["origin_ms"]
        self._most: int = settings["take_records"]
        self._assigned = {one: TopicPartition(place["topic"], one) for one in partitions}
        self._acknowledged: dict[Any, OffsetAndMetadata] = {}
        self._calls = Calls(settings, self._fetch)
        self._consumer: Any = None

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        self._consumer = KafkaConsumer(**self._settings)
        assigned = self._assigned
        self._consumer.assign(list(assigned.values()))
        begins = dict.fromkeys(assigned, 0)
        if resumed:
            begins = {partition: self._consumer.committed(one) or 0 for partition, one in assigned.items()}
        for partition, one in assigned.items():
            self._consumer.seek(one, begins[partition])
        self._consumer.end_offsets(list(assigned.values()))
        return begins

    def poll(self) -> Arrivals:
        return self._calls.take()

    def _fetch(self, wait_s: float) -> Arrivals:
        found = self._consumer.poll(timeout_ms=round(wait_s * 1_000), max_records=self._most)
        records = [one for several in found.values() for one in several]
        if not records:
            return NONE
        return Arrivals(
            [one.timestamp - self._origin_ms for one in records],
            [one.partition for one in records],
            [one.offset for one in records],
            [one.value for one in records],
        )

    def acknowledge(self, partition: int, offset: int) -> None:
        offsets = {self._assigned[partition]: OffsetAndMetadata(offset + 1, "", -1)}
        self._acknowledged |= offsets
        self._consumer.commit_async(offsets)

    def close(self) -> None:
        """Commit what is acknowledged: the library's own close does not wait for commits on their way."""
        if self._consumer is None:
            return
        try:
            if self._acknowledged:
                self._consumer.commit(self._acknowledged)
        finally:
            self._consumer.close()


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> PythonSender:
    """Return the producer's end."""
    return PythonSender(place, settings, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> PythonReceiver:
    """Return the consumer's end."""
    return PythonReceiver(place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone and see that each has its answer; return nanoseconds."""
    producer = KafkaProducer(**producer_settings(place, settings))
    topic = place["topic"]
    producer.partitions_for(topic)
    began_ns = time.perf_counter_ns()
    sent = [
        producer.send(topic, values[number % len(values)], key, partition=0)
        for number, key in enumerate(keys)
    ]
    producer.flush(ANSWER_S)
    for one in sent:
        one.get(ANSWER_S)
    spent_ns = time.perf_counter_ns() - began_ns
    producer.close(timeout=END_S)
    return spent_ns


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""
    consumer = KafkaConsumer(**consumer_settings(place, settings))
    one = TopicPartition(place["topic"], 0)
    began_ns = time.perf_counter_ns()
    consumer.assign([one])
    consumer.seek(one, 0)
    came, until_s = 0, time.monotonic() + ANSWER_S
    while came < count and time.monotonic() < until_s:
        found = consumer.poll(timeout_ms=round(settings["take_ms"]), max_records=settings["take_records"])
        came += sum(len([(each.key, each.value) for each in several]) for several in found.values())
    spent_ns = time.perf_counter_ns() - began_ns
    consumer.close()
    if came < count:
        raise TimeoutError(f"{came} of {count} records within {ANSWER_S:g} s")
    return spent_ns
