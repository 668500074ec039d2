"""The one interface every protocol implements at both ends; it knows neither a protocol nor Kafka."""

from __future__ import annotations

import abc
import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from schemas.errors import Refusal

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]

# What an intake hands out with a message and takes back with its acknowledgement; opaque to the bridge.
Receipt = Any


class ConnectError(OSError):
    """One attempt to connect failed: one line; the caller decides when to try again."""


@dataclass(frozen=True)
class Mode:
    """One delivery mode of a protocol.

    Attributes:
        name: the protocol's own word, unique within the protocol ("qos1").
        guarantee: the neutral word, vehicle to gateway, while sessions and queues survive.
        acknowledged: whether the vehicle learns that a message has arrived.
        options: the protocol's own settings, chosen by the words of the command line ({"qos": 1}).
    """

    name: str
    guarantee: Guarantee
    acknowledged: bool
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Tls:
    """Files in PEM form; the peer's certificate is always verified."""

    ca_file: str
    certificate_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """Where the broker listens, or the gateway itself where the protocol has no broker.

    Attributes:
        port: 0 asks the system for one (servers only).
        username: None means no credentials.
    """

    host: str
    port: int
    tls: Tls | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)


@dataclass(frozen=True)
class VehicleSettings:
    """What one vehicle's client needs beside the endpoint.

    Attributes:
        source_address: the vehicle's own address to bind; None leaves it to the system (tests on loopback).
        receive_max: messages in flight at most, the peer's own limit besides; CoAP's NSTART = 1 overrules it.
        client_prefix: put before the vehicle id where the protocol names its clients.
    """

    source_address: str | None = None
    keepalive_s: int = 60
    session_expiry_s: int = 3600
    receive_max: int = 20
    connect_timeout_s: float = 10.0
    client_prefix: str = ""


@dataclass(frozen=True)
class IntakeSettings:
    """What the gateway's end needs beside the endpoint.

    Attributes:
        name: names this gateway to the broker; the same name after a restart resumes its session.
        receive_max: messages taken and not yet acknowledged, at most.
        shared: other gateways take from the same vehicles; each message goes to one of them.
        group: name of that group.
        max_age_s: how long a vehicle should wait after a 5.03 (CoAP, RFC 7252, 5.9.3.4).
    """

    name: str = "gateway"
    receive_max: int = 1000
    shared: bool = False
    group: str = "ivsim"
    keepalive_s: int = 60
    session_expiry_s: int = 3600
    max_age_s: int = 1


class VehicleEvents(typing.Protocol):
    """What the pacer is told; every call comes from the event loop's thread."""

    def acknowledged(self, token: int, at_ns: int) -> None:
        """The peer has the message (PUBACK, PUBCOMP, basic.ack of a confirm, 2.04)."""

    def refused(self, token: int, reason: str) -> None:
        """The client or the peer gave the message up (CON time-out, nack, 5.03): it was emitted."""

    def connected(self, at_ns: int, session_present: bool) -> None:
        """The handshake is over; with `session_present` the peer remembers this vehicle."""

    def disconnected(self, at_ns: int, reason: str) -> None:
        """The connection is lost; the pacer will call `connect` again. Not called after `close`."""

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
        """Connect and subscribe to this vehicle's messages; return once the peer has confirmed it."""

    async def close(self) -> None:
        """Take leave and release everything; idempotent."""


class SubscriberEvents(typing.Protocol):
    """What the pacer is told by a subscriber."""

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:
        """One message has come back across the link."""


class Sink(typing.Protocol):
    """The bridge, as an intake sees it; calls come from the event loop's thread."""

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Receipt
    ) -> None:
        """Take one message; `duplicate` is the protocol's own flag (DUP, redelivered, same Message ID)."""

    def misaddressed(
        self, address: str, payload: bytes, received_at_ns: int, receipt: Receipt, reason: str
    ) -> None:
        """Take a message whose topic, routing key or path names no vehicle."""

    def link(self, up: bool, reason: str) -> None:
        """The intake's own connection came or went; it reconnects by itself."""


class Intake(typing.Protocol):
    """The gateway's end: a subscription, a consumer, or a server."""

    async def open(self) -> None:
        """Connect and subscribe, or listen; return when messages can come. Raises ConnectError."""

    async def close(self) -> None:
        """Stop taking, send what acknowledgements are ready, release everything; idempotent."""

    def acknowledge(self, receipt: Receipt) -> None:
        """Kafka has the message. A receipt of an earlier connection is ignored: the peer sends again."""

    def refuse(self, receipt: Receipt, reason: str) -> None:
        """The message cannot be kept now; the peer shall send it again (nack, 5.03 with Max-Age)."""

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


class Protocol(abc.ABC):
    """One row of `PROTOCOLS`.

    Attributes:
        name: the word of the command line.
        title: the exact name and version, for documents ("MQTT 5").
        modes: by name; the first is not special, `default_mode` is.
        words: the command line's own words for the modes, with every allowed value: {"qos": (0, 1, 2)}.
        broker: which server the testbed starts ("mosquitto", "rabbitmq"), or None: the gateway is the server.
    """

    name: str
    title: str
    modes: Mapping[str, Mode]
    default_mode: str
    words: Mapping[str, tuple[Any, ...]]
    broker: str | None

    @abc.abstractmethod
    def vehicle_client(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> VehicleClient:
        """Return the client of one vehicle, not yet connected."""

    @abc.abstractmethod
    def intake(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> Intake:
        """Return the gateway's end, not yet open."""

    @abc.abstractmethod
    def subscriber(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> Subscriber:
        """Return the receiver beside a vehicle (echo topology), not yet open."""

    def mode(self, words: Mapping[str, Any]) -> Mode:
        """Return the mode that the given words choose, the rest taken from the default mode.

        Raises Refusal for a word or value that is not this protocol's, or a combination that is no mode.
        """
        for word, value in words.items():
            if word not in self.words:
                allowed = ", ".join(f"--{w.replace('_', '-')}" for w in self.words)
                raise Refusal(f"--{word.replace('_', '-')} does not belong to {self.name}: allowed {allowed}")
            if value not in self.words[word]:
                allowed = ", ".join(str(v) for v in self.words[word])
                raise Refusal(f"--{word.replace('_', '-')} {value}: allowed with {self.name} {allowed}")
        wanted = {**self.modes[self.default_mode].options, **words}
        for mode in self.modes.values():
            if dict(mode.options) == wanted:
                return mode
        raise Refusal(f"{self.name} has no mode with {wanted}: allowed {', '.join(self.modes)}")
