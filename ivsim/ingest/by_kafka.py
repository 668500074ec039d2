"""Kafka's records by confluent-kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ivsim.ingest.receiver import ANSWER_S, Taken
from schemas.kafka_login import client_settings

_MOST: Final = 10_000


class KafkaReceiver:
    """A consumer without a group's memory: its place is its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, login: str) -> None:
        self._consumer = Consumer(
            {
                **client_settings(bootstrap, login),
                "group.id": "ivsim-consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 2,
            }
        )
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), 0)
        self._consumer.assign([TopicPartition(topic, one, 0) for one in self._next])

    def take(self, timeout_s: float) -> Sequence[Taken]:
        # `consume` waits until it has all that it is asked for: for the first, then for none.
        first = self._consumer.poll(timeout_s)
        if first is None:
            return ()
        return [
            one
            for message in (first, *self._consumer.consume(_MOST, 0))
            if (one := self._of(message)) is not None
        ]

    def _of(self, message: Any) -> Taken | None:
        if (error := message.error()) is not None:
            if error.retriable() or error.code() in _AWAY:
                return None
            raise KafkaException(error)
        self._next[message.partition()] = message.offset() + 1
        headers = dict(message.headers() or ())
        return Taken(message.key() or b"", headers.get("epoch", b""), headers.get("sequence", b""))

    def behind(self) -> bool:
        try:
            return any(
                self._consumer.get_watermark_offsets(TopicPartition(self._topic, one), ANSWER_S)[1] > at
                for one, at in self._next.items()
            )
        except KafkaException:
            return True

    def close(self) -> None:
        self._consumer.close()


# Librdkafka's words for a broker that it will find again by itself.
_AWAY: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT}  # noqa: SLF001
)


def opened(bootstrap: str, topic: str, partitions: int, login: str) -> KafkaReceiver:
    """Return a receiver that begins to read."""
    return KafkaReceiver(bootstrap, topic, partitions, login)
