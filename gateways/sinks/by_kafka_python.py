"""The sink `python`: Kafka by kafka-python, which has a thread of its own for the network."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.errors import KafkaError, RetriableError

from gateways.sinks.bounded_producer import BoundedProducer
from gateways.sinks.kinds import SinkSettings
from gateways.sinks.threaded import (
    END_S,
    WITHOUT_END_MS,
    BlockingSink,
    NotNow,
    Sending,
    error_of,
    settings_of,
)
from schemas.kafka_login import python_settings


class PythonSink(BlockingSink):
    """An idempotent producer, at most five requests of a broker on their way, one of a partition."""

    _producer: Any = None

    def _open(self) -> None:
        settings = self._settings
        self._producer = BoundedProducer(
            **python_settings(settings.bootstrap, settings.login),
            **settings_of(settings).for_kafka_python(),
            client_id="ivsim-gateway",
            delivery_timeout_ms=WITHOUT_END_MS,
            reconnect_backoff_max_ms=1_000,
            metrics_enabled=False,
        )

    def _send(self, sending: Sending) -> None:
        try:
            future = self._producer.send(
                sending.topic, sending.value, sending.key, headers=list(sending.headers)
            )
        except RetriableError as error:
            raise NotNow from error
        except KafkaError as error:
            self._failed(sending, error)
            return
        if future.is_done and isinstance(future.exception, RetriableError):
            raise NotNow  # it knows no partition of the topic, and has not taken the record
        future.add_callback(partial(self._delivered, sending))
        future.add_errback(partial(self._failed, sending))

    def _delivered(self, sending: Sending, _metadata: Any) -> None:
        self._report(sending, None)

    def _failed(self, sending: Sending, error: BaseException) -> None:
        self._report(sending, error_of(getattr(error, "errno", None), str(error)))

    def _shut(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=END_S)


def opened(settings: SinkSettings) -> PythonSink:
    """Return the sink `python`."""
    return PythonSink("python", settings)
