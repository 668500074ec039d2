"""How each client library of Kafka calls the settings of a producer; knows no address and no login, and loads none of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"


class ProducerSettings(NamedTuple):
    """What all of them can be told.

    Attributes:
        acks: "0", "1" or "all".
        linger_ms: a whole number for Java.
        batch_bytes: of one partition's records in a request.
        largest_bytes: of a record.
    """

    acks: str
    idempotence: bool
    linger_ms: float
    batch_bytes: int
    largest_bytes: int

    def _numbered_acks(self) -> str | int:
        return self.acks if self.acks == "all" else int(self.acks)

    def for_aiokafka(self) -> dict[str, Any]:
        """Return arguments of AIOKafkaProducer: one request for each broker at a time, which cannot be set."""
        return {
            "acks": self._numbered_acks(),
            "enable_idempotence": self.idempotence,
            "linger_ms": self.linger_ms,
            "max_batch_size": self.batch_bytes,
            "max_request_size": self.largest_bytes,
        }

    def for_kafka_python(self) -> dict[str, Any]:
        """Return arguments of kafka-python's KafkaProducer."""
        return {
            "acks": self._numbered_acks(),
            "enable_idempotence": self.idempotence,
            "linger_ms": self.linger_ms,
            "batch_size": self.batch_bytes,
            "max_request_size": self.largest_bytes,
        }

    def for_java(self) -> dict[str, str]:
        """Return properties of the official client."""
        return {
            "key.serializer": _BYTES,
            "value.serializer": _BYTES,
            "acks": self.acks,
            "enable.idempotence": str(self.idempotence).lower(),
            "linger.ms": f"{self.linger_ms:.0f}",
            "batch.size": str(self.batch_bytes),
            "max.request.size": str(self.largest_bytes),
            "enable.metrics.push": "false",
        }
