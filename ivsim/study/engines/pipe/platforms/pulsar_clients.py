"""Pulsar's clients by pulsar-client (C++), as a producer's or a consumer's process has them.

Every partition is a topic with a producer of its own, so that records go to partitions in turn, one by one. A record's
event time is its number. Pulsar's ids (ledger, entry, place in the batch) are no offsets: a consumer counts.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from zlib import crc32

import pulsar

from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full, Place, Refused, Report
from ivsim.testbed.pulsar import MESSAGE_BYTES

SUBSCRIPTION: Final = "readers"
# A queue that is full slows a producer down: as many records and bytes as Kafka's has room for.
QUEUE_MESSAGES: Final = 100_000
QUEUE_BYTES: Final = 268_435_456
RECEIVER_QUEUE: Final = 1_000
# As long as Kafka's producer tries.
SEND_MS: Final = 300_000
WAIT_S: Final = 0.002
ANSWER_MS: Final = 30_000
FIRST_MS: Final = 500
CODECS: Final = {
    "none": pulsar.CompressionType.NONE,
    "snappy": pulsar.CompressionType.SNAPPY,
    "lz4": pulsar.CompressionType.LZ4,
    "zstd": pulsar.CompressionType.ZSTD,
}
# What an id is ordered by.
Ordinal = tuple[int, int, int]


def topic(place: Place, partition: int) -> str:
    """Return the topic of a partition."""
    return f"{place['topic']}-partition-{partition}"


def _client(place: Place) -> pulsar.Client:
    # Its words would go to standard output, where a client's process speaks with the one that measures.
    silent = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(place["url"], logger=silent)


class PulsarSender:
    """A producer for each partition; reports come in the library's thread."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        self._place = place
        self._settings = settings
        self._report = report
        self._next = index % place["partitions"]
        self._client: pulsar.Client | None = None
        self._producers: list[pulsar.Producer] = []
        self._lock = threading.Lock()
        self._waiting = 0
        self._waiting_bytes = 0
        self._batches = 0
        self._batch_records = 0

    def open(self) -> None:
        settings = self._settings
        self._client = _client(self._place)
        self._producers = [
            self._client.create_producer(
                topic(self._place, partition),
                send_timeout_millis=SEND_MS,
                compression_type=CODECS[settings["codec"]],
                max_pending_messages=QUEUE_MESSAGES,
                block_if_queue_full=False,
                batching_enabled=settings["linger_ms"] > 0,
                batching_max_messages=settings["batch_messages"],
                batching_max_allowed_size_in_bytes=settings["batch_bytes"],
                batching_max_publish_delay_ms=max(1, int(settings["linger_ms"])),
            )
            for partition in range(self._place["partitions"])
        ]

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns
        size = len(value)
        if size > MESSAGE_BYTES:
            raise Refused(f"{size} B: at most {MESSAGE_BYTES} B")
        if self._waiting >= QUEUE_MESSAGES or self._waiting_bytes + size > QUEUE_BYTES:
            raise Full
        if key is None:
            target = self._next
            self._next = target + 1 if target + 1 < len(self._producers) else 0
        else:
            target = crc32(key) % len(self._producers)
        with self._lock:
            self._waiting += 1
            self._waiting_bytes += size
        self._producers[target].send_async(
            value,
            partial(self._answered, number, size),
            partition_key=None if key is None else key.decode(),
            event_timestamp=number,
        )

    def _answered(self, number: int, size: int, result: pulsar.Result, message_id: Any) -> None:
        with self._lock:
            self._waiting -= 1
            self._waiting_bytes -= size
            if result == pulsar.Result.Ok:
                # -1 is no batch, 0 the first of one.
                self._batches += message_id.batch_index() <= 0
                self._batch_records += 1
        self._report(number, None if result == pulsar.Result.Ok else str(result))

    def poll(self, timeout_s: float) -> None:
        if timeout_s > 0:
            time.sleep(timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Let batches go, and wait; the library's own flush waits for ever."""
        until_s = time.monotonic() + timeout_s
        for producer in self._producers:
            threading.Thread(target=_flushed, args=(producer,), daemon=True).start()
        while self._waiting and time.monotonic() < until_s:
            time.sleep(WAIT_S)
        return self._waiting

    def statistics(self) -> Mapping[str, float | None]:
        """Return what answers tell of batches; the library does not say what it sends."""
        return {"wire_bytes": None, "batches": self._batches, "batch_records": self._batch_records}

    def close(self) -> None:
        """Forget what is still waiting: the measurement is over."""
        if self._client is not None:
            self._client.shutdown()


def _flushed(producer: pulsar.Producer) -> None:
    with contextlib.suppress(pulsar.PulsarException):
        producer.flush()


class PulsarReceiver:
    """A consumer of some partitions, alone on each; it goes on behind what its subscription has acknowledged."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._place = place
        self._most: int = settings["take_records"]
        self._full: bool = settings["take"] == "full"
        self._wait_s: float = settings["take_ms"] / 1_000
        self._acknowledges: bool = settings.get("commit", "none") != "none"
        self._partition_of = {topic(place, one): one for one in partitions}
        self._client: pulsar.Client | None = None
        self._consumer: pulsar.Consumer | None = None
        self._next = dict.fromkeys(partitions, 0)
        # got while it was found where to begin
        self._early: deque[pulsar.Message] = deque()
        # A connection that comes back gives what was given and not acknowledged again.
        self._last: dict[int, Ordinal] = {}
        self._given: dict[int, deque[tuple[int, pulsar.Message]]] = {one: deque() for one in partitions}

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        self._client = _client(self._place)
        self._consumer = self._client.subscribe(
            list(self._partition_of),
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Exclusive,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=RECEIVER_QUEUE,
            batch_index_ack_enabled=True,
        )
        if resumed and self._acknowledges:
            self._find()
        return dict(self._next)

    def _find(self) -> None:
        """Count what was acknowledged: what lies before the first message that comes, or all where none does."""
        assert self._consumer is not None, "it is open"
        first: dict[int, Ordinal] = {}
        with contextlib.suppress(pulsar.Timeout):
            while len(first) < len(self._next):
                message = self._consumer.receive(FIRST_MS)
                self._early.append(message)
                first.setdefault(self._partition_of[message.topic_name()], _ordinal(message))
        self._next = {one: count(self._place, one, first.get(one)) for one in self._next}

    def poll(self) -> Arrivals:
        assert self._consumer is not None, "it is open"
        receive, until_s = self._consumer.receive, time.monotonic() + self._wait_s
        numbers: list[int] = []
        partitions: list[int] = []
        offsets: list[int] = []
        values: list[bytes] = []
        while len(numbers) < self._most:
            left_ms = math.ceil((until_s - time.monotonic()) * 1_000)
            if numbers and not self._full:
                left_ms = 0
            elif left_ms <= 0:
                break
            try:
                message = self._early.popleft() if self._early else receive(left_ms)
            except pulsar.Timeout:
                break
            partition = self._partition_of[message.topic_name()]
            ordinal = _ordinal(message)
            if ordinal <= self._last.get(partition, (-1, -1, -1)):
                continue
            offset = self._next[partition]
            self._last[partition] = ordinal
            self._next[partition] = offset + 1
            if self._acknowledges:
                self._given[partition].append((offset, message))
            numbers.append(message.event_timestamp())
            partitions.append(partition)
            offsets.append(offset)
            values.append(message.data())
        return Arrivals(numbers, partitions, offsets, values) if numbers else NONE

    def acknowledge(self, partition: int, offset: int) -> None:
        assert self._consumer is not None, "it is open"
        given, last = self._given[partition], None
        while given and given[0][0] <= offset:
            last = given.popleft()[1]
        if last is not None:
            self._consumer.acknowledge_cumulative(last)

    def close(self) -> None:
        if self._consumer is not None and self._consumer.is_connected():
            # Acknowledgements that wait for others go out with it.
            self._consumer.close()
        if self._client is not None:
            self._client.shutdown()


def _ordinal(message: pulsar.Message) -> Ordinal:
    found = message.message_id()
    return found.ledger_id(), found.entry_id(), found.batch_index()


def count(place: Place, partition: int, before: Ordinal | None = None) -> int:
    """Return how many messages a partition holds, by reading them: all, or those before an id."""
    client = _client(place)
    try:
        reader = client.create_reader(topic(place, partition), pulsar.MessageId.earliest)
        found = 0
        while reader.has_message_available():
            message = reader.read_next(ANSWER_MS)
            if before is not None and _ordinal(message) >= before:
                break
            found += 1
        reader.close()
        return found
    finally:
        client.shutdown()


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> PulsarSender:
    """Return the producer's end."""
    return PulsarSender(place, settings, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> PulsarReceiver:
    """Return the consumer's end."""
    return PulsarReceiver(place, settings, partitions)
