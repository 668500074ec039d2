"""What a run is asked to do: every option once.

An option is one field of `RunOptions`: its name carries the unit, its type the limits, its `Option` the rest. The
command line, the axes of studies and docs/options.md are made from the fields. What options must be to one another is in
`option_rules.py`, whose `run_options` makes checked ones.
"""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from gateways.batching.policies import POLICIES
from gateways.protocols import PROTOCOLS, protocol_named
from gateways.sinks import CONFLUENT, KAFKA, PLATFORMS, SINKS
from gateways.sinks.kinds import ABILITIES
from ivsim.agents.address import address_of
from ivsim.labels import checked_name, checked_tags
from ivsim.mix import EXAMPLE, FleetPart, checked_mix, fleet_parts
from ivsim.option import (
    Declared,
    Naming,
    Need,
    Option,
    declared,
    needs,
    needs_some,
    none_with,
    of_kind,
    shown,
    word_of,
)
from ivsim.share import instant_ns, share_of
from ivsim.target import SCHEMES
from ivsim.topologies import TOPOLOGIES, Topology
from schemas.errors import Refusal
from schemas.formats import FORMATS
from schemas.formats.padded import MAX_BYTES, MIN_BYTES
from schemas.settings import producer_settings, spark_settings
from schemas.topics import FIRST_GATEWAY, MAX_BROKERS, MAX_FLEET, MAX_GATEWAYS, MAX_VEHICLES, VEHICLES_NETWORK
from simulator.links import AUTO, LINKS
from simulator.links.base import DEFAULT_TCP_ALGORITHM, TCP_ALGORITHMS
from simulator.logs import VehicleLog, read_log
from simulator.traces import BUNDLED, DEFAULT, Trace, bundled, read_trace
from twin.place import STORED, Place
from twin.queries import QUERIES
from twin.queries.stations import Stations, read_stations

PROTOCOL: Final = "Protocol"
VEHICLES: Final = "Vehicles and messages"
LINK: Final = "Link"
IMPAIRMENTS: Final = "Impairments of the link"
CLOUD: Final = "Cloud side"
RUN: Final = "Run"
PANELS: Final = (PROTOCOL, VEHICLES, LINK, IMPAIRMENTS, CLOUD, RUN)

MAX_RTT_MS: Final = 60_000
AUTO_SHARDS: Final = "auto"
MAX_SHARDS: Final = 64
# The first row is what a run takes when nothing is said.
_USUAL: Final = next(iter(PROTOCOLS.values()))
_STAGE: Final = re.compile(
    r"(?:(?P<h>[0-9]{1,4})h)?(?:(?P<m>[0-9]{1,6})m)?(?:(?P<s>[0-9]{1,8}(?:\.[0-9]{1,9})?)s)?"
    r":(?P<begin>[0-9]{1,9})(?:-(?P<end>[0-9]{1,9}))?"
)
_TOPIC_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]")
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_STORE_KEY: Final = re.compile(r"//.*@")
NOT_STORED: Final = (
    "write s3a://BUCKET/PATH, with no key in it: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say that"
)
_ENDPOINT: Final = re.compile(
    r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-fA-F:]+\](:[0-9]{1,5})?"
)
_SPARK_MASTER: Final = re.compile(r"local(\[[^\]]+\])?|cluster\[[1-9]\]|spark://\S+|yarn|k8s://\S+")


def _of_topology(holds: Callable[[Topology], bool]) -> Need:
    """Return the need of a topology that is so."""
    names = " or ".join(topology.name for topology in TOPOLOGIES.values() if holds(topology))
    return Need(
        lambda options: holds(TOPOLOGIES[options.topology]),
        lambda _options, name: f"needs {name('topology')} {names}",
    )


GATEWAY = _of_topology(lambda topology: topology.bridged)
TWINS = _of_topology(lambda topology: topology.twins)
INGEST = _of_topology(lambda topology: topology.bridged and not topology.twins)
BEHIND_LINK = _of_topology(lambda topology: topology.bridged and not topology.edge)
ECHOED = _of_topology(lambda topology: topology.echoed)
OFF_EDGE = _of_topology(lambda topology: not topology.edge)
# Who has a place in an object store: the twins, and a share its result.
STORES = Need(
    lambda options: TWINS.holds(options) or options.share_results is not None,
    lambda options, name: f"{TWINS.says(options, name)}, or {name('share_results')}",
)
ON_KAFKA = Need(
    lambda options: options.platform == KAFKA,
    lambda options, name: f"needs {name('platform')} {KAFKA}; it is {options.platform}",
    shared=True,
)
EMULATED = none_with("link", "direct")
OWN_KAFKA = Need(
    lambda options: options.kafka is None,
    lambda options, name: f"needs the run's own Kafka, not {name('kafka')} {options.kafka}",
)


def _of_client(ability: str) -> Need:
    """Return the need of a client library in the gateways that can do something."""
    able = " or ".join(kind.name for kind in SINKS.values() if ability in kind.obeys)
    return Need(
        lambda options: ability in SINKS[options.kafka_client].obeys,
        lambda options, name: (
            f"needs {name('kafka_client')} {able}, which alone {ABILITIES[ability]}; it is {options.kafka_client}"
        ),
    )


def _beyond_the_edge(options: Any, name: Naming) -> str:
    able = " or ".join(kind.name for kind in SINKS.values() if "in_flight_log" in kind.obeys)
    return (
        f"not with {name('topology')} {options.topology}, where the ledger needs a library that"
        f" {ABILITIES['in_flight_log']}: {able}"
    )


SENT_OR_NOT = Need(
    lambda options: (
        not TOPOLOGIES[options.topology].edge or "in_flight_log" in SINKS[options.kafka_client].obeys
    ),
    _beyond_the_edge,
)
OWN_BROKER = Need(
    lambda options: options.target is None,
    lambda options, name: f"needs the run's own brokers, not {name('target')} {options.target}",
)


REACHABLE = Need(
    lambda options: options.target is not None or options.entrance is not None,
    lambda _options, name: f"needs {name('target')}, or {name('entrance')} to the run's own broker",
)
ONE_MACHINE = Need(
    lambda options: not options.agents,
    lambda _options, name: f"has no effect with {name('agents')}: frames of other machines are not captured",
)


def _brokerless(options: Any, name: Naming) -> str:
    having = ", ".join(protocol.name for protocol in PROTOCOLS.values() if protocol.broker is not None)
    return f"has no effect with {_spoken(options, name)}, which has no broker, only with {having}"


