"""The sink `jpype`: Kafka by the official Java client in this process, a few calls of the bridge for each record."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

import jpype

from gateways.sinks.embedded import Embedded, embedded
from gateways.sinks.java import BUFFER_BYTES, java_properties
from gateways.sinks.kinds import SinkSettings
from gateways.sinks.threaded import WITHOUT_END_MS, BlockingSink, Sending, error_of, settings_of
from schemas.kafka_login import java_settings, java_system

_PRODUCER: Final = "org.apache.kafka.clients.producer"
_HEADER: Final = "org.apache.kafka.common.header"
# Most headers of a gateway's records are those of the record before.
_HEADERS: Final = 256


def properties(settings: SinkSettings) -> dict[str, str]:
    """Return the producer's properties; it waits for room and for topics without end."""
    return {
        **java_settings(settings.bootstrap, settings.login),
        **settings_of(settings).for_java(),
        "client.id": "ivsim-gateway",
        "buffer.memory": str(BUFFER_BYTES),
        "delivery.timeout.ms": str(WITHOUT_END_MS),
        "max.block.ms": str(WITHOUT_END_MS),
        "reconnect.backoff.max.ms": "1000",
    }


class JpypeSink(BlockingSink):
    """An idempotent producer, at most five requests of a broker on their way; reports come from a thread of Java's."""

    _bridge: Embedded
    _producer: Any = None

    def _open(self) -> None:
        java = self._settings.java
        assert java is not None, "the configuration has refused one without"
        self._bridge = bridge = embedded(java.library, java.class_path)
        for name, value in java_system(self._settings.login).items():
            bridge.type("java.lang.System").setProperty(name, value)
        self._record = bridge.type(f"{_PRODUCER}.ProducerRecord")
        self._header = lru_cache(_HEADERS)(self._made_header)
        self._array = jpype.JArray(bridge.type(f"{_HEADER}.Header"))
        self._listed = bridge.type("java.util.Arrays").asList
        self._errors = bridge.type("org.apache.kafka.common.protocol.Errors")
        self._producer = bridge.type(f"{_PRODUCER}.KafkaProducer")(
            java_properties(bridge, properties(self._settings))
        )

    def _made_header(self, name: str, value: bytes) -> Any:
        return self._bridge.type(f"{_HEADER}.internals.RecordHeader")(name, self._bridge.array(value))

    def _send(self, sending: Sending) -> None:
        array, header = self._bridge.array, self._header
        headers = self._listed(self._array([header(name, value) for name, value in sending.headers]))
        key, value = array(sending.key), array(sending.value)
        record = self._record(sending.topic, None, None, key, value, headers)
        answered = {"onCompletion": partial(self._answered, sending)}
        # What it will not have (too large, say) it says by the callback, too.
        self._producer.send(record, jpype.JProxy(f"{_PRODUCER}.Callback", dict=answered))

    def _answered(self, sending: Sending, _metadata: Any, error: Any) -> None:
        if error is None:
            self._report(sending, None)
        else:
            code = int(self._errors.forException(error).code())
            self._report(sending, error_of(code, str(error.toString())))

    def _shut(self) -> None:
        if self._producer is not None:
            self._producer.close(self._bridge.type("java.time.Duration").ofMillis(0))


def opened(settings: SinkSettings) -> JpypeSink:
    """Return the sink `jpype`."""
    return JpypeSink("jpype", settings)
