"""Live figures while a run goes: a thread beside the queries reads what they and the owner say, and writes run.metrics.

Why not a query: docs/decisions/live-figures.md. `live = "spark"` has that query all the same (`twin/live_query.py`), for
fleets whose updates one thread cannot read.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from twin.config import TwinConfig
from twin.live_sums import LiveSums

log = logging.getLogger("twin.live")

FLEET_EVERY_S: Final = 0.5
# A row costs 35 us of CPU to make: a large fleet's come less often, all of them at the end.
VEHICLE_ROWS_PER_S: Final = 500
# A broker answers a request as soon as it has a record, unless it is told to wait for more.
FETCH_WAIT_MS: Final = 200
_BATCH: Final = 2_000
_POLL_S: Final = 0.2
_END_S: Final = 2.0
_FLUSH_S: Final = 10.0


class LiveFigures:
    """The thread, from the beginning of the topics on; it joins no group and commits nothing. `close` may be called twice.

    A twin that goes on after it was killed reads them all again, and writes nothing until it has.

    Attributes:
        failure: the error of ours that ended the thread, or None.
    """

    def __init__(self, config: TwinConfig) -> None:
        topics = config.topics
        self._config = config
        self._sums = LiveSums(config.live_window_s)
        self._takers = {
            topics.emissions: self._sums.take_emissions,
            topics.link: self._sums.take_link,
        }
        self._closing, self._wanted, self._done = (threading.Event() for _ in range(3))
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="live figures", daemon=True)
        self._thread.start()

    def finish(self, limit_s: float) -> None:
        """Return once all that the topics hold is read and told; TimeoutError where it is not after `limit_s`."""
        self._wanted.set()
        if not self._done.wait(limit_s) or self.failure is not None:
            raise TimeoutError(
                f"the live figures have not taken all that there is: {self.failure or f'{limit_s:g} s are over'}"
            )

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        client = {
            **self._config.kafka_client(), "group.id": "ivsim-live", "enable.auto.commit": False, "log_level": 2
        }  # fmt: skip
        fetching = {
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.min.bytes": 100_000,
            "queued.max.messages.kbytes": 16_384,
        }
        consumer = Consumer({**client, **fetching})
        # A broker answers one request of a connection behind the other: on the consumer's, each question for the end of a
        # partition would wait for a fetch to be answered.
        asking = Consumer(client)
        producer = Producer({**self._config.kafka_client(), "linger.ms": 50, "log_level": 2})
        try:
            self._follow(consumer, asking, producer)
        except Exception as error:
            log.exception("the live figures ended by an error")
            self.failure = repr(error)[:300]
            self._done.set()
        finally:
            if self._sums.refused:
                log.warning("%d records of live figures were none", self._sums.refused)
            producer.flush(0 if self._closing.is_set() else _FLUSH_S)
            asking.close()
            consumer.close()

    def _follow(self, consumer: Consumer, asking: Consumer, producer: Producer) -> None:
        places = self._places(asking)
        consumer.assign([TopicPartition(part.topic, part.partition, OFFSET_BEGINNING) for part in places])
        ends: list[int] | None = None
        caught_up = False
        fleet_at_s = vehicles_at_s = time.monotonic()
        while not self._closing.is_set():
            for message in consumer.consume(_BATCH, _POLL_S):
                if message.error() is None:
                    self._take(message)
            now_s = time.monotonic()
            if not caught_up:
                ends = _ends(asking, places) if ends is None else ends
                caught_up = ends is not None and _reached(consumer, places, ends)
                ends = None if caught_up else ends
                continue
            if self._wanted.is_set() and not self._done.is_set():
                ends = _ends(asking, places) if ends is None else ends
                if ends is not None and _reached(consumer, places, ends):
                    self._tell(producer, None)
                    producer.flush(_FLUSH_S)
                    self._done.set()
            if now_s - fleet_at_s >= FLEET_EVERY_S:
                fleet_at_s = now_s
                self._tell(producer, 0)
            if (passed_s := now_s - vehicles_at_s) >= self._config.live_interval_s:
                vehicles_at_s = now_s
                self._tell(producer, round(VEHICLE_ROWS_PER_S * passed_s))
                self._sums.forget_windows()

    def _places(self, asking: Consumer) -> list[TopicPartition]:
        """Return the partitions of the three topics, once Kafka names them; none when closed before."""
        topics = self._config.topics
        wanted = (topics.state, topics.emissions, topics.link)
        while not self._closing.is_set():
            try:
                known = asking.list_topics(timeout=_END_S).topics
            except KafkaException:  # it starts again
                continue
            if all(name in known and known[name].error is None for name in wanted):
                return [TopicPartition(name, part) for name in wanted for part in known[name].partitions]
            self._closing.wait(_POLL_S)
        return []

    def _take(self, message: Message) -> None:
        appended_ms = message.timestamp()[1]
        take = self._takers.get(message.topic())
        if take is not None:
            take(message.value(), appended_ms)
        elif (key := message.key()) is not None:
            self._sums.take_state(key.decode(errors="replace"), message.headers(), appended_ms)

    def _tell(self, producer: Producer, vehicle_rows: int | None) -> None:
        """Write the fleet's rows, and so many of the vehicles': None for all."""
        for rows in (self._sums.fleet_rows(), self._sums.vehicle_rows(vehicle_rows)):
            for row in rows:
                start = row["window_start_s"]
                key = f"{row['vehicle_id']}/{'run' if start is None else start}"
                self._produce(producer, key, orjson.dumps(row))
        producer.poll(0)

    def _produce(self, producer: Producer, key: str, value: bytes) -> None:
        while not self._closing.is_set():
            try:
                producer.produce(self._config.topics.metrics, value, key)
            except BufferError:  # Kafka is away
                producer.poll(_POLL_S)
            else:
                return


def _ends(asking: Consumer, places: list[TopicPartition]) -> list[int] | None:
    """Return the offset behind the last record of each place, 0 where it holds none; None where Kafka has not said."""
    try:
        marks = [asking.get_watermark_offsets(place, timeout=_END_S) for place in places]
    except KafkaException:
        return None
    return [end if end > begin else 0 for begin, end in marks]


def _reached(consumer: Consumer, places: list[TopicPartition], ends: list[int]) -> bool:
    return all(end == 0 or at.offset >= end for at, end in zip(consumer.position(places), ends, strict=True))