BROKERED = Need(lambda options: any(part.protocol.broker for part in options.parts), _brokerless, shared=True)
ONE_PROTOCOL = Need(
    lambda options: options.mix is None,
    lambda options, name: (
        f"has no effect with {name('mix')} {options.mix!r}, which says what each vehicle speaks"
    ),
)


def _of_protocol(setting: str, *, shared: bool = False) -> Need:
    """Return the need of a protocol that obeys the setting."""

    def says(options: Any, name: Naming) -> str:
        having = ", ".join(protocol.name for protocol in PROTOCOLS.values() if setting in protocol.settings)
        return f"has no effect with {_spoken(options, name)}, only with {having}"

    return Need(
        lambda options: any(setting in part.protocol.settings for part in options.parts), says, shared
    )


_OF_TCP = _of_protocol("tcp", shared=True)
# Gateways speak to Kafka over the link, whatever their vehicles speak to them.
TCP_ON_LINK = Need(
    lambda options: TOPOLOGIES[options.topology].edge or _OF_TCP.holds(options), _OF_TCP.says, shared=True
)


def _spoken(options: Any, name: Naming) -> str:
    """Return what the vehicles speak, as it was typed."""
    if options.mix is not None:
        return f"{name('mix')} {options.mix!r}"
    return f"{name('protocol')} {options.protocol}"


def _secured(options: Any, name: Naming) -> str:
    having = ", ".join(p.name for p in PROTOCOLS.values() if options.security in p.securities)
    return f"has no effect with {_spoken(options, name)}, only with {having}"


# Of a mix, every part: a fleet that is secured in part is not what is asked for.
SECURED = Need(
    lambda options: all(options.security in part.protocol.securities for part in options.parts), _secured
)


def _of_traces(holds: Callable[[Trace], bool], what: str) -> Need:
    """Return the need of a trace, one of the run's, that is so."""
    return Need(
        lambda options: any(holds(trace) for trace in options.traces),
        lambda options, _name: f"needs a trace {what}, and {options.trace} is none",
        shared=True,
    )


RATED = _of_traces(lambda t: t.uplink_kbps is not None or t.downlink_kbps is not None, "with a rate")
WITHOUT_LOSS = _of_traces(lambda t: t.loss_ratio is None, "without a column of losses")
LOSING = Need(
    lambda options: options.loss_ratio > 0 or any(trace.loss_ratio is not None for trace in options.traces),
    lambda _options, name: f"needs {name('loss_ratio')} above 0, or a trace with a column of losses",
    shared=True,
)
DELAYED = Need(
    lambda options: fixed_rtt_ms(options) != 0,
    lambda _options, name: f"has no effect with {name('rtt')} 0",
    shared=True,
)


ACKNOWLEDGING = Need(
    lambda options: any(part.mode.gateway_acknowledges for part in options.parts),
    lambda options, _name: f"has no effect with {options.spoken}, which the gateway does not acknowledge",
)


DRIVEN = Need(
    lambda options: options.message_bytes is None and not FORMATS[options.format].header_only,
    lambda options, name: (
        f"has no effect with {name('format')} {options.format}, whose payloads say nothing of a drive"
        if options.message_bytes is None
        else f"has no effect with {name('message_bytes')} {options.message_bytes}, which are filler"
    ),
)


POSITIONED = Need(
    DRIVEN.holds,
    lambda options, name: (
        f"has no effect with {name('format')} {options.format}, whose payloads have no position"
    ),
)


QUERYING = Need(
    lambda options: options.query != "none",
    lambda _options, name: f"needs {name('query')} {', '.join(QUERIES)}",
    shared=True,
)


BATCHED = Need(
    lambda options: options.batching != "none",
    lambda _options, name: f"needs {name('batching')} {', '.join(POLICIES)}",
    shared=True,
)


CHOOSING = Need(
    lambda options: options.batching != "none" and POLICIES[options.batching].rule is not None,
    lambda _options, name: f"needs {name('batching')} {', '.join(n for n, p in POLICIES.items() if p.rule)}",
    shared=True,
)


class Faults(BaseModel):
    """Losses on purpose, so that a test can ask whether the ledger names each; the manifest lists them.

    Attributes:
        link: (vehicle number, second, seconds) in which the link loses every packet of the vehicle.
        gateway: (vehicle id, sequence) taken and acknowledged by the gateway, and never sent to Kafka.
        twin: (vehicle id, sequence) that reach Kafka with a format no twin knows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    link: tuple[tuple[int, int, int], ...] = ()
    gateway: tuple[tuple[str, int], ...] = ()
    twin: tuple[tuple[str, int], ...] = ()


def _addressed(value: Any) -> Any:
    """Refuse more vehicles than a link has addresses for."""
    if isinstance(value, int) and value > MAX_VEHICLES:
        raise ValueError(
            f"{value}: a run has up to {MAX_VEHICLES}, each with an address of its own in {VEHICLES_NETWORK}; `ivsim fleet`"
            f" generates the messages of up to {MAX_FLEET} without sending any"
        )
    return value


def _outages(value: Any) -> Any:
    """Accept `START:SECONDS` where a pair of numbers stands."""
    return [_outage(one) for one in value] if isinstance(value, list | tuple) else value


def _outage(value: Any) -> tuple[float, float]:
    start, _, length = value.partition(":") if isinstance(value, str) else (value[0], "", value[-1])
    try:
        pair = float(start), float(length)
    except (ValueError, TypeError):
        pair = (-1.0, -1.0)
    if not (0 <= pair[0] < float("inf") and 0 < pair[1] < float("inf")):
        raise ValueError(f"{shown(value)}: write START:SECONDS, such as 20:10")
    return pair


def _stages(value: Any) -> Any:
    """Accept `DURATION:VEHICLES` and `DURATION:FROM-TO` where three numbers stand."""
    return [_stage(one) for one in value] if isinstance(value, list | tuple) else value


def _stage(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _STAGE.fullmatch(value.strip())
    duration_s = (
        0.0
        if found is None
        else sum(float(found[unit] or 0) * seconds for unit, seconds in (("h", 3600), ("m", 60), ("s", 1)))
    )
    if found is None or duration_s <= 0:
        raise ValueError(
            f"{shown(value)}: write DURATION:VEHICLES, such as 60s:1000, or a ramp, such as 1m30s:0-500"
        )
    return duration_s, int(found["begin"]), int(found["end"] or found["begin"])


def _faults(value: Any) -> Any:
    """Accept JSON where an object stands."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None


