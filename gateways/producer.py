"""Kafka's end of the bridge: an idempotent producer whose delivery reports come back in `poll`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from gateways.sinks.kinds import LINGER_MS, SinkSettings
from gateways.sinks.records import LARGEST_BYTES
from gateways.sinks.topics import require_topics
from schemas.errors import Refusal
from schemas.kafka_login import client_settings

# Records of a partition that librdkafka sends together at most, where nobody asks for less.
BATCH_MESSAGES = 10_000
# Between two statistics, where they are asked for.
_STATISTICS_MS = 1_000


def settings(
    bootstrap: str,
    held_bytes_max: int,
    login: str = "",
    batch_messages: int = BATCH_MESSAGES,
    *,
    linger_ms: int = LINGER_MS,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return librdkafka's configuration; records wait without end, since their number is bounded upstream.

    `more` is what somebody asks for besides, as `schemas.settings.producer_settings` allows it.
    """
    return {
        **client_settings(bootstrap, login),
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": 0,
        "linger.ms": linger_ms,
        "batch.num.messages": batch_messages,
        "message.max.bytes": LARGEST_BYTES,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 4 * held_bytes_max // 1024 + 65_536,
        "partitioner": "murmur2_random",  # the same vehicle, the same partition as from a Java producer
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        "log.connection.close": False,
        "client.id": "ivsim-gateway",
        **more,
    }


class RecordProducer:
    """Implements gateways.sinks.sink.Sink: a thin owner of confluent-kafka's Producer, whose own `produce` it has, for speed.

    Args:
        bootstrap: Kafka's address.
        held_bytes_max: payload that its users hold at most.
        login: file by which it logs in; "" goes there in the clear.
        batch_messages: records of a partition in one request at most.
        statistics: called in `poll` each second with librdkafka's statistics, as JSON.
        linger_ms: how long a record waits for others of its partition to go with.
        more: settings of librdkafka beside the gateway's own.
    """

    def __init__(
        self,
        bootstrap: str,
        held_bytes_max: int,
        login: str = "",
        batch_messages: int = BATCH_MESSAGES,
        statistics: Callable[[str], None] | None = None,
        *,
        linger_ms: int = LINGER_MS,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.fatal: str | None = None
        self._bootstrap = bootstrap
        told: dict[str, Any] = {"error_cb": self._failed}
        if statistics is not None:
            told |= {"stats_cb": statistics, "statistics.interval.ms": _STATISTICS_MS}
        self._producer = Producer(
            {
                **settings(bootstrap, held_bytes_max, login, batch_messages, linger_ms=linger_ms, more=more),
                **told,
            },
            logger=logging.getLogger("kafka"),
        )
        self.produce = self._producer.produce
        self.poll = self._producer.poll

    def require_topics(self, topics: tuple[str, ...], timeout_s: float = 10.0) -> None:
        """Refusal when Kafka does not answer or a topic is missing."""
        require_topics(self._producer, self._bootstrap, topics, timeout_s)

    def partitions(self, topic: str, timeout_s: float = 10.0) -> int:
        """Return how many partitions a topic has that is there; Refusal when Kafka does not answer."""
        try:
            return len(self._producer.list_topics(topic, timeout=timeout_s).topics[topic].partitions)
        except KafkaException as error:
            raise Refusal(f"Kafka at {self._bootstrap} does not answer: {error.args[0].str()}") from None

    def broker_ports(self, timeout_s: float = 10.0) -> frozenset[int]:
        """Return the ports of Kafka's brokers, as they advertise them; Refusal when Kafka does not answer."""
        try:
            brokers = self._producer.list_topics(timeout=timeout_s).brokers
        except KafkaException as error:
            raise Refusal(f"Kafka at {self._bootstrap} does not answer: {error.args[0].str()}") from None
        return frozenset(broker.port for broker in brokers.values())

    def close(self) -> int:
        """Drop what is still queued, without waiting for Kafka; return how many records that were."""
        left = len(self._producer)
        self._producer.purge()
        self._producer.poll(0)
        self._producer.close(0)
        return left

    def _failed(self, error: KafkaError) -> None:
        """Only a fatal error ends the producer; librdkafka repairs every other by itself."""
        if error.fatal():
            self.fatal = error.str()


def opened(settings: SinkSettings) -> RecordProducer:
    """Return the sink `confluent`."""
    return RecordProducer(
        settings.bootstrap,
        settings.held_bytes_max,
        settings.login,
        BATCH_MESSAGES if settings.batch_messages is None else settings.batch_messages,
        settings.statistics,
        linger_ms=settings.linger_ms,
        more=settings.more,
    )
