"""The ends of a protocol as those who use them see them: a vehicle's client, the gateway's intake, the receiver and the echo.

They say what each promises and what it tells its owner; they know neither a protocol nor Kafka.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

# What an intake hands out with a message and takes back with its acknowledgement; opaque to the bridge.
Receipt = Any


class ConnectError(OSError):
    """One attempt to connect failed: one line; the caller decides when to try again."""


class AccessRefusedError(ConnectError):
    """The peer answers, and refuses: an alert of TLS (ours too), a wrong password, an unknown name, a missing right."""


class VehicleEvents(typing.Protocol):
    """What the sender is told; every call comes from the event loop's thread."""

    def acknowledged(self, token: int, at_ns: int) -> None:
        """The peer has the message (PUBACK, PUBCOMP, basic.ack of a confirm, 2.04)."""

    def refused(self, token: int, reason: str) -> None:
        """The peer said that it will not keep the message (nack, 5.03, PUBACK from 0x80): it was emitted."""

    def unsendable(self, token: int, reason: str) -> None:
        """The peer has announced that it would not take this message (Maximum Packet Size): it was not put on the wire."""

    def postponed(self, token: int, reason: str) -> None:
        """The peer will not keep the message now; the client sends it again later, and says what becomes of it then."""

    def unanswered(self, token: int, reason: str) -> None:
        """The client gave the message up without a word of the peer (CON time-out): it may have arrived."""

    def datagram_unsent(self) -> None:
        """This machine's system did not take a datagram (no route, full buffer), which is lost before the link."""

    def connected(self, at_ns: int, session_present: bool) -> None:
        """The handshake is over; with `session_present` the peer remembers this vehicle."""

    def disconnected(self, at_ns: int, reason: str) -> None:
        """The connection is lost; the sender will call `connect` again. Not called after `close`."""

    def writable(self) -> None:
        """`ready` may have become true; `acknowledged` and `refused` imply it."""


class VehicleClient(typing.Protocol):
    """One vehicle's end; everything runs on the current event loop, no thread of its own."""

    async def connect(self) -> None:
        """Try once; return when the peer has accepted, after `events.connected`.

        Raises ConnectError. Called again after `disconnected`: the session is resumed, and what was in
        flight is sent again by the client itself where the mode promises it, its tokens unchanged.
        """

    async def close(self) -> None:
        """Take leave in order and release everything; idempotent, never raises for a lost peer."""

    def ready(self) -> bool:
        """Say whether the protocol would take one more message now (connection, receive maximum, NSTART)."""

    def send(self, token: int, payload: bytes) -> None:
        """Hand one message to the client library now, only when `ready()`; `token` comes back in events."""

    def in_flight(self) -> int:
        """Return how many messages are neither acknowledged nor refused; without acknowledgements, by TCP's."""


class Subscriber(typing.Protocol):
    """Echo topology: the receiver beside a vehicle, on the vehicle's address."""

    async def open(self) -> None:
        """Connect and subscribe to this vehicle's messages; return once the peer has confirmed it.

        One attempt: raises ConnectError and leaves nothing open. Called again after `disconnected`.
        """

    async def close(self) -> None:
        """Take leave and release everything; idempotent."""


class SubscriberEvents(typing.Protocol):
    """What the sender is told by a subscriber."""

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:
        """One message has come back across the link."""

    def disconnected(self, at_ns: int, reason: str) -> None:
        """The connection is lost; the sender will call `open` again. Not called after `close`."""


class Sink(typing.Protocol):
    """The bridge, as an intake sees it; calls come from the event loop's thread."""

    def take(  # noqa: PLR0917 - called per message: keywords would cost
        self,
        vehicle_id: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Receipt,
        content_type: str = "",
    ) -> None:
        """Take one message; `duplicate` is the protocol's own flag (DUP, redelivered, same Message ID).

        `content_type` is the media type that the message says it has; "" says nothing.
        """

    def misaddressed(
        self, address: str, payload: bytes, received_at_ns: int, receipt: Receipt, reason: str
    ) -> None:
        """Take a message whose topic, routing key or path names no vehicle."""

    def oversized(
        self,
        address: str,
        beginning: bytes,
        received_at_ns: int,
        receipt: Receipt,
        *,
        size_bytes: int,
        reason: str,
    ) -> None:
        """Take what is kept of a payload of `size_bytes` that is over the protocol's limit: its beginning."""

    def link(self, up: bool, reason: str) -> None:
        """The intake's own connection came or went; it reconnects by itself."""

    def turned_away(self, reason: str) -> None:
        """The peer answers and refuses the intake, which has lost its connection before; it tries again."""


class Intake(typing.Protocol):
    """The gateway's end: a subscription, a consumer, or a server."""

    async def open(self) -> None:
        """Connect and subscribe, or listen; return when messages can come. Raises ConnectError."""

    async def close(self) -> None:
        """Stop taking, send what acknowledgements are ready, release everything; idempotent."""

    def left_behind(self) -> str | None:
        """Return in words what the peer keeps for an intake of this name alone, and how long; asked behind `close`.

        None where a message that was not acknowledged goes to another gateway, or comes again to the next one.
        """

    def acknowledge(self, receipt: Receipt) -> None:
        """Kafka has the message. Over an earlier connection nothing is said: the peer sends again."""

    def invalid(self, receipt: Receipt) -> None:
        """Its message is none and goes to the dead letters; `acknowledge`, still to come, shall say so if it can."""

    def pause(self) -> None:
        """Stop taking: leave messages in the socket, cancel the credit, or answer 5.03 with Max-Age."""

    def resume(self) -> None:
        """Go on after `pause`."""

    def flush(self) -> None:
        """End of a batch: write out the acknowledgements collected since the last call."""

    def endpoint(self) -> tuple[str, int]:
        """Return the address and port that messages come from or to, with 0 replaced by what was given."""

    def counters(self) -> Mapping[str, int]:
        """Return this protocol's own counts, snake case, for the metrics page."""


class EchoServer(typing.Protocol):
    """Echo topology without a broker: takes messages and sends each to the receiver beside its vehicle."""

    async def open(self) -> None:
        """Listen. Raises ConnectError."""

    async def close(self) -> None:
        """Release everything; idempotent."""

    def endpoint(self) -> tuple[str, int]:
        """Return the address and port it listens on."""

    def observers(self) -> int:
        """Return how many receivers wait for messages."""

    def counters(self) -> Mapping[str, int]:
        """Return this protocol's own counts, snake case."""
