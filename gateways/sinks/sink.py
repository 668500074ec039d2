"""What a delivery asks of a platform's client (gateways/kafka_delivery.py): to send, and to say what became of it.

How much is on its way is bounded for every sink alike: the bridge counts what is held, pauses the intake above its limits
and goes on at half of them, so that a sink takes all that it is given. `gateways.delivery.Delivery` counts, flushes and
decides what an error means; a sink keeps the order of its records and repeats what is worth it by itself.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence, Sized

from gateways.delivery import Header


class SinkError(typing.Protocol):
    """Why a record is not there; `confluent_kafka.KafkaError` is one."""

    def code(self) -> int:
        """Return Kafka's code (https://kafka.apache.org/protocol#protocol_error_codes), or one of librdkafka's below 0."""

    def fatal(self) -> bool:
        """Return whether the sink can go no further."""

    def str(self) -> str:
        """Return one line for a person."""


# Called in `poll` for each record: None and something of the payload's length once the platform has it.
DeliveryReport = Callable[[SinkError | None, Sized], None]


class Produce(typing.Protocol):
    """Takes a record, in the order of the calls; BufferError or KafkaException (confluent_kafka's) where it is not taken."""

    def __call__(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        *,
        on_delivery: DeliveryReport,
        headers: Sequence[Header],
    ) -> None: ...


class Sink(typing.Protocol):
    """A client of a platform; every call comes from the event loop's thread.

    Records of one key reach the platform in the order of `produce`, whatever fails meanwhile, and a report without an
    error means that the platform acknowledged the record as durably as it does. What it needs of the network it opens in
    the namespace in which it was made and its topics were asked for; the gateway leaves that afterwards.

    Attributes:
        fatal: why it can go no further; None while it can.
        produce: takes a record; an attribute, so that a library's own function costs no call more.
    """

    fatal: str | None
    produce: Produce

    def poll(self, timeout_s: float, /) -> object:
        """Hand over the reports that are there, or come within the time."""

    def require_topics(self, topics: tuple[str, ...]) -> None:
        """Return once the platform has answered and records can go; Refusal when it does not or a topic is missing."""

    def close(self) -> int:
        """Drop what is still queued, without waiting for the platform; return how many records that were."""
