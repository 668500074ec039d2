"""What a gateway alone is asked to do (`ivsim gateway`): words of a run that hold for it, too, and a few of its own.

A word of a run keeps its type, its limits and its checks; only its sentence of help is the gateway's.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from gateways.protocols.base import Protocol
from ivsim.deployment import Profile
from ivsim.option import Declared, Option, declared, refusal_of, shown, word_of
from ivsim.option_rules import checked_options
from ivsim.options import OPTIONS, RunOptions, mode_of, option_name
from schemas.errors import Refusal

# How variables of the environment begin: --kafka from IVSIM_GATEWAY_KAFKA.
VARIABLES: Final = "IVSIM_GATEWAY_"
USERNAME: Final = f"{VARIABLES}USERNAME"
PASSWORD: Final = f"{VARIABLES}PASSWORD"

GATEWAY: Final = "Gateway"
VEHICLES: Final = "Towards the vehicles"
KAFKA: Final = "Towards Kafka"
PANELS: Final = (VEHICLES, KAFKA, GATEWAY)

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - shown as an example


class GatewayOptions(BaseModel):
    """The words that a gateway has beside those of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Annotated[
        str | None,
        Option(
            f"HOST:PORT on which the gateway takes requests, IPv6 as [HOST]:PORT; {_EVERYWHERE} is every IPv4 address of"
            " this machine, [::] is both.",
            VEHICLES,
            absent="127.0.0.1 and the protocol's own port",
        ),
    ] = None
    keys: Annotated[
        str | None,
        Option(
            "JSON file with the key that each vehicle shares with the gateway, by its id: 32 hexadecimal digits.",
            VEHICLES,
            absent="none",
        ),
    ] = None
    address: Annotated[
        str | None,
        Option(
            "How topics, routing keys or paths name vehicles: levels, {id} for the vehicle's, * for any one.",
            VEHICLES,
            absent="vehicles, {id}, status",
        ),
    ] = None
    virtual_host: Annotated[str, Option("Virtual host of the broker.", VEHICLES, word="vhost")] = "/"
    exchange: Annotated[
        str,
        Option("Exchange to which vehicles publish, of the type topic; it has to be there.", VEHICLES),
    ] = "amq.topic"
    group: Annotated[
        str | None,
        Option(
            "Name of a group of gateways that share the vehicles; each message goes to one of them.",
            VEHICLES,
            absent="the gateway has all to itself",
        ),
    ] = None
    reuse_port: Annotated[
        bool,
        Option(
            "Share the port with other gateways that are started so; a vehicle's address stays with one of them.",
            VEHICLES,
        ),
    ] = False
    make_topics: Annotated[
        bool, Option("Make those of the gateway's topics that Kafka does not have.", KAFKA)
    ] = False
    name: Annotated[
        str,
        Option(
            "Name of the gateway, in its figures, and under which a broker keeps its session or queue until it comes back.",
            GATEWAY,
        ),
    ] = "ivsim-gateway"

    @field_validator("listen")
    @classmethod
    def _listen(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if (
            not host
            or (":" in host) is not bracketed
            or not (port.isascii() and port.isdigit())
            or int(port) > 65_535
        ):
            raise ValueError(f"{shown(value)}: write HOST:PORT, such as {_EVERYWHERE}:5683")
        return value

    @field_validator("virtual_host", "exchange")
    @classmethod
    def _short(cls, value: str) -> str:
        """A short string of AMQP 0-9-1 (4.2.5.3)."""
        if not 1 <= len(value.encode()) <= 255 or not value.isprintable():
            raise ValueError(f"{shown(value)}: 1 to 255 bytes of printable text")
        return value

    @field_validator("name", "group")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None and not _NAME.fullmatch(value):
            raise ValueError(f"{shown(value)}: 1 to 64 of A-Z a-z 0-9 . _ -")
        return value


# Words of a run: the panel, the sentence of a gateway's help, and what holds without the word.
_SHARED: Final[Mapping[str, tuple[str, str, str]]] = {
    "target": (VEHICLES, "The broker: SCHEME://HOST or SCHEME://HOST:PORT, SCHEME one of {schemes}.", ""),
    "target_accounts": (
        VEHICLES,
        (
            f"JSON file of who logs in at the broker as whom; the gateway's line is gateway, or *. Or {USERNAME} and"
            f" {PASSWORD} in the environment."
        ),
        "it does not log in",
    ),
    "target_ca": (VEHICLES, "PEM file of the authority that signed the broker's certificate.", "the system's"),
    "target_certificates": (
        VEHICLES, "Directory with gateway.pem, certificate and key that the gateway shows the broker.", "none",
    ),
    "keepalive_s": (VEHICLES, "Keep-alive (MQTT) or heartbeat (AMQP) with the broker.", ""),
    "security": (VEHICLES, "How requests are protected, by the keys of --keys.", ""),
    "format": (VEHICLES, "Format of the payloads.", ""),
    "kafka": (KAFKA, "HOST:PORT of a Kafka broker, of several by commas.", ""),
    "kafka_login": (
        KAFKA,
        (
            "File by which the gateway logs in at Kafka over TLS: by SCRAM, PLAIN, OAUTHBEARER or a certificate"
            " (docs/how-to/own-servers.md)."
        ),
        "in the clear",
    ),
    "kafka_topic_prefix": (KAFKA, "How the names of the gateway's topics begin: PREFIXvehicle.status.", ""),
    "kafka_producer": (
        KAFKA,
        "Setting KEY=VALUE of librdkafka for the gateway's producer, such as linger.ms=5; may be given more than once.",
        "the gateway's own",
    ),
    "kafka_partitions": (KAFKA, "Partitions of a topic that --make-topics makes.", ""),
    "kafka_replication": (KAFKA, "Brokers that have each partition of such a topic.", ""),
    "kafka_min_insync": (KAFKA, "Of those, how many must have a record before Kafka acknowledges it.", ""),
    "early_ack": (GATEWAY, "Acknowledge before Kafka has the record: careless on purpose.", ""),
    "metrics_port": (
        GATEWAY,
        "Port on 127.0.0.1 of a page for Prometheus, with the gateway's health at /health; 0 takes a free one.",
        "no page",
    ),
}  # fmt: skip


class Words(NamedTuple):
    """What a command with a gateway may be told, beside the words that choose the mode.

    Attributes:
        called: the command, as it is typed.
        own: options that are no run's.
        shared: options of a run, each with panel, sentence of help, and what holds without it.
        made_alone: of those, what only says how topics are made.
    """

    called: str
    own: type[GatewayOptions]
    shared: Mapping[str, tuple[str, str, str]]
    made_alone: tuple[str, ...] = ("kafka_partitions", "kafka_replication", "kafka_min_insync")


ALONE: Final = Words("ivsim gateway", GatewayOptions, _SHARED)
_OF_BROKERS: Final = frozenset(
    {"target", "target_accounts", "target_ca", "target_certificates", "keepalive_s", "group"}
)
_OF_SOME: Final = frozenset({"virtual_host", "exchange"})
_OF_SERVERS: Final = frozenset({"security", "listen", "keys", "reuse_port"})


class Asked(NamedTuple):
    """A gateway's options, checked.

    Attributes:
        run: the words that it has in common with a run.
        own: the others.
    """

    run: RunOptions
    own: GatewayOptions


def known(protocol: Protocol, words_of: Words = ALONE) -> dict[str, Declared]:
    """Return the options of a gateway of that protocol, without the words that choose its mode."""
    shared = {field: _told(OPTIONS[field], protocol, *told) for field, told in words_of.shared.items()}
    words = shared | dict(declared(words_of.own))
    not_its = (_OF_SERVERS if protocol.broker is not None else _OF_BROKERS) | (
        frozenset() if protocol.levels is not None else {"address"}
    )
    not_its |= _OF_SOME - protocol.gateway_settings
    return {field: one for field, one in words.items() if field not in not_its}


def _told(one: Declared, protocol: Protocol, panel: str, sentence: str, absent: str) -> Declared:
    text = sentence.format(schemes=", ".join(protocol.schemes))
    option = dataclasses.replace(one.option, help=text, panel=panel, absent=absent)
    if one.field != "security":
        return dataclasses.replace(one, option=option)
    option = dataclasses.replace(option, choices=lambda: protocol.securities)
    return dataclasses.replace(one, option=option, annotation=str)


def checked_gateway(
    protocol: Protocol,
    typed: Mapping[str, Any],
    words: Mapping[str, Any],
    profile: Profile,
    words_of: Words = ALONE,
    **always: Any,
) -> Asked:
    """Return the options of a gateway; Refusal names the option, or the profile's key, and what is allowed.

    Args:
        protocol: what its vehicles speak.
        typed: options from the command line and the environment.
        words: those that choose the mode.
        profile: what it says of Spark, and to a gateway without a broker of a target, is not for a gateway.
        words_of: the command.
        always: options of a run that hold for the command without being typed.
    """
    there, its_own = known(protocol, words_of), declared(words_of.own)
    # Who agrees to a load, and with which keys vehicles speak, is a run's business.
    told = {field: value for field, value in profile.fields.items() if field in there}
    own = _own(words_of, {field: value for field, value in typed.items() if field in its_own})
    fields = {
        **told,
        **always,
        **{field: value for field, value in typed.items() if field in OPTIONS and field not in its_own},
    }

    def name(field: str) -> str:
        if field == "protocol":
            return words_of.called
        return option_name(field) if field in typed else profile.names.get(field, option_name(field))

    if own.address is not None:
        protocol.check_scheme(own.address, word_of("address", its_own))
    for field, what in (("target", "which broker"), ("kafka", "which Kafka")):
        if field in there and fields.get(field) is None:
            raise Refusal(f"{option_name(field)}: {what}? It has no default; a --profile may say it")
    if fields.get("security", "plain") not in protocol.securities:
        allowed = ", ".join(protocol.securities)
        raise Refusal(f"{option_name('security')} {fields['security']!r}: allowed are {allowed}")
    run = checked_options({**fields, "protocol": protocol.name, "mode": mode_of(protocol.name, words)}, name)
    _check_together(
        protocol, own, run, {field: typed[field] for field in words_of.made_alone if field in typed}
    )
    return Asked(run, own)


def _own(words_of: Words, fields: Mapping[str, Any]) -> GatewayOptions:
    its_own = declared(words_of.own)

    def name(field: str) -> str:
        return word_of(field, its_own)

    try:
        return words_of.own(**fields)
    except ValidationError as error:
        raise Refusal(refusal_of(error, its_own, name)) from None


def _check_together(
    protocol: Protocol, own: GatewayOptions, run: RunOptions, of_topics: Mapping[str, Any]
) -> None:
    """Refuse what has no effect, and keys that are missing or that nothing asks for."""
    for field, value in of_topics.items():
        if not own.make_topics:
            raise Refusal(f"{option_name(field)} {value}: needs --make-topics")
    if protocol.broker is None and (run.security == "plain") != (own.keys is None):
        kept = [one for one in protocol.securities if one != "plain"]
        raise Refusal(
            f"--security {run.security}: needs --keys, a key for each vehicle"
            if own.keys is None
            else f"--keys {own.keys}: needs --security {' or '.join(kept)}"
        )
