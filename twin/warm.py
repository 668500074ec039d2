"""Warms the twin query with records of no vehicle, so that a run's first message finds it running.

What is compiled stays with the session: its first run of a kind is warmed with many records, a later one shows by one
record of each key that it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql.streaming import StreamingQuery

from twin.config import TwinConfig
from twin.rehearsal import BATCHES
from twin.source import WARM_KEY, warm_output_topic, warm_topic

_KEYS = 8
_PAYLOAD_BYTES = 1_157
_LOOK_S = 0.1


class WarmUp:
    """What a session has been warmed for: the kinds of runs whose queries it has had, and rehearsals."""

    def __init__(self) -> None:
        self._served: set[tuple[str, bool, str | None]] = set()
        self._rehearsed = False

    def records(self, config: TwinConfig) -> int:
        """Return how many warm-up records of each key this run needs."""
        return 1 if _kind(config) in self._served else max(2, config.warm_records // _KEYS)

    def rehearse(self, config: TwinConfig) -> bool:
        """Return whether this run needs the rehearsal that it may ask for."""
        return config.rehearse and not self._rehearsed

    def served(self, config: TwinConfig, rehearsed_batches: int) -> None:
        """Note a run whose queries have all taken their warm-up records."""
        self._served.add(_kind(config))
        self._rehearsed = self._rehearsed or rehearsed_batches >= BATCHES


def _kind(config: TwinConfig) -> tuple[str, bool, str | None]:
    """Return what decides which queries a run has; it takes every format."""
    return config.trigger, config.live == "spark", config.query


def warm_up(config: TwinConfig, alive: Callable[[], None], each: int, timeout_s: float = 90.0) -> float:
    """Send so many warm-up records of each key through the query and return the seconds until the last came out.

    `alive` is called while waiting and raises when the query has died. TimeoutError when nothing comes.
    """
    started = time.monotonic()
    epoch = time.time_ns() // 1_000_000
    consumer = _consumer(config)
    try:
        _produce(config, epoch, first=1, last=1)
        _await(consumer, epoch, 1, alive, started + timeout_s)
        if each > 1:
            _produce(config, epoch, first=2, last=each)
            _await(consumer, epoch, each, alive, started + timeout_s)
    finally:
        consumer.close()
    return time.monotonic() - started


def _consumer(config: TwinConfig) -> Consumer:
    consumer = Consumer({**config.kafka_client(), "group.id": "ivsim-warm-up", "enable.auto.commit": False})
    part = TopicPartition(warm_output_topic(config), 0)
    _, part.offset = consumer.get_watermark_offsets(part, timeout=10)
    consumer.assign([part])
    return consumer


def _produce(config: TwinConfig, epoch: int, first: int, last: int) -> None:
    producer = Producer({**config.kafka_client(), "linger.ms": 2})
    for sequence in range(first, last + 1):
        for number in range(_KEYS):
            key = f"{WARM_KEY}-{number}"
            now = str(time.time_ns())
            headers = [
                ("format", b"protobuf"), ("protocol", b"warm-up"), ("mode", b"warm-up"), ("epoch", b"%d" % epoch),
                ("sequence", b"%d" % sequence), ("sampled_at_ns", now.encode()), ("received_at_ns", now.encode()),
            ]  # fmt: skip
            value = key.encode().ljust(_PAYLOAD_BYTES, b".")
            producer.produce(warm_topic(config), value, key, headers=headers)
        producer.poll(0)
    producer.flush(30)


def _await(consumer: Consumer, epoch: int, sequence: int, alive: Callable[[], None], deadline: float) -> None:
    waiting = {f"{WARM_KEY}-{number}".encode() for number in range(_KEYS)}
    while waiting:
        alive()
        if time.monotonic() > deadline:
            raise TimeoutError("the twin query took no warm-up record in time")
        for message in consumer.consume(1_000, timeout=0.2):
            headers = dict(message.headers() or [])
            if headers.get("epoch") == b"%d" % epoch and headers.get("sequence") == b"%d" % sequence:
                waiting.discard(message.key())


def await_first_batch(
    queries: list[StreamingQuery], alive: Callable[[], None], timeout_s: float = 90.0
) -> None:
    """Return once each query has worked through a batch: only then is it compiled. TimeoutError when one does not."""
    deadline_s = time.monotonic() + timeout_s
    for query in queries:
        while query.lastProgress is None or not query.lastProgress["numInputRows"]:
            alive()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"query {query.name} took no batch in {timeout_s:g} s")
            time.sleep(_LOOK_S)  # Spark tells no Python program of a batch that has ended
