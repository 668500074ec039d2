"""kafka-python's producer, which may be closed while Kafka is away."""

from __future__ import annotations

from contextlib import suppress

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError


class BoundedProducer(KafkaProducer):  # type: ignore[misc]
    """A producer whose flush ends with its time, and so its close, which begins with one."""

    def flush(self, timeout: float | None = None) -> None:
        with suppress(KafkaTimeoutError):
            super().flush(timeout)
