"""The rows of `PLATFORMS` that speak Kafka by another library; their brokers are those of the row `kafka`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from gateways.sinks.kinds import CLIENTS_EXTRA, package_lack
from ivsim.study.engines.pipe.platforms.base import TUNING
from ivsim.study.engines.pipe.platforms.kafka import Kafka
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import check_java
from schemas.errors import Refusal

_HERE: Final = "ivsim.study.engines.pipe.platforms.kafka_libraries"
_SETTINGS: Final = frozenset(
    {
        *("acks", "idempotence", "linger_ms", "batch_bytes", "partitioner"),
        *("brokers", "replication", "min_insync", "commit"),
    }
)


class KafkaLibrary(Kafka):
    """Kafka by another library; see the module.

    Attributes:
        module: that has to be importable.
        extra: what has it, in pip's words.
        needs: further checks, which refuse.
    """

    settings: ClassVar[frozenset[str]] = _SETTINGS
    durability: ClassVar[Mapping[str, str]] = MappingProxyType({})
    module: ClassVar[str | None] = None
    extra: ClassVar[str] = CLIENTS_EXTRA
    needs: ClassVar[tuple[Callable[[], None], ...]] = ()
    partitioners: ClassVar[tuple[str, ...]] = ("spread", "key")

    def missing(self) -> str | None:
        if self.module is not None and (lack := package_lack(self.module, self.packages[0], self.extra)):
            return lack
        lack = super().missing()
        if lack is not None:
            return lack
        try:
            for check in self.needs:
                check()
        except Refusal as refusal:
            return str(refusal)
        return None


class KafkaAiokafka(KafkaLibrary):
    """aiokafka."""

    name: ClassVar[str] = "kafka-aiokafka"
    summary: ClassVar[str] = "Apache Kafka by aiokafka, in an asyncio event loop"
    clients: ClassVar[str] = f"{_HERE}.by_aiokafka"
    packages: ClassVar[tuple[str, ...]] = ("aiokafka",)
    module: ClassVar[str | None] = "aiokafka"
    tuning: ClassVar[frozenset[str]] = frozenset({"fetch_min_bytes"})
    # aiokafka 0.14, signatures of producer and consumer.
    defaults: ClassVar[Mapping[str, Any] | None] = MappingProxyType(
        {"acks": "1", "idempotence": False, "linger_ms": 0.0, "batch_bytes": 16_384, "fetch_min_bytes": 1}
    )


class KafkaPython(KafkaLibrary):
    """kafka-python."""

    name: ClassVar[str] = "kafka-python"
    summary: ClassVar[str] = "Apache Kafka by kafka-python, Python alone"
    clients: ClassVar[str] = f"{_HERE}.by_kafka_python"
    packages: ClassVar[tuple[str, ...]] = ("kafka-python",)
    module: ClassVar[str | None] = "kafka"
    tuning: ClassVar[frozenset[str]] = frozenset(TUNING) - {"message_max_bytes"}
    # kafka-python 3.0, DEFAULT_CONFIG of producer and consumer.
    defaults: ClassVar[Mapping[str, Any] | None] = MappingProxyType(
        {
            "acks": "all",
            "idempotence": True,
            "linger_ms": 0.0,
            "batch_bytes": 16_384,
            "in_flight": 5,
            "fetch_min_bytes": 1,
        }
    )


class _KafkaOfJava(KafkaLibrary):
    """The official client, some way; `max.request.size` bounds a record there and no batch, so that it is no tuning."""

    partitioners: ClassVar[tuple[str, ...]] = ("spread", "key", "sticky")
    needs: ClassVar[tuple[Callable[[], None], ...]] = (check_java,)
    tuning: ClassVar[frozenset[str]] = frozenset(TUNING) - {"message_max_bytes"}
    # Kafka 4.3, ProducerConfig and ConsumerConfig.
    defaults: ClassVar[Mapping[str, Any] | None] = MappingProxyType(
        {
            "acks": "all",
            "idempotence": True,
            "linger_ms": 5.0,
            "batch_bytes": 16_384,
            "in_flight": 5,
            "fetch_min_bytes": 1,
        }
    )

    def refuses(self, settings: Mapping[str, Any]) -> tuple[str, str] | None:
        if settings["linger_ms"] % 1:
            return "linger_ms", "it is a whole number of ms"
        return super().refuses(settings)


class KafkaJpype(_KafkaOfJava):
    """The official client in the process."""

    name: ClassVar[str] = "kafka-jpype"
    summary: ClassVar[str] = "Apache Kafka by the official Java client in the process (JPype)"
    clients: ClassVar[str] = f"{_HERE}.by_jpype"
    packages: ClassVar[tuple[str, ...]] = ("jpype1",)
    module: ClassVar[str | None] = "jpype"


class KafkaJpypeBatched(KafkaJpype):
    """The official client in the process, behind a small class."""

    name: ClassVar[str] = "kafka-jpype-batched"
    summary: ClassVar[str] = "the same, one call of the bridge for 500 records"
    clients: ClassVar[str] = f"{_HERE}.by_jpype_batched"


class KafkaPy4j(_KafkaOfJava):
    """The official client in a process beside, over Py4J."""

    name: ClassVar[str] = "kafka-py4j"
    summary: ClassVar[str] = "Apache Kafka by the official Java client in a process beside (Py4J)"
    clients: ClassVar[str] = f"{_HERE}.by_py4j"
    packages: ClassVar[tuple[str, ...]] = ("py4j",)
    module: ClassVar[str | None] = "py4j"
    extra: ClassVar[str] = "ivsim"


class KafkaJava(_KafkaOfJava):
    """The official client in a process of its own."""

    name: ClassVar[str] = "kafka-java"
    summary: ClassVar[str] = "Apache Kafka by the official Java client in a process of its own, no bridge"
    clients: ClassVar[str] = f"{_HERE}.by_java"
    packages: ClassVar[tuple[str, ...]] = ()
