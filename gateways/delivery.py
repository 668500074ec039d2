"""What the bridge asks of a platform that keeps its records; Kafka is the first (gateways/kafka_delivery.py).

A delivery takes records, keeps those that the platform has not confirmed, and calls `acknowledge` with a
record's receipt once the platform has it. It decides alone what an error of its platform means: send again,
write to the dead letters, or end the gateway. The bridge bounds what is held, for every platform alike. By which
client library the records leave is a sink's matter (gateways/sinks).
"""

from __future__ import annotations

import typing
from collections.abc import Callable

from gateways.protocols.ends import Receipt
from schemas.topics import HEADERS

Header = tuple[str, bytes]

FORMAT, PROTOCOL, MODE, EPOCH, SEQUENCE, SAMPLED, RECEIVED = HEADERS


class Delivery(typing.Protocol):
    """One platform's end of the bridge; every call comes from the event loop's thread.

    Attributes:
        held: records taken and not yet confirmed, dead letters included.
        held_bytes: their payloads.
        acknowledge: called with each receipt whose record the platform has; set before the first record.
    """

    held: int
    held_bytes: int
    acknowledge: Callable[[Receipt], None]

    def deliver(self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt) -> None:
        """Take one record: `key` is the vehicle id, `headers` those of schemas.topics.HEADERS in their order."""

    def dead_letter(
        self,
        key: bytes,
        payload: bytes,
        headers: list[Header],
        receipt: Receipt,
        reason: str,
        *,
        size_bytes: int | None = None,
    ) -> None:
        """Take a message that is no record, for a person to read: with its reason, size and beginning.

        `size_bytes` is what the payload had where only its beginning is there; None: all of it is.
        """

    def poll(self) -> None:
        """Fetch the platform's confirmations without waiting."""

    def flush(self) -> None:
        """Send what is still gathered for a batch; nothing where none is."""
