"""Ends twins of which nothing has been heard for long: a tombstone in twin.state; it never touches a query.

Why here and not in the query. Spark forgets an aggregate's key only by a watermark in that key, and a twin's key is its
vehicle alone. So its state stays in the checkpoint (about 200 bytes and the payload): a vehicle that comes back goes on
with its counters, and its next update is a twin again for all readers of the topic.

The topic is read in sweeps, a tenth of the time to live apart: between them nothing is read, so that a run, which is
shorter, pays nothing. A twin ends between one and 1.1 times the time to live after its last update, as Kafka stamped it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from twin.config import TwinConfig

log = logging.getLogger("twin.endings")

SWEEPS: Final = 10
_BATCH: Final = 5_000
_WAIT_S: Final = 5.0
_FLUSH_S: Final = 30.0


class Update(NamedTuple):
    """Where and when a twin was last updated."""

    partition: int
    appended_at_ms: int


class LivingTwins:
    """When each twin was last updated."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_ms = ttl_s * 1_000
        self._updates: dict[bytes, Update] = {}

    def __len__(self) -> int:
        return len(self._updates)

    def take(self, key: bytes | None, update: Update | None) -> None:
        """Take one record of twin.state; None is a tombstone."""
        if key is None:
            return
        if update is None:
            self._updates.pop(key, None)
        else:
            self._updates[key] = update

    def over(self, now_ms: float) -> list[tuple[bytes, int]]:
        """Return key and partition of each twin whose time is over; it stays until its tombstone is read."""
        return [
            (key, update.partition)
            for key, update in self._updates.items()
            if now_ms - update.appended_at_ms > self._ttl_ms
        ]


class Endings:
    """The sweeps, in a thread of their own; `close` ends it, and may be called twice.

    A Kafka that does not answer is asked again at the next sweep, from where the last one came to.

    Attributes:
        failure: the error of ours that ended the thread, or None.
    """

    def __init__(self, config: TwinConfig, now_ms: Callable[[], float] = lambda: time.time() * 1_000) -> None:
        assert config.twin_ttl_s is not None
        self._config, self._now_ms = config, now_ms
        self._living = LivingTwins(config.twin_ttl_s)
        self._every_s = config.twin_ttl_s / SWEEPS
        self._offsets: dict[int, int] = {}
        self._closing = threading.Event()
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="endings", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._every_s):
            try:
                self.sweep()
            except KafkaException as error:
                log.warning("twins that have ended stay for now: %s", error)
            except Exception as error:
                log.exception("the sweeps of ended twins ended by an error")
                self.failure = repr(error)
                return

    def sweep(self) -> list[tuple[bytes, int]]:
        """Read what is new in twin.state, write a tombstone for each twin whose time is over, and return those.

        An update that comes between the two is hidden until the vehicle's next one.
        """
        self._read()
        over = self._living.over(self._now_ms())
        if over:
            _write_tombstones(self._config, over, self._closing.is_set)
        return over

    def _read(self) -> None:
        topic = self._config.topics.state
        consumer = Consumer(_settings(self._config))
        try:
            partitions = consumer.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions
            ends: dict[int, int] = {}
            places = []
            for number in partitions:
                first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_WAIT_S)
                at = max(first, self._offsets.get(number, 0))
                if at < end:
                    ends[number] = end
                    places.append(TopicPartition(topic, number, at))
            consumer.assign(places)
            while ends and not self._closing.is_set():
                self._take(consumer.consume(_BATCH, 1.0), ends)
        finally:
            consumer.close()

    def _take(self, messages: Iterable[Message], ends: dict[int, int]) -> None:
        for message in messages:
            error, number = message.error(), message.partition()
            if error is None:
                update = Update(number, message.timestamp()[1])
                self._living.take(message.key(), None if message.value() is None else update)
                self._offsets[number] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
                self._offsets[number] = max(message.offset(), self._offsets.get(number, 0))
            else:
                raise KafkaException(error)
            if self._offsets[number] >= ends.get(number, 0):
                ends.pop(number, None)


def _settings(config: TwinConfig) -> dict[str, Any]:
    return {
        **config.kafka_client(),
        # librdkafka wants a name; without subscription and commit the broker never hears of a group.
        "group.id": "ivsim-endings",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "log_level": 2,
    }


def _write_tombstones(config: TwinConfig, twins: list[tuple[bytes, int]], stop: Callable[[], bool]) -> None:
    """Write a record without a value for each twin, behind its updates: in their partition.

    Raises KafkaException for one that Kafka did not take.
    """
    failed: list[Any] = []
    producer = Producer({**config.kafka_client(), "acks": "all", "enable.idempotence": True, "log_level": 2})

    def reported(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for key, partition in twins:
        if stop():
            break
        producer.produce(config.topics.state, None, key, partition, on_delivery=reported)
        producer.poll(0)
    if producer.flush(_FLUSH_S) or failed:
        producer.purge()
        raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - public
