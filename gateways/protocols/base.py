"""What a protocol is: its row in the table, its modes and words, and what its ends are given.

The ends themselves, and what they promise, are in `ends.py`.
"""

from __future__ import annotations

import abc
import dataclasses
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

from gateways.protocols.addresses import Levels, addresses
from gateways.protocols.ends import (
    EchoServer,
    Intake,
    Sink,
    Subscriber,
    SubscriberEvents,
    VehicleClient,
    VehicleEvents,
)
from schemas.errors import Refusal

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]

# CoAP's sizes of blocks, in bytes (RFC 7959, 2.2).
BLOCK_SIZES: Final = tuple(1 << exponent for exponent in range(4, 11))


@dataclass(frozen=True)
class Look:
    """How charts draw a mode: colour, as `#RRGGBB`, and marker, as matplotlib calls them.

    The eight colours of Okabe and Ito (2008), which colour-blind readers can tell apart, are few: a marker besides.
    """

    colour: str
    marker: str


@dataclass(frozen=True)
class Mode:
    """One delivery mode of a protocol.

    Attributes:
        name: the protocol's own word, unique within the protocol ("qos1").
        label: how people write it, behind the protocol's label ("QoS 1").
        guarantee: the neutral word, vehicle to gateway, while sessions and queues survive.
        acknowledged: whether the vehicle learns that a message has arrived.
        options: the protocol's own settings, chosen by the words of the command line ({"qos": 1}).
        look: how charts draw it; a mode without one is grey.
        gateway_acknowledges: whether the gateway tells its peer, broker or vehicle, that it has a message.
        leaves_session: whether a vehicle that ends leaves a session at the broker, having no word to end it too.
    """

    name: str
    label: str
    guarantee: Guarantee
    acknowledged: bool
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    look: Look | None = None
    gateway_acknowledges: bool = True
    leaves_session: bool = False


@dataclass(frozen=True)
class Word:
    """One of the command line's own words that choose a protocol's mode: `--qos 1`, `--con` or `--non`.

    Attributes:
        values: every allowed value, all of one type (int, str or bool).
        help: one sentence, without the protocol's name and the default, which are known.
        negative: the word that says False; None for words that are no switches.
    """

    values: tuple[Any, ...]
    help: str
    negative: str | None = None


@pydantic_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Tls:
    """Files in PEM form; the peer's certificate is always verified. Configurations hold it as it is.

    Attributes:
        server_name: that the peer's certificate must have, where it is not the host that is connected to.
    """

    ca_file: str
    certificate_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


@pydantic_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class SharedKeys:
    """Keys that each vehicle shares with the gateway: a JSON file, vehicle id to 32 hexadecimal digits, and their use."""

    file: str
    use: Literal["oscore", "dtls-psk"] = "oscore"


class Scheme(NamedTuple):
    """What the scheme of a peer's URL says, such as `mqtts`.

    Attributes:
        security: how connections are protected, one of the protocol's.
        port: where the URL names none (IANA).
    """

    security: Literal["plain", "tls", "dtls-psk"]
    port: int


@dataclass(frozen=True)
class Endpoint:
    """Where the broker listens, or the gateway itself where the protocol has no broker.

    Attributes:
        port: 0 asks the system for one (servers only).
        username: None means no credentials.
        virtual_host: part of the broker, where the protocol has such (AMQP).
        keys: what messages (OSCORE) or datagrams (DTLS) are protected by.
    """

    host: str
    port: int
    tls: Tls | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    keys: SharedKeys | None = None
    virtual_host: str = "/"


@dataclass(frozen=True)
class VehicleSettings:
    """What one vehicle's client needs beside the endpoint.

    Attributes:
        source_address: the vehicle's own address to bind; None leaves it to the system (tests on loopback).
        receive_max: messages in flight at most, the peer's own limit besides; CoAP's NSTART = 1 overrules it.
        client_prefix: put before the vehicle id where the protocol names its clients.
        coap_block_bytes: the largest payload that CoAP sends in one block, one of BLOCK_SIZES; None: in one
            datagram up to the path's MTU (RFC 7252, 4.6), beyond it in blocks of 1,024.
    """

    source_address: str | None = None
    keepalive_s: int = 60
    session_expiry_s: int = 3600
    receive_max: int = 20
    connect_timeout_s: float = 10.0
    client_prefix: str = ""
    coap_block_bytes: int | None = 1024


@dataclass(frozen=True)
class IntakeSettings:
    """What the gateway's end needs beside the endpoint.

    Attributes:
        name: names this gateway to the broker; the same name after a restart resumes its session.
        receive_max: messages taken and not yet acknowledged, at most.
        shared: other gateways take from the same vehicles; each message goes to one of them.
        group: name of that group.
        max_age_s: how long a vehicle should wait after a 5.03 (CoAP, RFC 7252, 5.9.3.4).
        format: name of the payloads' format, for protocols that name it themselves.
        address: scheme of the vehicles' addresses (`addresses.py`); "" is ours.
        exchange: to which vehicles publish, where the protocol has such (AMQP); "" is ours.
    """

    name: str = "gateway"
    receive_max: int = 1000
    shared: bool = False
    group: str = "ivsim"
    keepalive_s: int = 60
    session_expiry_s: int = 3600
    max_age_s: int = 1
    format: str = ""
    address: str = ""
    exchange: str = ""


