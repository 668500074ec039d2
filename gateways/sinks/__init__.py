"""The tables of sinks, each a client library by which a gateway sends records; a new one is a file and a line here.

`SINKS` are those of Kafka, of which a run chooses one; `PLATFORM_SINKS` has that of each other platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateways.sinks.kinds import ABILITIES, SinkKind
from schemas.kafka_login import OAUTH

CONFLUENT: Final = "confluent"

_ALL = (
    SinkKind(
        CONFLUENT,
        "librdkafka by confluent-kafka",
        "gateways.producer:opened",
        "confluent-kafka",
        "confluent_kafka",
        extra="ivsim",
        obeys=frozenset(ABILITIES),
    ),
    SinkKind(
        "aiokafka",
        "aiokafka, in an event loop of its own",
        "gateways.sinks.by_aiokafka:opened",
        "aiokafka",
        "aiokafka",
        without=frozenset({OAUTH}),
    ),
    SinkKind(
        "python",
        "kafka-python, Python alone",
        "gateways.sinks.by_kafka_python:opened",
        "kafka-python",
        "kafka",
        without=frozenset({OAUTH}),
    ),
    SinkKind(
        "jpype",
        "the official Java client in the gateway's process (JPype)",
        "gateways.sinks.by_jpype:opened",
        "jpype1",
        "jpype",
        java=True,
    ),
)

SINKS: Final[Mapping[str, SinkKind]] = {kind.name: kind for kind in _ALL}

PLATFORM_SINKS: Final[Mapping[str, SinkKind]] = {
    kind.name: kind
    for kind in (
        SinkKind(
            "redis",
            "Redis Streams, by redis-py",
            "gateways.sinks.by_redis:opened",
            "redis",
            "redis",
            extra="ivsim",
            lingers=False,
        ),
        SinkKind(
            "pulsar",
            "Apache Pulsar, by pulsar-client",
            "gateways.sinks.by_pulsar:opened",
            "pulsar-client",
            "pulsar",
            remedy="ivsim platform install pulsar",
        ),
    )
}
KAFKA: Final = "kafka"
PLATFORMS: Final = (KAFKA, *PLATFORM_SINKS)
