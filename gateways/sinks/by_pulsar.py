"""The sink `pulsar`: a producer for each topic, by pulsar-client, whose own threads send and answer.

Records of one key go to one partition. The library sends again what was not answered when a connection broke, in order
and without end; what was there already is there twice, which the ledger counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

import pulsar
from confluent_kafka import KafkaError

from gateways.sinks.kinds import SinkSettings
from gateways.sinks.threaded import OPEN_S, Sending, ThreadedSink, error_of
from schemas.errors import Refusal
from schemas.platforms import PULSAR_NAMESPACE

# maxMessageSize of a broker as installed
LARGEST_BYTES: Final = 5_242_880
# More than a gateway holds: its own limits are what stops it.
QUEUE_MESSAGES: Final = 100_000


class PulsarSink(ThreadedSink):
    """The thread sees only the end: a producer takes records from any."""

    platform: ClassVar[str] = "Pulsar"

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__("pulsar-client", settings)
        self._client: pulsar.Client | None = None
        self._producers: dict[str, pulsar.Producer] = {}

    def _limits_of(self, topics: tuple[str, ...]) -> Mapping[str, int]:
        # A process says what it has to say on standard output: the library's words must not be there.
        silent = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        where = f"Pulsar at {self._settings.bootstrap}"
        self._client = pulsar.Client(
            self._settings.bootstrap, logger=silent, operation_timeout_seconds=int(OPEN_S)
        )
        for topic in topics:
            try:
                self._producers[topic] = self._client.create_producer(
                    f"persistent://{PULSAR_NAMESPACE}/{topic}",
                    send_timeout_millis=0,
                    max_pending_messages=QUEUE_MESSAGES,
                    max_pending_messages_across_partitions=QUEUE_MESSAGES,
                    block_if_queue_full=False,
                    batching_enabled=True,
                    batching_max_publish_delay_ms=max(1, self._settings.linger_ms),
                )
            except pulsar.PulsarException as error:
                raise Refusal(f"{where}: topic {topic}: {error}") from None
        return dict.fromkeys(topics, LARGEST_BYTES)

    def _take(self, sending: Sending) -> None:
        topic, value, key, headers, _ = sending
        try:
            self._producers[topic].send_async(
                value,
                partial(self._answered, sending),
                partition_key=key.decode("latin-1"),
                properties={name: said.decode("latin-1") for name, said in headers},
            )
        except pulsar.PulsarException as error:
            self._report(sending, error_of(None, str(error)))

    def _answered(self, sending: Sending, result: pulsar.Result, _message_id: Any) -> None:
        if result == pulsar.Result.Ok:
            self._report(sending, None)
        elif result == pulsar.Result.MessageTooBig:
            self._report(sending, error_of(KafkaError.MSG_SIZE_TOO_LARGE, str(result)))
        elif not self._ending.is_set():
            self._report(sending, error_of(None, str(result)))

    def _serve(self, opened: Callable[[], None]) -> None:
        opened()
        self._ending.wait()

    def _end(self) -> None:
        """Do nothing: the thread waits for the end itself."""

    def _shut(self) -> None:
        if self._client is not None:
            self._client.shutdown()


def opened(settings: SinkSettings) -> PulsarSink:
    """Return the sink `pulsar`."""
    return PulsarSink(settings)
