"""Reads `run.metrics` beside the run: for the display, and to see what has drained."""

from __future__ import annotations

import json
import threading
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ivsim.runs.endpoints import KafkaAddress

POLL_S = 0.2
END_S = 2.0
FLEET = "*"


class LiveReader:
    """Follows the topic from its beginning in a thread of its own; commits no offsets to any group."""

    def __init__(self, kafka: KafkaAddress) -> None:
        self._topic = kafka.topics.metrics
        self._consumer = Consumer(
            {
                **kafka.client_settings(),
                "group.id": "ivsim-watch",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # A broker answers one request of a connection after the other: where the end is, behind this wait.
                "fetch.wait.max.ms": 200,
                "fetch.min.bytes": 100_000,
                "log_level": 2,
            }
        )
        self._live: dict[str, Any] = {}
        self._fleet: dict[str, Any] = {}
        self._vehicles: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._closing, self._end_wanted, self._at_end = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)

    def __enter__(self) -> Self:
        known = self._consumer.list_topics(timeout=10).topics
        parts = known[self._topic].partitions if self._topic in known else ()
        self._consumer.assign([TopicPartition(self._topic, part, 0) for part in parts])
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._consumer.close()

    def contained(self) -> int:
        """Return how many distinct messages the twins are known to contain by now, over all vehicles."""
        return self._sum("contained")

    def counted_to_ms(self) -> int | None:
        """Return Kafka's newest stamp among the records that `contained` is of; None before the first, and of Spark's query."""
        with self._lock:
            found: int | None = self._fleet.get("counted_to_ms")
            return found

    def given_up(self) -> int:
        """Return how many records are in epochs that the twins gave up: how many of them are distinct is not known."""
        return self._sum("given_up")

    def _sum(self, name: str) -> int:
        with self._lock:
            of_fleet = self._fleet.get(name)
            if of_fleet is not None:
                return int(of_fleet)
            # Spark's query sums up no counters of several twins.
            return sum(row.get(name) or 0 for row in self._vehicles.values())

    def live(self) -> dict[str, Any]:
        """Return the newest fleet row of `run.metrics`, empty before the first one."""
        with self._lock:
            return dict(self._live)

    def final(self, timeout_s: float) -> tuple[dict[str, Any], dict[str, dict[str, Any]]] | None:
        """Return the last figures of the run so far, of the fleet and per vehicle, once all of `run.metrics` is read.

        None when the end is not reached in time: the newest figures seen are then not known to be the last.
        """
        self._end_wanted.set()
        if not self._at_end.wait(timeout_s):
            return None
        with self._lock:
            return dict(self._fleet), dict(self._vehicles)

    def _read_to_end(self) -> bool:
        here = self._consumer.assignment()
        try:
            ends = [self._consumer.get_watermark_offsets(part, timeout=END_S)[1] for part in here]
        except KafkaException:
            return False  # a broker that is busy has not said where the end is: asked again as long as it is wanted
        return all(
            end == 0 or at.offset >= end for at, end in zip(self._consumer.position(here), ends, strict=True)
        )

    def _follow(self) -> None:
        while not self._closing.is_set():
            for message in self._consumer.consume(500, timeout=POLL_S):
                if message.error() is None:
                    self._take(message)
            # Asked here, not where it is wanted: a consumer serves one thread at a time.
            if self._end_wanted.is_set() and not self._at_end.is_set() and self._read_to_end():
                self._at_end.set()

    def _take(self, message: Message) -> None:
        try:
            row = json.loads(message.value() or b"{}")
        except ValueError:
            return
        vehicle = row.get("vehicle_id") or FLEET
        with self._lock:
            if vehicle == FLEET:
                self._live = row
            if row.get("window_start_s") is not None:
                return
            if vehicle == FLEET:
                self._fleet = row
            else:
                self._vehicles[vehicle] = row
