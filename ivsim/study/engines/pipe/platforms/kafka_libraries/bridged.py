"""Producer and consumer by the Java client's own classes, over a bridge that makes a call for each thing that is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from gateways.sinks.java import java_properties
from ivsim.study.engines.pipe.platforms.base import Arrivals, Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries.ends import Answers, Calls, Turns, checked_size
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import consumer_properties, producer_properties

ANSWER_S: Final = 30.0
_PRODUCER: Final = "org.apache.kafka.clients.producer"
_CONSUMER: Final = "org.apache.kafka.clients.consumer"


class Bridge(Protocol):
    """A way to a Java virtual machine.

    Attributes:
        failed: what an exception of Java is here.
    """

    failed: type[BaseException]

    def type(self, name: str) -> Any:
        """Return a class of Java by its full name."""

    def array(self, value: bytes | None) -> Any:
        """Return what a byte[] is to be."""

    def integer(self, value: int | None) -> Any:
        """Return what a java.lang.Integer is to be."""

    def long(self, value: int) -> Any:
        """Return what a java.lang.Long is to be."""

    def cause(self, error: Any) -> str:
        """Return why a future has failed."""


class BridgedSender:
    """A producer; each record is one call to make it and one to send it."""

    def __init__(
        self,
        bridge: Bridge,
        place: Place,
        settings: Mapping[str, Any],
        index: int,
        *,
        report: Report,
        most: int,
    ) -> None:
        self._bridge = bridge
        self._properties = producer_properties(place, settings)
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._turns = Turns(settings, index, place["partitions"])
        self._answers = Answers(report, most, lambda future: bool(future.isDone()), self._problem)
        self._producer: Any = None

    def open(self) -> None:
        bridge = self._bridge
        self._record = bridge.type(f"{_PRODUCER}.ProducerRecord")
        self._producer = bridge.type(f"{_PRODUCER}.KafkaProducer")(java_properties(bridge, self._properties))
        self._producer.partitionsFor(self._topic)

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns  # the place of a timestamp is the number's
        size = checked_size(key, value)
        self._answers.check_room()
        bridge = self._bridge
        record = self._record(
            self._topic,
            bridge.integer(self._turns.take()),
            bridge.long(self._origin_ms + number),
            bridge.array(key),
            bridge.array(value),
        )
        self._answers.add(number, size, self._producer.send(record))

    def _problem(self, future: Any) -> str | None:
        try:
            future.get()
        except self._bridge.failed as error:
            return self._bridge.cause(error)
        return None

    def poll(self, timeout_s: float) -> None:
        self._answers.hand_over()
        if timeout_s and (first := self._answers.first) is None:
            time.sleep(timeout_s)  # nothing is under way that could be answered sooner
        elif timeout_s:
            unit = self._bridge.type("java.util.concurrent.TimeUnit").MILLISECONDS
            with suppress(self._bridge.failed):  # not yet, or as it is reported below
                first.get(round(timeout_s * 1_000), unit)
            self._answers.hand_over()

    def flush(self, timeout_s: float) -> int:
        """Wait for the library, which gives each record up at its own `delivery.timeout.ms` and has no other end."""
        del timeout_s
        self._producer.flush()
        self._answers.hand_over()
        return len(self._answers)

    def statistics(self) -> Mapping[str, float | None]:
        wire_bytes, records = self._bridge.type("ivsim.clients.Counted").of(self._producer)
        return {"wire_bytes": float(wire_bytes), "batches": None, "batch_records": float(records)}

    def close(self) -> None:
        """Forget what is still waiting: the measurement is over."""
        if self._producer is not None:
            self._producer.close(self._bridge.type("java.time.Duration").ofMillis(0))


class BridgedReceiver:
    """A consumer that is assigned its partitions; each record is a call for each thing that is read of it."""

    def __init__(
        self, bridge: Bridge, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]
    ) -> None:
        self._bridge = bridge
        self._properties = consumer_properties(place, settings)
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._partitions = partitions
        self._calls = Calls(settings, self._fetch)
        self._consumer: Any = None

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        bridge = self._bridge
        self._consumer = _consumer(bridge, self._properties)
        make = bridge.type("org.apache.kafka.common.TopicPartition")
        self._assigned = {one: make(self._topic, one) for one in self._partitions}
        begins = dict.fromkeys(self._partitions, 0)
        together = bridge.type("java.util.ArrayList")()
        for one in self._assigned.values():
            together.add(one)
        if resumed:
            committed = self._consumer.committed(bridge.type("java.util.HashSet")(together))
            for partition, one in self._assigned.items():
                found = committed.get(one)
                if found is not None:
                    begins[partition] = int(found.offset())
        self._consumer.assign(together)
        for partition, one in self._assigned.items():
            self._consumer.seek(one, begins[partition])
        self._consumer.endOffsets(together)
        self._duration = bridge.type("java.time.Duration").ofMillis
        return begins

    def poll(self) -> Arrivals:
        return self._calls.take()

    def _fetch(self, wait_s: float) -> Arrivals:
        records = self._consumer.poll(self._duration(round(wait_s * 1_000)))
        numbers: list[int] = []
        partitions: list[int] = []
        offsets: list[int] = []
        values: list[bytes] = []
        origin_ms = self._origin_ms
        for partition, assigned in self._assigned.items():
            for one in records.records(assigned):
                numbers.append(int(one.timestamp()) - origin_ms)
                partitions.append(partition)
                offsets.append(int(one.offset()))
                values.append(bytes(one.value()))
        return Arrivals(numbers, partitions, offsets, values)

    def acknowledge(self, partition: int, offset: int) -> None:
        """Commit, and wait for it: without a poll behind it, one that does not wait would not leave."""
        next_one = self._bridge.type(f"{_CONSUMER}.OffsetAndMetadata")(offset + 1)
        offsets = self._bridge.type("java.util.HashMap")()
        offsets.put(self._assigned[partition], next_one)
        self._consumer.commitSync(offsets)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _consumer(bridge: Bridge, properties: Mapping[str, str]) -> Any:
    return bridge.type(f"{_CONSUMER}.KafkaConsumer")(java_properties(bridge, properties))


def own_produce(
    bridge: Bridge, place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone and see that each has its answer; return nanoseconds."""
    make, array, topic = bridge.type(f"{_PRODUCER}.ProducerRecord"), bridge.array, place["topic"]
    partition = bridge.integer(0)
    producer = bridge.type(f"{_PRODUCER}.KafkaProducer")(
        java_properties(bridge, producer_properties(place, settings))
    )
    producer.partitionsFor(topic)
    began_ns = time.perf_counter_ns()
    sent = [
        producer.send(make(topic, partition, None, array(key), array(values[number % len(values)])))
        for number, key in enumerate(keys)
    ]
    producer.flush()
    for one in sent:
        one.get()
    spent_ns = time.perf_counter_ns() - began_ns
    producer.close()
    return spent_ns


def own_consume(bridge: Bridge, place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""
    consumer = _consumer(bridge, consumer_properties(place, settings))
    one = bridge.type("org.apache.kafka.common.TopicPartition")(place["topic"], 0)
    assigned = bridge.type("java.util.Collections").singletonList(one)
    wait = bridge.type("java.time.Duration").ofMillis(round(settings["take_ms"]))
    began_ns = time.perf_counter_ns()
    consumer.assign(assigned)
    consumer.seekToBeginning(assigned)
    came, until_s = 0, time.monotonic() + ANSWER_S
    while came < count and time.monotonic() < until_s:
        came += len(list(_read(consumer.poll(wait).records(one))))
    spent_ns = time.perf_counter_ns() - began_ns
    consumer.close()
    if came < count:
        raise TimeoutError(f"{came} of {count} records within {ANSWER_S:g} s")
    return spent_ns


def _read(records: Any) -> Iterator[tuple[bytes, bytes]]:
    for one in records:
        yield bytes(one.key()), bytes(one.value())