# Tells the check of options that they are those of a run that was: its files may have gone.
PAST: Final = "past"


class RunOptions(BaseModel):
    """One run of the testbed; units are in the names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    protocol: Annotated[
        str,
        Option("Protocol of the vehicles.", PROTOCOL, choices=lambda: PROTOCOLS, effective=(ONE_PROTOCOL,)),
    ] = _USUAL.name
    mode: Annotated[
        str,
        Option("Delivery mode of the protocol.", PROTOCOL, cli=False, axis="mode", effective=(ONE_PROTOCOL,)),
    ] = _USUAL.default_mode
    mix: Annotated[
        str | None,
        Option(
            f"A fleet of several protocols instead, PROTOCOL MODE=PERCENT with commas between: {EXAMPLE!r}.",
            PROTOCOL,
            absent="one protocol",
            effective=(BEHIND_LINK,),
        ),
    ] = None
    security: Annotated[
        Literal["plain", "tls", "mtls", "oscore", "dtls-psk"],
        Option(
            "Plain, or with keys of the run's own: TLS 1.3 where each vehicle has a password (tls) or a"
            " certificate (mtls); around CoAP, OSCORE for each message or DTLS 1.2 with a key of each vehicle's (dtls-psk).",
            PROTOCOL,
            effective=(GATEWAY, SECURED),
            off="plain",
            axis="security",
        ),
    ] = "plain"
    keepalive_s: Annotated[
        int,
        Field(ge=1, le=65_535),
        Option(
            "Keep-alive (MQTT) or heartbeat (AMQP): how soon a vehicle sees an outage.",
            PROTOCOL,
            "s",
            word="keepalive",
            effective=(_of_protocol("keepalive_s", shared=True),),
        ),
    ] = 60

    coap_block_bytes: Annotated[
        Literal["16", "32", "64", "128", "256", "512", "1024", "none"],
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
        Option(
            "Largest payload that CoAP sends in one block; none is one datagram up to the path's MTU.",
            PROTOCOL,
            "bytes",
            effective=(_of_protocol("coap_block_bytes"),),
            axis="coap_block_bytes",
        ),
    ] = "1024"

    vehicles: Annotated[
        int,
        BeforeValidator(_addressed),
        Field(ge=1, le=MAX_VEHICLES),
        Option("How many vehicles.", VEHICLES, axis="vehicles"),
    ] = 20
    interval_s: Annotated[
        float,
        Field(gt=0, le=86_400),
        Option("Time between two messages of a vehicle.", VEHICLES, "s", word="interval", axis="interval_s"),
    ] = 1.0
    duration_s: Annotated[
        float,
        Field(gt=0, le=7 * 86_400),
        Option("Time in which messages are due.", VEHICLES, "s", word="duration"),
    ] = 60.0
    stages: Annotated[
        tuple[tuple[float, int, int], ...],
        BeforeValidator(_stages),
        Option(
            "DURATION:VEHICLES, or DURATION:FROM-TO for a ramp, one behind another: how many of the vehicles send.",
            VEHICLES,
            word="stage",
            cli=False,
            absent="all, throughout",
        ),
    ] = ()
    warmup_s: Annotated[
        float,
        Field(ge=0),
        Option("Time at the start whose messages are sent and not measured.", VEHICLES, "s", word="warmup"),
    ] = 0.0
    loss_timeout_s: Annotated[
        float,
        Field(gt=0, le=3_600),
        Option(
            "Time after which a message that arrives is late, and one that has not arrived is lost.",
            VEHICLES,
            "s",
            word="loss-timeout",
        ),
    ] = 30.0
    format: Annotated[
        str, Option("Format of the payload.", VEHICLES, choices=lambda: FORMATS, axis="format")
    ] = "protobuf"
    message_bytes: Annotated[
        int | None,
        Field(ge=MIN_BYTES, le=MAX_BYTES),
        Option(
            "Size of every payload, made of filler that no twin can decode.",
            VEHICLES,
            "bytes",
            cli=False,
            absent="the format's",
            effective=(ECHOED,),
            axis="message_bytes",
        ),
    ] = None
    vehicle_log: Annotated[
        str | None,
        Option(
            "Recorded drives that vehicles replay, each one in turn: a CSV, Parquet or GPX file, or floating-car data of SUMO.",
            VEHICLES,
            absent="vehicles make up their own",
            effective=(DRIVEN,),
            metavar="PATH",
        ),
    ] = None
    vehicle_mapping: Annotated[
        str | None,
        Option(
            "TOML file that says which column of a CSV or Parquet log is which signal.",
            VEHICLES,
            absent="none",
            effective=(needs_some("vehicle_log"),),
            metavar="PATH",
        ),
    ] = None
    connect_rate_per_s: Annotated[
        float | None,
        Field(gt=0, le=100_000),
        Option(
            "Connections that all vehicles together begin per second before the first message is due, whatever became of"
            " those before.",
            VEHICLES,
            "1/s",
            word="connect-rate",
            absent="as fast as the sender can",
            effective=(_of_protocol("connect_rate_per_s"),),
        ),
    ] = None
    outbox_limit: Annotated[
        int,
        Field(ge=1),
        Option("Messages that a vehicle keeps while it cannot send.", VEHICLES, "messages"),
    ] = 1_000
    outbox_policy: Annotated[
        Literal["drop_oldest", "drop_newest", "block"],
        Option("What a vehicle does when that many wait.", VEHICLES),
    ] = "drop_oldest"

    link: Annotated[
        str,
        Option(
            "Back end of the link; direct is the control, without emulation.",
            LINK,
            choices=lambda: (AUTO, *LINKS),
            axis="link",
        ),
    ] = AUTO
    trace: Annotated[
        str,
        Option(
            "A bundled trace (ivsim trace list) or a file; of several, with commas between, each vehicle"
            " drives one in turn.",
            LINK,
            effective=(EMULATED,),
            axis="trace",
        ),
    ] = DEFAULT
    trace_offsets: Annotated[
        bool,
        Option(
            "Each vehicle starts at its own second of the trace.",
            LINK,
            negative="no-trace-offsets",
            effective=(EMULATED,),
        ),
    ] = True
    rate_factor: Annotated[
        float,
        Field(gt=0, le=1_000),
        Option(
            "Multiplies the trace's rates.", LINK, effective=(EMULATED, RATED), off=1.0, axis="rate_factor"
        ),
    ] = 1.0
    rtt: Annotated[
        str | None,
        Option(
            "Round-trip time in ms, or a trace that has it: a bundled one, or a file.",
            LINK,
            "ms",
            absent="the trace's own",
            effective=(EMULATED,),
            axis="rtt",
        ),
    ] = None
    outage: Annotated[
        tuple[tuple[float, float], ...],
        BeforeValidator(_outages),
        Option(
            "When no packet moves, and for how long; may be given more than once.",
            LINK,
            "s",
            metavar="START:SECONDS",
            absent="none",
            effective=(EMULATED,),
        ),
    ] = ()
    shaping: Annotated[
        Literal["both", "cloud_egress"],
        Option(
            "Shape both directions, or only what leaves the cloud, as netem on one machine does.",
            LINK,
            cli=False,
            effective=(EMULATED,),
            axis="shaping",
        ),
    ] = "both"
    tcp: Annotated[
        str,
        Option(
            "Congestion control of TCP across the link, at both ends; the host's own choice has no effect.",
            LINK,
            choices=lambda: TCP_ALGORITHMS,
            effective=(TCP_ON_LINK,),
            off=DEFAULT_TCP_ALGORITHM,
            axis="tcp",
        ),
    ] = DEFAULT_TCP_ALGORITHM
    probe: Annotated[
        bool,
        Option(
            "Behind a run by itself (none of a study, a search or a testbed), drive up to three of its seconds through its"
            " link again for 5 s, saturated: it proves rates and losses that sparse traffic leaves open.",
            LINK,
            negative="no-probe",
            off=True,
            effective=(EMULATED,),
        ),
    ] = True
    prove_link: Annotated[
        bool,
        Option(
            "Behind the run, drive up to five of its seconds through its link again, saturated, and judge delay, loss and"
            " TCP too. Takes 20 s, 60 s with one vehicle.",
            LINK,
            effective=(EMULATED,),
        ),
    ] = False

    loss_ratio: Annotated[
        float,
        Field(ge=0, le=1),
        Option(
            "Share of packets lost in each direction, where the trace has no column of losses.",
            IMPAIRMENTS,
            "ratio",
            word="loss",
            axis="loss",
            off=0.0,
            effective=(EMULATED, WITHOUT_LOSS),
        ),
    ] = 0.01
    loss_direction: Annotated[
        Literal["both", "uplink", "downlink"],
        Option("Which direction loses.", IMPAIRMENTS, effective=(EMULATED, LOSING), axis="loss_direction"),
    ] = "both"
    loss_burst: Annotated[
        float | None,
        Field(ge=1, le=1_000),
        Option(
            "Mean length of a burst of losses (Gilbert-Elliott).",
            IMPAIRMENTS,
            "packets",
            absent="each packet is lost by itself",
            effective=(EMULATED, LOSING),
        ),
    ] = None
    jitter_ms: Annotated[
        float,
        Field(ge=0, le=10_000),
        Option(
            "Spread of each packet's delay around the trace's.",
            IMPAIRMENTS,
            "ms",
            word="jitter",
            off=0.0,
            effective=(EMULATED,),
        ),
    ] = 0.0
    jitter_distribution: Annotated[
        Literal["uniform", "normal", "pareto", "paretonormal"],
        Option(
            "Its distribution, as netem's tables have it.",
            IMPAIRMENTS,
            effective=(EMULATED, needs_some("jitter_ms")),
        ),
    ] = "normal"
    reorder_ratio: Annotated[
        float,
        Field(ge=0, lt=1),
        Option(
            "Share of packets that overtake others.",
            IMPAIRMENTS,
            "ratio",
            word="reorder",
            off=0.0,
            effective=(EMULATED, DELAYED),
        ),
    ] = 0.0
    duplicate_ratio: Annotated[
        float,
        Field(ge=0, lt=1),
        Option(
            "Share of packets that come twice; for one vehicle, without bursts.",
            IMPAIRMENTS,
            "ratio",
            word="duplicate",
            off=0.0,
            effective=(EMULATED,),
        ),
    ] = 0.0
    queue_bytes: Annotated[
        int | None,
        Field(ge=1_514, lt=2**31),
        Option(
            "Bytes that may wait for the rate.",
            IMPAIRMENTS,
            "bytes",
            absent="from rate and delay",
            effective=(EMULATED, RATED),
        ),
    ] = None

    topology: Annotated[
        str,
        Option(
            "; ".join(f"{topology.name}: {topology.meaning}" for topology in TOPOLOGIES.values()) + ".",
            CLOUD,
            choices=lambda: TOPOLOGIES,
            axis="topology",
        ),
    ] = "gateway"
    platform: Annotated[
        str,
        Option(
            "Platform to which gateways deliver, and from which a consumer has the messages.",
            CLOUD,
            choices=lambda: PLATFORMS,
            effective=(INGEST,),
            axis="platform",
        ),
    ] = KAFKA
    platform_durability: Annotated[
        Literal["cache", "synced"],
        Option(
            "What the platform confirms: what its operating system has (cache), or what it has flushed to its disk (synced).",
            CLOUD,
            effective=(INGEST,),
            axis="platform_durability",
        ),
    ] = "cache"
    gateways: Annotated[
        int,
        Field(ge=1, le=MAX_GATEWAYS),
        Option(
            "Gateway processes that share the vehicles; of a mix, those of each protocol, of several brokers, those of each."
            " At the edge each has a link, and vehicles, of its own.",
            CLOUD,
            effective=(GATEWAY,),
        ),
    ] = 1
    brokers: Annotated[
        int,
        Field(ge=1, le=MAX_BROKERS),
        Option(
            "Brokers of the protocol among which the vehicles are dealt out, each with gateways and senders of its own; of"
            " a mix, those of each protocol that has one.",
            CLOUD,
            effective=(BEHIND_LINK, OWN_BROKER, BROKERED),
            off=1,
        ),
    ] = 1
    early_ack: Annotated[
        bool,
        Option(
            "Acknowledge before Kafka has the record: careless on purpose.",
            CLOUD,
            effective=(GATEWAY, ACKNOWLEDGING),
            axis="early_ack",
        ),
    ] = False
    batching: Annotated[
        str,
        Option(
            "Batches of records that the gateway makes for each partition of Kafka: none, so that a record waits 2 ms for"
            " others, and under load 100 ms, fixed, by count and age, or a policy that chooses both anew each period.",
            CLOUD,
            choices=lambda: ("none", *POLICIES),
            effective=(TWINS, _of_client("batching")),
            off="none",
            axis="batching",
        ),
    ] = "none"
    batch_messages: Annotated[
        int,
        Field(ge=1, le=1_000),
        Option(
            "Messages that close a batch.",
            CLOUD,
            "messages",
            effective=(TWINS, BATCHED),
            axis="batch_messages",
        ),
    ] = 10
    batch_ms: Annotated[
        float,
        Field(ge=0, le=10_000),
        Option(
            "Age of its oldest message that closes a batch.",
            CLOUD,
            "ms",
            effective=(TWINS, BATCHED),
            axis="batch_ms",
        ),
    ] = 100.0
    batch_limit_ms: Annotated[
        float,
        Field(gt=0, le=60_000),
        Option(
            "Latency that a policy of batches is to keep, from the gateway's taking a message to Kafka's confirmation.",
            CLOUD,
            "ms",
            word="batch-limit",
            effective=(TWINS, CHOOSING),
            axis="batch_limit_ms",
        ),
    ] = 500.0
    batch_period_s: Annotated[
        float,
        Field(gt=0, le=3_600),
        Option(
            "Time after which a policy of batches chooses anew.",
            CLOUD,
            "s",
            word="batch-period",
            effective=(TWINS, CHOOSING),
            axis="batch_period_s",
        ),
    ] = 10.0
    trigger: Annotated[
        Literal["realtime", "microbatch"],
        Option("Trigger of the Spark query.", CLOUD, effective=(TWINS,), axis="trigger"),
    ] = "realtime"
    live: Annotated[
        Literal["consumer", "spark"],
        Option(
            "Who sums up the live figures: a consumer in the twin process, or a micro-batch query of Spark's,"
            " for fleets whose updates one consumer cannot read.",
            CLOUD,
            effective=(TWINS,),
        ),
    ] = "consumer"
    query: Annotated[
        str,
        Option(
            "Query over the positions of vehicles beside the twin's own: none, or "
            + "; ".join(f"{query.name}, {query.meaning}" for query in QUERIES.values())
            + ".",
            CLOUD,
            choices=lambda: ("none", *QUERIES),
            effective=(TWINS, POSITIONED),
            off="none",
            axis="query",
        ),
    ] = "none"
    stations: Annotated[
        str | None,
        Option(
            "CSV file of stations for the query: station, latitude_deg, longitude_deg.",
            CLOUD,
            absent="none",
            effective=(QUERYING,),
            metavar="PATH",
        ),
    ] = None
    answer_limit_ms: Annotated[
        float,
        Field(gt=0, le=600_000),
        Option(
            "Latency, from due, up to which an answer of the query is in time.",
            CLOUD,
            "ms",
            word="answer-limit",
            axis="answer_limit",
            effective=(QUERYING,),
        ),
    ] = 1_000.0
    future_tolerance_s: Annotated[
        float,
        Field(ge=0, le=86_400),
        Option(
            "How far a vehicle's clock may be ahead of Kafka's; a reading from further on is kept out of the twin.",
            CLOUD,
            "s",
            word="future-tolerance",
            effective=(TWINS,),
        ),
    ] = 5.0
    target: Annotated[
        str | None,
        Option(
            "A broker or server of yours in place of the run's own: SCHEME://HOST or SCHEME://HOST:PORT, SCHEME one of"
            f" {', '.join(SCHEMES)}.",
            CLOUD,
            absent="the run's own",
            effective=(OFF_EDGE,),
        ),
    ] = None
    target_consent: Annotated[
        str | None,
        Option(
            "The target's host once more, where it is not this machine: yes, it may be loaded.",
            CLOUD,
            absent="none",
            effective=(needs_some("target"),),
        ),
    ] = None
    target_accounts: Annotated[
        str | None,
        Option(
            "JSON file of who logs in at the target as whom.",
            CLOUD,
            absent="nobody logs in",
            effective=(needs_some("target"),),
            metavar="PATH",
        ),
    ] = None
    target_ca: Annotated[
        str | None,
        Option(
            "PEM file of the authority that signed the target's certificate.",
            CLOUD,
            absent="the system's",
            effective=(needs_some("target"),),
            metavar="PATH",
        ),
    ] = None
    target_certificates: Annotated[
        str | None,
        Option(
            "Directory with the certificate and key of each client of the target, such as gateway.pem.",
            CLOUD,
            absent="none",
            effective=(needs_some("target"),),
            metavar="PATH",
        ),
    ] = None
    target_keys: Annotated[
        str | None,
        Option(
            "JSON file with the key that each vehicle shares with the target, by its id: 32 hexadecimal digits.",
            CLOUD,
            absent="none",
            effective=(needs_some("target"),),
            metavar="PATH",
        ),
    ] = None
    kafka: Annotated[
        str | None,
        Option(
            "HOST:PORT of a Kafka broker that is there, of several by commas.",
            CLOUD,
            absent="the run's own",
            effective=(BEHIND_LINK, ON_KAFKA),
        ),
    ] = None
    kafka_login: Annotated[
        str | None,
        Option(
            "File by which all of the run log in at that Kafka over TLS: by SCRAM, PLAIN, OAUTHBEARER or a certificate"
            " (docs/how-to/own-servers.md).",
            CLOUD,
            absent="in the clear",
            effective=(needs_some("kafka"),),
            metavar="PATH",
        ),
    ] = None
    kafka_topic_prefix: Annotated[
        str,
        Option(
            "How the names of the run's topics at that Kafka begin, before the run's own name.",
            CLOUD,
            effective=(needs_some("kafka"),),
        ),
    ] = "ivsim."
    keep_topics: Annotated[
        bool,
        Option(
            "The run's topics stay at that Kafka, so that `ivsim twin serve` shows its twins afterwards.",
            CLOUD,
            effective=(needs_some("kafka"),),
        ),
    ] = False
    kafka_client: Annotated[
        str,
        Option(
            "Client library by which gateways send to Kafka: librdkafka (confluent), aiokafka, kafka-python, or the official"
            " Java client in their process (jpype).",
            CLOUD,
            choices=lambda: SINKS,
            effective=(GATEWAY, ON_KAFKA, SENT_OR_NOT),
            off=CONFLUENT,
            axis="kafka_client",
        ),
    ] = CONFLUENT
    kafka_producer: Annotated[
        tuple[str, ...],
        Option(
            "Setting KEY=VALUE of librdkafka for the gateways' producers, such as linger.ms=5; may be given more than once.",
            CLOUD,
            absent="the gateways' own",
            effective=(GATEWAY, ON_KAFKA, _of_client("kafka_producer")),
        ),
    ] = ()
    kafka_security: Annotated[
        Literal["plaintext", "sasl-ssl"],
        Option(
            "How gateway, Spark and all others reach the run's own Kafka: in the clear, or logged in by SCRAM-SHA-512"
            " over TLS with keys of the run's own.",
            CLOUD,
            effective=(GATEWAY, ON_KAFKA, OWN_KAFKA),
            off="plaintext",
            axis="kafka_security",
        ),
    ] = "plaintext"
    kafka_brokers: Annotated[
        int,
        Field(ge=1, le=5),
        Option(
            "Brokers of the run's own Kafka: one, or a cluster of so many; each takes 400 MB.",
            CLOUD,
            effective=(BEHIND_LINK, ON_KAFKA, OWN_KAFKA),
            axis="kafka_brokers",
        ),
    ] = 1
    kafka_partitions: Annotated[
        int,
        Field(ge=1, le=64),
        Option(
            "Partitions of the topics of messages and twins, and of the twins' state in Spark; of another platform those of its"
            " topic, in Redis streams.",
            CLOUD,
            effective=(GATEWAY,),
            axis="kafka_partitions",
        ),
    ] = 2
    kafka_replication: Annotated[
        int,
        Field(ge=1, le=100),
        Option(
            "Brokers that have each partition.",
            CLOUD,
            effective=(GATEWAY, ON_KAFKA),
            axis="kafka_replication",
        ),
    ] = 1
    kafka_min_insync: Annotated[
        int,
        Field(ge=1, le=100),
        Option(
            "Of those, how many must have a record before Kafka acknowledges it.",
            CLOUD,
            effective=(GATEWAY, ON_KAFKA),
            axis="kafka_min_insync",
        ),
    ] = 1
    spark_master: Annotated[
        str | None,
        Option(
            "Master of a Spark cluster, such as spark://HOST:7077; cluster[2]: one of the run's own, of two workers.",
            CLOUD,
            absent="this machine",
            effective=(TWINS,),
        ),
    ] = None
    spark_checkpoint: Annotated[
        str | None,
        Option(
            "URI below which Spark keeps the twins' state, such as s3a://BUCKET/PATH; all executors have to reach it.",
            CLOUD,
            absent="this machine's disk",
            effective=(TWINS,),
        ),
    ] = None
    history: Annotated[
        str | None,
        Option(
            "Directory, or s3a://BUCKET/PATH, in which each status is kept, decoded, as Parquet.",
            CLOUD,
            absent="none is kept",
            effective=(TWINS,),
        ),
    ] = None
    s3_endpoint: Annotated[
        str | None,
        Option(
            "URL of the object store that has the s3a:// places, such as https://HOST:9000.",
            CLOUD,
            absent="Amazon's own",
            effective=(STORES,),
        ),
    ] = None
    spark_driver_host: Annotated[
        str | None,
        Option(
            "Name or address of this machine at which a cluster's executors reach Spark's driver.",
            CLOUD,
            absent="127.0.0.1",
            effective=(TWINS,),
        ),
    ] = None
    spark_conf: Annotated[
        tuple[str, ...],
        Option(
            "Setting KEY=VALUE of Spark, such as spark.driver.memory=4g; may be given more than once.",
            CLOUD,
            absent="the twin's own",
            effective=(TWINS,),
        ),
    ] = ()
    page: Annotated[
        bool,
        Option("Serve the live page of the twins while the run goes.", CLOUD, effective=(TWINS,)),
    ] = False
    page_port: Annotated[
        int,
        Field(ge=0, lt=65_536),
        Option(
            "Port of that page on 127.0.0.1; 0 takes a free one.",
            CLOUD,
            effective=(needs_some("page"),),
        ),
    ] = 8080
    metrics_port: Annotated[
        int | None,
        Field(ge=0, lt=65_536),
        Option(
            "Port on 127.0.0.1 of one page for Prometheus with the figures of the run and of every part; 0 takes a free one.",
            RUN,
            absent="no page",
        ),
    ] = None

    seed: Annotated[
        int,
        Field(ge=0, lt=2**63),
        Option("The same seed gives the same messages over the same link.", RUN),
    ] = 1
    name: Annotated[
        str | None,
        Option(
            "Name of the run: its result goes to results/NAME, and NAME stands for that directory elsewhere.",
            RUN,
            absent="time, mode and a random suffix",
        ),
    ] = None
    tags: Annotated[
        tuple[str, ...],
        Option(
            "Label KEY=VALUE, by which `ivsim results list --tag` finds the run; may be given more than once.",
            RUN,
            word="tag",
            absent="none",
        ),
    ] = ()
    shards: Annotated[
        str,
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
        Option(
            f"Sender processes that share the vehicles, 1 to {MAX_SHARDS}, of a mix those of each protocol, at the edge those of"
            " each gateway, of several brokers those of each; auto: by rate, cores and open files.",
            RUN,
        ),
    ] = AUTO_SHARDS
    agents: Annotated[
        tuple[str, ...],
        Option(
            "HOST:PORT of an `ivsim agent` on another machine, which takes its share of the senders; may be given more than"
            " once.",
            RUN,
            word="agent",
            absent="this machine alone",
            effective=(REACHABLE, needs("link", "direct"), OFF_EDGE),
        ),
    ] = ()
    entrance: Annotated[
        str | None,
        Option(
            "Address of this machine at which vehicles of agents find the run's own broker.",
            RUN,
            absent="there is none",
            effective=(needs_some("agents"), OWN_BROKER),
        ),
    ] = None
    agents_only: Annotated[
        bool,
        Option(
            "All senders are on agents, and none is on this machine.", RUN, effective=(needs_some("agents"),)
        ),
    ] = False
    agent_token_file: Annotated[
        str | None,
        Option(
            "File with the token that the agents know.",
            RUN,
            absent="the variable IVSIM_AGENT_TOKEN",
            effective=(needs_some("agents"),),
            metavar="PATH",
        ),
    ] = None
    share: Annotated[
        str | None,
        Option(
            "K/N: send for the K-th of N shares of the fleet alone; runs on other machines send for the others, and"
            " `ivsim report` joins their results.",
            RUN,
            absent="the whole fleet",
            effective=(needs_some("target"), needs("topology", "peer"), needs("link", "direct")),
            metavar="K/N",
        ),
    ] = None
    start_at: Annotated[
        str | None,
        Option(
            "Date and time of the run's second 0, which all shares have alike, by ISO 8601 with its offset from UTC:"
            " 2026-11-30T09:00:00Z, up to an hour from now.",
            RUN,
            absent="as soon as all is ready",
            effective=(needs_some("share"),),
            metavar="TIME",
        ),
    ] = None
    share_results: Annotated[
        str | None,
        Option(
            "s3a://BUCKET/PATH below which the share's result is put at its end, too, as share-K: `ivsim report` of that place"
            " joins all.",
            RUN,
            absent="it stays on this machine",
            effective=(needs_some("share"),),
            metavar="PLACE",
        ),
    ] = None
    pcap: Annotated[
        bool,
        Option(
            "Keep every frame at the vehicles' end in frames.pcap, for `ivsim audit` and Wireshark.",
            RUN,
            effective=(ONE_MACHINE,),
        ),
    ] = False
    faults: Annotated[
        Faults,
        BeforeValidator(_faults),
        Option("Losses on purpose, as JSON; see ivsim.options.Faults.", RUN, absent="none", hidden=True),
    ] = Faults()

    @staticmethod
    def stages_of(words: Sequence[str]) -> tuple[tuple[float, int, int], ...]:
        """Return stages as numbers; ValueError for a word that is none."""
        return tuple(_stage(word) for word in words)

    @field_validator("*", mode="before")
    @classmethod
    def _of_kind(cls, value: Any, info: ValidationInfo) -> Any:
        return of_kind(declared(cls)[str(info.field_name)], value)

    @field_validator("rtt", "shards", mode="before")
    @classmethod
    def _number_or_text(cls, value: Any) -> Any:
        """Accept a number where the text of one stands beside other words."""
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @field_validator("*")
    @classmethod
    def _one_of(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what is not in the option's table."""
        choices = declared(cls)[str(info.field_name)].option.choices
        if choices is not None and value not in (names := list(choices())):
            raise ValueError(f"{shown(value)}: allowed are {', '.join(names)}")
        return value

    @field_validator("mix")
    @classmethod
    def _mix(cls, value: str | None) -> str | None:
        return None if value is None else checked_mix(value)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        return None if value is None else checked_name(value)

    @field_validator("tags")
    @classmethod
    def _tags(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_tags(value)

    @field_validator("agents")
    @classmethod
    def _agents(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        addresses = [str(address_of(text)) for text in value]
        for address in addresses:
            if addresses.count(address) > 1:
                raise ValueError(f"{address}: named twice")
        return value

    @field_validator("kafka")
    @classmethod
    def _kafka(cls, value: str | None) -> str | None:
        if value is None:
            return None
        for word in value.split(","):
            host, _, port = word.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                raise ValueError(
                    f"{shown(value)}: write HOST:PORT, such as localhost:9092, of several by commas"
                )
        return value

    @field_validator("kafka_topic_prefix")
    @classmethod
    def _topic_prefix(cls, value: str) -> str:
        if not _TOPIC_PREFIX.fullmatch(value):
            raise ValueError(f"{shown(value)}: 1 to 100 of A-Z a-z 0-9 . _ -, such as ivsim.")
        return value

    @field_validator("kafka_producer")
    @classmethod
    def _kafka_producer(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return producer_settings(value)

    @field_validator("spark_conf")
    @classmethod
    def _spark_conf(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return spark_settings(value)

    @field_validator("shards")
    @classmethod
    def _shards(cls, value: str) -> str:
        if value == AUTO_SHARDS:
            return value
        if not (
            value.isascii()
            and value.isdecimal()
            and len(value) <= len(str(MAX_SHARDS))
            and 1 <= int(value) <= MAX_SHARDS
        ):
            raise ValueError(f"{shown(value)}: write {AUTO_SHARDS}, or a number from 1 to {MAX_SHARDS}")
        return str(int(value))

    @field_validator("share")
    @classmethod
    def _share(cls, value: str | None) -> str | None:
        return None if value is None else str(share_of(value))

    @field_validator("start_at")
    @classmethod
    def _start_at(cls, value: str | None) -> str | None:
        if value is not None:
            instant_ns(value)
        return value

    @field_validator("spark_master")
    @classmethod
    def _spark_master(cls, value: str | None) -> str | None:
        if value is not None and not _SPARK_MASTER.fullmatch(value):
            raise ValueError(
                f"{shown(value)}: write local[N], cluster[1] to cluster[9], spark://HOST:PORT, k8s://URL or yarn"
            )
        return value

    @field_validator("spark_driver_host")
    @classmethod
    def _spark_driver_host(cls, value: str | None) -> str | None:
        if value is not None and not _HOST.fullmatch(value):
            raise ValueError(f"{shown(value)}: write a name or an address, without a port")
        return value

    @field_validator("spark_checkpoint")
    @classmethod
    def _spark_checkpoint(cls, value: str | None) -> str | None:
        if value is not None and not _URI.fullmatch(value):
            raise ValueError(
                f"{_without_key(value)}: write a URI, such as s3a://BUCKET/PATH or file:///SHARED/PATH"
            )
        if value is not None and value.startswith("s3://"):
            raise ValueError(f"{_without_key(value)}: write s3a://, by which Spark knows an object store")
        if value is not None and Place(value).stored and not STORED.fullmatch(value):
            raise ValueError(f"{_without_key(value)}: {NOT_STORED}")
        return value

    @field_validator("share_results")
    @classmethod
    def _share_results(cls, value: str | None) -> str | None:
        if value is not None and not STORED.fullmatch(value):
            raise ValueError(f"{_without_key(value)}: {NOT_STORED}")
        return value

    @field_validator("history")
    @classmethod
    def _history(cls, value: str | None) -> str | None:
        if value is not None and (not value or ("://" in value and not STORED.fullmatch(value))):
            raise ValueError(
                f"{_without_key(value)}: write a directory, or {NOT_STORED.removeprefix('write ')}"
            )
        return value

    @field_validator("s3_endpoint")
    @classmethod
    def _s3_endpoint(cls, value: str | None) -> str | None:
        if value is not None and not _ENDPOINT.fullmatch(value):
            raise ValueError(
                f"{shown(value)}: write http://HOST:PORT or https://HOST, without a path or a name"
            )
        return value

    @field_validator("trace")
    @classmethod
    def _trace(cls, value: str, info: ValidationInfo) -> str:
        for name in value.split(","):
            problem = None if name in BUNDLED or info.context == PAST else _unreadable(name)
            if problem is not None:
                raise ValueError(
                    f"{shown(name)}: {problem}, and no bundled trace; bundled: {', '.join(BUNDLED)}"
                )
        return value

    @field_validator("rtt")
    @classmethod
    def _rtt(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None or info.context == PAST:
            return value
        if value in BUNDLED:
            if bundled(value).rtt_ms is None:
                names = ", ".join(name for name in BUNDLED if bundled(name).rtt_ms is not None)
                raise ValueError(f"{shown(value)}: has no rtt_ms; bundled traces that have it: {names}")
            return value
        try:
            number = float(value)
        except ValueError:
            problem = _unreadable(value)
            if problem is None:
                return value
            names = ", ".join(BUNDLED)
            raise ValueError(
                f"{shown(value)}: {problem}; write milliseconds, a file, or a bundled trace: {names}"
            ) from None
        if not math.isfinite(number) or not 0 <= number <= MAX_RTT_MS:
            raise ValueError(f"{value}: allowed are 0 to {MAX_RTT_MS} milliseconds")
        return value

    @cached_property
    def traces(self) -> list[Trace]:
        """Return the traces of the run, bundled ones by name, others as files; Refusal names file and line."""
        return [_load(name) for name in self.trace.split(",")]

    @cached_property
    def drives(self) -> VehicleLog | None:
        """Return the recorded drives of the run, None where it has none; Refusal names file and line."""
        if self.vehicle_log is None:
            return None
        return read_log(
            Path(self.vehicle_log), None if self.vehicle_mapping is None else Path(self.vehicle_mapping)
        )

    @cached_property
    def station_table(self) -> Stations | None:
        """Return the stations of the run's query, None where it has none; Refusal names file and line."""
        return None if self.stations is None else read_stations(Path(self.stations))

    @property
    def parts(self) -> tuple[FleetPart, ...]:
        """Return what the run sends for by what vehicles speak: one part, or those of the mix; of a share, its vehicles alone."""
        return fleet_parts(self.protocol, self.mode, self.mix, self.vehicles, self.share)

    @property
    def sending(self) -> int:
        """Return how many vehicles the run sends for: all of the fleet, or those of its share."""
        return sum(len(part.vehicles) for part in self.parts)

    @property
    def start_at_ns(self) -> int | None:
        """Return when second 0 is to be, as Unix time; None for as soon as all is ready."""
        return None if self.start_at is None else instant_ns(self.start_at)

    @property
    def links(self) -> range:
        """Return the numbers of those who have a link of their own: vehicles, or gateways at the edge."""
        if TOPOLOGIES[self.topology].edge:
            return range(FIRST_GATEWAY, FIRST_GATEWAY + self.gateways)
        return range(1, self.vehicles + 1)

    @property
    def spoken(self) -> str:
        """Return what the vehicles speak, for people: `mqtt qos1`, or the mix."""
        return f"{self.protocol} {self.mode}" if self.mix is None else self.mix.replace(",", ", ")


OPTIONS: Final[Mapping[str, Declared]] = declared(RunOptions)


def option_name(field: str) -> str:
    """Return the command-line word of a field, such as `--loss` for `loss_ratio`."""
    return word_of(field, OPTIONS)


def _unreadable(name: str) -> str | None:
    """Return why a word is no file, None when it is one."""
    if not name:
        return "no name"
    try:
        mode = Path(name).stat().st_mode
    except (OSError, ValueError) as error:
        return f"no such file ({getattr(error, 'strerror', None) or error})"
    return None if stat.S_ISREG(mode) else "no file"


def mode_of(protocol: str, words: Mapping[str, Any]) -> str:
    """Return the name of the mode that the `words` given choose (such as qos=1), the default without any.

    Refusal for an unknown protocol, for a word of another protocol, or for a value it does not offer.
    """
    given = {word: value for word, value in words.items() if value is not None}
    return protocol_named(protocol, option_name("protocol")).mode(given).name


def fields_with_mode(fields: Mapping[str, Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's fields with the mode that the words choose; a mix says it itself, and no word goes with it."""
    given = [word for word, value in words.items() if value is not None]
    if fields.get("mix") is None:
        protocol = fields.get("protocol", OPTIONS["protocol"].default)
        return {**fields, "mode": mode_of(protocol, words)}
    if given:
        typed = "--" + given[0].replace("_", "-")
        raise Refusal(f"{typed}: {OPTIONS['mix'].word} says the mode of every vehicle, such as {EXAMPLE!r}")
    return dict(fields)


def own_workers(master: str | None) -> int | None:
    """Return how many workers a Spark cluster of the run's own has, as `cluster[2]` says; None for any other master."""
    found = re.fullmatch(r"cluster\[([1-9])\]", master or "")
    return None if found is None else int(found[1])


def load_traces(options: RunOptions) -> list[Trace]:
    """Return the traces of a run; Refusal names file and line."""
    return options.traces


@cache
def _bundled(name: str) -> Trace:
    return bundled(name)


def _load(name: str) -> Trace:
    return _bundled(name) if name in BUNDLED else read_trace(Path(name))


def fixed_rtt_ms(options: RunOptions) -> float | None:
    """Return `--rtt` in ms where it is a number, None where it is absent or names a bundled trace."""
    rtt = rtt_of(options)
    return rtt if isinstance(rtt, float) else None


def rtt_of(options: RunOptions) -> Trace | float | None:
    """Return what `--rtt` says: a trace that has it, milliseconds, or None for the trace's own.

    Refusal names file and line.
    """
    if options.rtt is None:
        return None
    try:
        return float(options.rtt)
    except ValueError:
        return _load(options.rtt)


def stored_places(options: RunOptions) -> list[Place]:
    """Return the places of a run that are in an object store."""
    named = (options.spark_checkpoint, options.history, options.share_results)
    return [place for one in named if (place := Place(one or "")).stored]


def history_directory(options: RunOptions) -> Path | None:
    """Return the directory of this machine in which the statuses are kept; None where none are, or in a store."""
    if options.history is None or Place(options.history).stored:
        return None
    return Path(options.history).absolute()


def _without_key(place: str) -> str:
    """Return a place as a refusal shows it."""
    return shown(_STORE_KEY.sub("//...@", place))