class Protocol(abc.ABC):
    """One row of `PROTOCOLS`.

    Attributes:
        name: the word of the command line.
        label: how people write the name ("MQTT").
        title: the exact name and version, for documents ("MQTT 5").
        modes: by name; the first is not special, `default_mode` is.
        words: the command line's own words for the modes, by the name of the mode's option: {"qos": Word(...)}.
        gateway_words: those of them that the gateway's end obeys; the others are the vehicles'.
        gateway_settings: options of a gateway alone that not every protocol can obey, of which this one obeys these.
        levels: how its addresses are cut, where a gateway takes another scheme of them than ours; None: it takes none.
        settings: options of a run that not every protocol can obey, of which this one obeys these
            ("keepalive_s", "tcp", "coap_block_bytes").
        securities: how its connections may be secured; "plain" is not at all.
        ladder: modes of rising reliability, each the next one's alternative, for comparisons.
        line: how charts draw its lines, as matplotlib calls it ("--"): modes of one protocol have one.
        repeats: who sends again what the link lost: the "transport" (TCP) or the "protocol" itself.
        transport: what carries its messages.
        packages: the Python packages that speak it, whose versions a figure may depend on.
        broker: which server the testbed starts ("mosquitto", "rabbitmq"), or None: the gateway is the server.
        schemes: of the URLs of a peer that somebody else has started.
        gauges: those of its intake's counters that may go down again.
        port: where the gateway listens when it is the server.
        echo_ports: mode to port of the echo servers that stand in for a broker, when there is none.
    """

    name: str
    label: str
    title: str
    modes: Mapping[str, Mode]
    default_mode: str
    words: Mapping[str, Word]
    gateway_words: tuple[str, ...] = ()
    gateway_settings: frozenset[str] = frozenset()
    levels: Levels | None = None
    settings: frozenset[str]
    securities: tuple[str, ...] = ("plain",)
    ladder: tuple[str, ...]
    line: str
    repeats: Literal["transport", "protocol"]
    transport: Literal["tcp", "udp"] = "tcp"
    packages: tuple[str, ...]
    broker: str | None
    schemes: Mapping[str, Scheme] = MappingProxyType({})
    gauges: frozenset[str] = frozenset()
    port: int | None = None
    echo_ports: Mapping[str, int] = MappingProxyType({})

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

    def echo_server(self, endpoint: Endpoint, mode: Mode) -> EchoServer:
        """Return what sends messages back in place of a broker, not yet open; only where there is none."""
        del endpoint, mode
        raise NotImplementedError(f"{self.name} has a broker, which echoes")

    def reach(self, host: str, port: int, timeout_s: float) -> None:
        """Return when a peer answers there; OSError says why none does."""
        socket.create_connection((host, port), timeout=timeout_s).close()

    def check_scheme(self, scheme: str, naming: str = "address") -> None:
        """Refuse a scheme of addresses that is none, or any where only ours is taken; "" is ours."""
        if not scheme:
            return
        if self.levels is None:
            raise Refusal(f"{naming} {scheme[:80]!r}: a gateway of {self.name} takes one scheme alone")
        try:
            addresses(scheme, self.levels)
        except ValueError as error:
            raise Refusal(f"{naming} {error}") from None

    def forget(self, endpoint: Endpoint, client_name: str) -> None:
        """Take off a broker what this client has left there, its session or its queue; only where there is a broker.

        OSError or ValueError says why it cannot be known that nothing is left.
        """
        del endpoint, client_name
        raise NotImplementedError(f"{self.name} has no broker, which would keep anything")

    def mode(self, words: Mapping[str, Any]) -> Mode:
        """Return the mode that the given words choose, the rest taken from the default mode.

        Raises Refusal for a word or value that is not this protocol's, or a combination that is no mode.
        """
        for word, value in words.items():
            if word not in self.words:
                allowed = ", ".join(f"--{w.replace('_', '-')}" for w in self.words)
                raise Refusal(f"--{word.replace('_', '-')} does not belong to {self.name}: allowed {allowed}")
            if value not in self.words[word].values:
                allowed = ", ".join(str(v) for v in self.words[word].values)
                raise Refusal(f"--{word.replace('_', '-')} {value}: allowed with {self.name} {allowed}")
        wanted = {**self.modes[self.default_mode].options, **words}
        for mode in self.modes.values():
            if dict(mode.options) == wanted:
                return mode
        raise Refusal(f"{self.name} has no mode with {wanted}: allowed {', '.join(self.modes)}")
