"""A thread that follows the run's topics from their beginning; joins no group and commits nothing."""

from __future__ import annotations

import difflib
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.kafka_login import client_settings
from schemas.topics import KafkaTopics
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet, Record
from twin.service.live_metrics import Figures
from twin.service.record import BadRecord

log = logging.getLogger("twin.service")

BATCH: Final = 2_000
# `consume` returns when the batch is full or this is over: what a change may wait here.
POLL_S: Final = 0.02
LOOK_S: Final = 5.0
FIRST_LOOK_S: Final = 0.5
METADATA_TIMEOUT_S: Final = 3.0
NAMED_PREFIXES: Final = 5


class Reader:
    """Fills a Fleet and its Figures; a context manager that owns its thread and its consumer.

    A Kafka that is away is looked for again until `close`; so are topics that do not exist yet, where the configuration
    says to wait for them.

    Attributes:
        looked: Kafka was asked for its topics, whether it has answered or not.
        refusal: why there is nothing to follow: a prefix that no run has.
        failure: the error of ours that ended it.
    """

    def __init__(
        self, config: ServiceConfig, fleet: Fleet, figures: Figures, changed: Callable[[], None]
    ) -> None:
        self._fleet, self._figures, self._changed = fleet, figures, changed
        topics = config.topics
        self._state_topic = topics.state
        self._takers = {
            topics.metrics: figures.take_metrics,
            topics.emissions: figures.take_emissions,
            topics.link: figures.take_link,
        }
        self._dead_letter_topic = topics.dead_letter
        self._bootstrap, self._waits = config.bootstrap, config.wait_for_topics
        self._assigned: dict[tuple[str, int], TopicPartition] = {}
        self._ends: set[tuple[str, int]] = set()
        self._closing = threading.Event()
        self.caught_up = threading.Event()
        self.looked = threading.Event()
        self.reachable = False
        self.refusal: str | None = None
        self.failure: str | None = None
        self._consumer = Consumer(_settings(config))
        self._thread = threading.Thread(target=self._run, name="twin reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and leave Kafka; idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self._consumer.close()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            # A service that goes on without its reader would show a fleet that stands still, as if it were so.
            log.exception("the reader of Kafka ended by an error")
            self.failure = f"the reader of Kafka ended by an error: {error!r}"
            self.looked.set()
            self._changed()

    def _follow(self) -> None:
        look_at_s = 0.0
        while not self._closing.is_set() and self.refusal is None:
            if time.monotonic() >= look_at_s:
                self._look()
                self.looked.set()
                look_at_s = time.monotonic() + (LOOK_S if self._assigned and self.reachable else FIRST_LOOK_S)
            if not self._assigned:
                self._closing.wait(POLL_S)
                continue
            try:
                self._take(self._consumer.consume(BATCH, POLL_S))
            except KafkaException as error:
                log.warning("Kafka: %s", error)

    def _look(self) -> None:
        """Find partitions that are new, and see whether Kafka answers."""
        try:
            known = self._consumer.list_topics(timeout=METADATA_TIMEOUT_S).topics
        except KafkaException as error:
            if self.reachable:
                log.warning("Kafka does not answer: %s", error)
            self.reachable = False
            return
        self.reachable = True
        if not self._waits and not self._assigned and self._state_topic not in known:
            self.refusal = _unknown_prefix(self._bootstrap, self._state_topic, list(known))
            return
        wanted = (self._state_topic, self._dead_letter_topic, *self._takers)
        fresh = {
            (name, partition): TopicPartition(name, partition, 0)
            for name in wanted
            if name in known and known[name].error is None
            for partition in known[name].partitions
            if (name, partition) not in self._assigned
        }
        if fresh:
            self._assigned |= fresh
            self._consumer.incremental_assign(list(fresh.values()))

    def _take(self, messages: list[Message]) -> None:
        states: list[Record] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._take_error(message, error)
            elif message.topic() == self._state_topic:
                states.append(
                    Record(message.key(), message.value(), message.headers(), message.timestamp()[1])
                )
            elif message.topic() == self._dead_letter_topic:
                self._fleet.count_dead_letter(message.headers())
            else:
                self._take_figure(message)
        if states:
            self._fleet.take(states)
        # The end comes in one batch with the records before it: it is reached once the fleet has those.
        if not self.caught_up.is_set() and self._at_end():
            self.caught_up.set()
        if messages:
            self._changed()

    def _take_figure(self, message: Message) -> None:
        try:
            self._takers[message.topic()](message.value())
        except BadRecord as bad:
            self._fleet.count_bad(bad.reason, message.key())

    def _take_error(self, message: Message, error: KafkaError) -> None:
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
            log.warning("Kafka: %s", error)
            return
        self._ends.add((message.topic(), message.partition()))

    def _at_end(self) -> bool:
        state = {place for place in self._assigned if place[0] == self._state_topic}
        return bool(state) and state <= self._ends


def _unknown_prefix(bootstrap: str, wanted: str, known: list[str]) -> str:
    """Return why there is no fleet to show, with the prefixes that there are, the likest first."""
    name = KafkaTopics().state
    prefixes = sorted(topic.removesuffix(name) for topic in known if topic.endswith(name))
    like = difflib.get_close_matches(wanted.removesuffix(name), prefixes, NAMED_PREFIXES, cutoff=0.0)
    if not like:
        there = f"no topic there ends in {name}"
    else:
        more = len(prefixes) - len(like)
        there = (
            "there are " + ", ".join(repr(prefix) for prefix in like) + (f" and {more} more" if more else "")
        )
    return f"{bootstrap}: no topic {wanted} (--prefix: {there})"


def _settings(config: ServiceConfig) -> dict[str, Any]:
    return {
        **client_settings(config.bootstrap, config.kafka_login),
        # librdkafka wants a name; without subscription and commit the broker never hears of a group.
        "group.id": "ivsim-twin-service",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 20,
        "fetch.message.max.bytes": 1_048_576,
        # What librdkafka may hold beside the fleet itself.
        "queued.max.messages.kbytes": 8_192,
        "queued.min.messages": 10_000,
        "reconnect.backoff.max.ms": 2_000,
        "log_level": 2,
    }
