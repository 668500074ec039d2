"""What one measurement of a platform is asked: every option once, two profiles of them, and the check of all.

An option is one field of `PipeOptions`. `ivsim pipe` and the axes of studies are made from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from gateways.batching.policies import POLICIES
from ivsim.batching_rules import least_round_trip_ms, no_setting_keeps
from ivsim.option import (
    Declared,
    Naming,
    Need,
    Option,
    declared,
    ineffective,
    needs,
    needs_some,
    none_with,
    of_kind,
    refusal_of,
    shown,
    word_of,
)
from ivsim.option_rules import checked_options
from ivsim.options import RunOptions
from ivsim.study.engines.pipe import link_series
from ivsim.study.engines.pipe.idioms import IDIOMS, every_format, formats_of, needs_registry
from ivsim.study.engines.pipe.kills import BROKER, CONSUMER, PRODUCER, kill_of
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from ivsim.study.engines.pipe.records import RECORDS
from schemas.errors import Refusal
from simulator.links import AUTO, DIRECT, LINKS
from simulator.links.base import DEFAULT_TCP_ALGORITHM, TCP_ALGORITHMS
from simulator.traces import DEFAULT

CONTENT: Final = "Records"
PLATFORM: Final = "Platform"
CLIENTS: Final = "Producers and consumers"
RUN: Final = "Run"
LINK: Final = "Link between producers and platform"
PANELS: Final = (CONTENT, PLATFORM, CLIENTS, LINK, RUN)

MOST_RECORDS: Final = 50_000_000
FIXED: Final = "fixed"
_HTTP: Final = re.compile(r"https?://[^\s/]+\S*")


def _registry(address: str | None) -> str | None:
    if address is not None and not _HTTP.fullmatch(address):
        raise ValueError(f"{shown(address)}: write http://HOST:PORT or https://HOST:PORT")
    return address


def _of_platform(setting: str) -> Need:
    """Return the need of a platform that obeys the setting."""

    def says(options: Any, name: Naming) -> str:
        having = ", ".join(row.name for row in map(platform_named, PLATFORMS) if setting in row.settings)
        return f"has no effect with {name('platform')} {options.platform}, only with {having}"

    return Need(lambda options: setting in platform_named(options.platform).settings, says)


WAITS = Need(
    lambda options: options.linger_ms > 0,
    lambda _options, name: f"has no effect with {name('linger_ms')} 0: no batch waits to be filled",
)
NAMES_SCHEMA = Need(
    lambda options: options.format in IDIOMS and needs_registry(options.record, options.format),
    lambda options, name: (
        f"has no effect with {name('format')} {options.format}: its payloads name no schema"
    ),
)
LINKED = Need(lambda options: options.link is not None, lambda _options, name: f"needs {name('link')}")
EMULATED = none_with("link", DIRECT)
OPEN_LOOP = Need(
    lambda options: options.rate is not None or options.load_ratio is not None,
    lambda _options, name: f"needs {name('rate')}",
)
CHOOSES = Need(
    lambda options: options.batching in POLICIES and POLICIES[options.batching].rule is not None,
    lambda options, name: f"has no effect with {name('batching')} {options.batching}: nothing is chosen anew",
)
LOSING = Need(lambda options: options.loss_ratio > 0, lambda _options, name: f"needs {name('loss_ratio')}")


class PipeOptions(BaseModel):
    """One measurement: what is sent through which platform, how, and how fast; the defaults are the neutral profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platform: Annotated[
        str, Option("What the records go through.", PLATFORM, choices=lambda: PLATFORMS, axis="platform")
    ] = "kafka"
    profile: Annotated[
        Literal["neutral", "document", "document-single"],
        Option(
            "Settings that are not given: neutral, or those of the Kafka formats thesis, batched or one by one.",
            PLATFORM,
            axis="profile",
        ),
    ] = "neutral"
    record: Annotated[
        str,
        Option(
            "What a record holds: CurrentStatus of driven vehicles, 32, 152 or 302 columns, or random bytes, 500 to 600,000.",
            CONTENT,
            choices=lambda: RECORDS,
            axis="record",
        ),
    ] = "current_status"
    format: Annotated[
        str,
        Option(
            "Format, or idiom of one; current_status has json to small, columns all but small, bytes are raw.",
            CONTENT,
            choices=every_format,
            axis="format",
        ),
    ] = "protobuf"
    content: Annotated[
        Literal["built", "prebuilt", "encoded"],
        Option(
            "What is done while the clock runs: build and encode, encode what was built before, or neither.",
            CONTENT,
            axis="content",
        ),
    ] = "built"
    registry: Annotated[
        str | None,
        AfterValidator(_registry),
        Option(
            "Address of a schema registry that speaks Confluent's REST API, for formats that need one.",
            CONTENT,
            absent="one of the measurement's own",
            effective=(NAMES_SCHEMA,),
        ),
    ] = None
    different: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        Option("Different records; they are sent in turn.", CONTENT, axis="different"),
    ] = 1_000
    codec: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        Option("Compression of batches.", PLATFORM, axis="codec", effective=(_of_platform("codec"),)),
    ] = "none"
    acks: Annotated[
        Literal["0", "1", "all"],
        Option(
            "Acknowledgement: none, by the leader, by all replicas in sync.",
            PLATFORM,
            axis="acks",
            effective=(_of_platform("acks"),),
        ),
    ] = "all"
    durability: Annotated[
        Literal["cache", "synced"],
        Option(
            "What a platform acknowledges: what the operating system has (lost in a power cut), or what the disk has.",
            PLATFORM,
            axis="durability",
            effective=(_of_platform("durability"),),
        ),
    ] = "cache"
    idempotence: Annotated[
        bool,
        Option(
            "Repeated requests leave no duplicate.",
            PLATFORM,
            negative="no-idempotence",
            axis="idempotence",
            effective=(_of_platform("idempotence"),),
        ),
    ] = False
    linger_ms: Annotated[
        float,
        Field(ge=0, le=60_000),
        Option(
            "Longest wait of a record for others in its batch.",
            PLATFORM,
            "ms",
            word="linger",
            axis="linger",
            effective=(_of_platform("linger_ms"),),
        ),
    ] = 5.0
    batch_bytes: Annotated[
        int,
        Field(ge=1, le=10_000_000),
        Option(
            "Largest batch.",
            PLATFORM,
            "bytes",
            axis="batch_bytes",
            effective=(_of_platform("batch_bytes"), WAITS),
        ),
    ] = 1_000_000
    batch_messages: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        Option(
            "Most records of a batch; 1 with a linger of 0 is truly one by one.",
            PLATFORM,
            "messages",
            off=1,
            axis="batch_messages",
            effective=(_of_platform("batch_messages"), WAITS),
        ),
    ] = 10_000
    batching: Annotated[
        str,
        Option(
            "What chooses linger and count of the batches: nothing, or a gateway's policy, anew each period.",
            PLATFORM,
            choices=lambda: POLICIES,
            off=FIXED,
            axis="batching",
            effective=(_of_platform("batching"), OPEN_LOOP, WAITS),
        ),
    ] = FIXED
    batch_period_s: Annotated[
        float,
        Field(gt=0, le=600),
        Option(
            "Time between two choices of the policy.",
            PLATFORM,
            "s",
            word="batch-period",
            axis="batch_period",
            effective=(CHOOSES,),
        ),
    ] = 10.0
    in_flight: Annotated[
        int | None,
        Field(ge=1, le=1_000_000),
        Option(
            "Requests of a producer to a broker that may wait for an answer.",
            PLATFORM,
            absent="the library's own",
            axis="in_flight",
            effective=(_of_platform("in_flight"),),
        ),
    ] = None
    queue_messages: Annotated[
        int | None,
        Field(ge=1, le=1_000_000),
        Option(
            "Records that a producer's library holds before it takes no more.",
            PLATFORM,
            "messages",
            absent="100,000",
            axis="queue_messages",
            effective=(_of_platform("queue_messages"),),
        ),
    ] = None
    expiry_ms: Annotated[
        int | None,
        Field(ge=1, le=900_000),
        Option(
            "Age at which a producer gives up a record that has no answer.",
            PLATFORM,
            "ms",
            word="expiry",
            absent="the library's own",
            axis="expiry",
            effective=(_of_platform("expiry_ms"),),
        ),
    ] = None
    partitions: Annotated[
        int, Field(ge=1, le=100), Option("Partitions of the topic.", PLATFORM, axis="partitions")
    ] = 3
    brokers: Annotated[
        int,
        Field(ge=1, le=3),
        Option(
            "Brokers of the platform, each a process of its own.",
            PLATFORM,
            off=1,
            axis="brokers",
            effective=(_of_platform("brokers"),),
        ),
    ] = 1
    replication: Annotated[
        int,
        Field(ge=1, le=3),
        Option(
            "Brokers that keep each record.",
            PLATFORM,
            off=1,
            axis="replication",
            effective=(_of_platform("replication"),),
        ),
    ] = 1
    min_insync: Annotated[
        int,
        Field(ge=1, le=3),
        Option(
            "Replicas in sync below which nothing is acknowledged.",
            PLATFORM,
            off=1,
            axis="min_insync",
            effective=(_of_platform("min_insync"), needs("acks", "all")),
        ),
    ] = 1
    security: Annotated[
        Literal["plain", "tls"],
        Option(
            "Between clients and platform: plain, or TLS with a certificate of the platform.",
            PLATFORM,
            off="plain",
            axis="security",
            effective=(_of_platform("security"),),
        ),
    ] = "plain"
    partitioner: Annotated[
        Literal["spread", "sticky", "key", "own"],
        Option(
            "Which partition: in turn, the library's own choice without a key, by a key, or one for each producer.",
            PLATFORM,
            axis="partitioner",
            effective=(_of_platform("partitioner"),),
        ),
    ] = "spread"
    producers: Annotated[
        int, Field(ge=1, le=16), Option("Producer processes.", CLIENTS, axis="producers")
    ] = 1
    consumers: Annotated[
        int,
        Field(ge=1, le=16),
        Option("Consumer processes, partitions shared out evenly.", CLIENTS, axis="consumers"),
    ] = 1
    take: Annotated[
        Literal["first", "full"],
        Option(
            "When a consumer's call returns: at the first record, with what else is there, or when it is full.",
            CLIENTS,
            axis="take",
        ),
    ] = "first"
    take_records: Annotated[
        int,
        Field(ge=1, le=100_000),
        Option("Most records of a consumer's call.", CLIENTS, axis="take_records"),
    ] = 500
    take_ms: Annotated[
        float,
        Field(ge=1, le=60_000),
        Option("Longest wait of a consumer's call.", CLIENTS, "ms", word="take-wait", axis="take_wait"),
    ] = 100.0
    commit: Annotated[
        Literal["none", "call", "record"],
        Option(
            "When a consumer says how far it has read.",
            CLIENTS,
            axis="commit",
            effective=(_of_platform("commit"),),
        ),
    ] = "none"
    link: Annotated[
        str | None,
        Option(
            "Producers in a namespace of their own behind an emulated link, platform and consumers at its other end;"
            " direct is the control, without emulation.",
            LINK,
            choices=lambda: (AUTO, *LINKS),
            absent="loopback",
            axis="link",
            effective=(_of_platform("link"),),
        ),
    ] = None
    trace: Annotated[
        str,
        Option(
            "A bundled trace (ivsim trace list) or a file, from its beginning on.",
            LINK,
            axis="trace",
            effective=(LINKED, EMULATED),
        ),
    ] = DEFAULT
    rtt: Annotated[
        str | None,
        Option(
            "Round-trip time in ms, or a trace that has it: a bundled one, or a file.",
            LINK,
            "ms",
            absent="the trace's own",
            axis="rtt",
            effective=(LINKED, EMULATED),
        ),
    ] = None
    loss_ratio: Annotated[
        float,
        Field(ge=0, le=1),
        Option(
            "Share of packets lost in each direction, where the trace has no column of losses.",
            LINK,
            "ratio",
            word="loss",
            off=0.0,
            axis="loss",
            effective=(LINKED, EMULATED),
        ),
    ] = 0.0
    loss_direction: Annotated[
        Literal["both", "uplink", "downlink"],
        Option("Which direction loses.", LINK, axis="loss_direction", effective=(LINKED, EMULATED, LOSING)),
    ] = "both"
    loss_burst: Annotated[
        float | None,
        Field(ge=1, le=1_000),
        Option(
            "Mean length of a burst of losses (Gilbert-Elliott).",
            LINK,
            "packets",
            absent="each packet is lost by itself",
            axis="loss_burst",
            effective=(LINKED, EMULATED, LOSING),
        ),
    ] = None
    link_varies: Annotated[
        bool,
        Option(
            "Path delay drawn anew each second (Pareto, with the mean asked for), and a loss between 0 and twice the"
            " one asked for, held for seconds; from the seed.",
            LINK,
            axis="link_varies",
            effective=(LINKED, EMULATED, LOSING, needs_some("rtt")),
        ),
    ] = False
    tcp: Annotated[
        str,
        Option(
            "Congestion control of TCP across the link, at both ends.",
            LINK,
            choices=lambda: TCP_ALGORITHMS,
            axis="tcp",
            effective=(LINKED,),
        ),
    ] = DEFAULT_TCP_ALGORITHM
    rate: Annotated[
        float | None,
        Field(gt=0, le=1_000_000),
        Option(
            "Records due each second, of all producers together, sent when due whatever became of the others.",
            RUN,
            absent="as fast as it goes",
            axis="rate",
        ),
    ] = None
    load_ratio: Annotated[
        float | None,
        Field(gt=0, lt=1),
        Option(
            "Rate as a share of what comes through at full speed, which is measured just before for as long.",
            RUN,
            "ratio",
            absent="none",
            axis="load_ratio",
        ),
    ] = None
    arrivals: Annotated[
        Literal["even", "poisson"],
        Option(
            "When records are due: at even intervals, or as a Poisson process of each producer.",
            RUN,
            axis="arrivals",
            effective=(OPEN_LOOP,),
        ),
    ] = "even"
    limit_ms: Annotated[
        float | None,
        Field(gt=0, le=600_000),
        Option(
            "Latency up to which a record is in time; batching policies keep to it.",
            RUN,
            "ms",
            word="limit",
            absent="none",
            axis="limit",
            effective=(OPEN_LOOP,),
        ),
    ] = None
    duration_s: Annotated[
        float,
        Field(gt=0, le=86_400),
        Option("How long records are sent.", RUN, "s", word="duration", axis="duration"),
    ] = 10.0
    warmup_s: Annotated[
        float,
        Field(ge=0, le=3_600),
        Option("Beginning that is sent and not measured.", RUN, "s", word="warmup", axis="warmup"),
    ] = 2.0
    emission_limit_ms: Annotated[
        float,
        Field(gt=0, le=60_000),
        Option(
            "Emission lag, p99, from which the load was not what was asked for.",
            RUN,
            "ms",
            word="emission-limit",
            effective=(OPEN_LOOP,),
        ),
    ] = 5.0
    kill: Annotated[
        str | None,
        Option(
            "A kill -9 while records are sent, such as consumer@5s; who is killed is started again at once.",
            RUN,
            absent="none",
            axis="kill",
            effective=(OPEN_LOOP,),
        ),
    ] = None
    seed: Annotated[int, Field(ge=0), Option("What the records are drawn from.", RUN)] = 1

    @field_validator("*", mode="before")
    @classmethod
    def _of_kind(cls, value: Any, info: ValidationInfo) -> Any:
        return of_kind(declared(cls)[str(info.field_name)], value)


OPTIONS: Final[Mapping[str, Declared]] = declared(PipeOptions)

# What the thesis had (B: batched) and what it left to its library's defaults (O: one by one).
_DOCUMENT: Final = {
    "acks": "1",
    "codec": "snappy",
    "linger_ms": 100.0,
    "batch_bytes": 100_000,
    "partitioner": "sticky",
    "consumers": 3,
    "take": "full",
    "take_records": 5_000,
    "take_ms": 100.0,
    "commit": "call",
}
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "neutral": {},
        "document": _DOCUMENT,
        "document-single": {
            **_DOCUMENT,
            "linger_ms": 5.0,
            "batch_bytes": 1_000_000,
            "take": "first",
            "take_records": 1,
            "take_ms": 1_000.0,
        },
    }
)


def option_name(field: str) -> str:
    """Return the command-line word of a field, such as `--linger` for `linger_ms`."""
    return word_of(field, OPTIONS)


def pipe_options(given: Mapping[str, Any], naming: Naming = option_name) -> PipeOptions:
    """Return the checked options; Refusal with one line that names option, value and what is allowed.

    What is not given comes from the profile. What was given and has no effect is refused.
    """
    options = _validated(given, naming)
    for found in ineffective(options, OPTIONS, naming):
        # What a profile sets is no wish: without effect it is merely not there.
        if found.field in given:
            raise Refusal(found.refusal)
    for rule in _RULES:
        for problem in rule(options, naming):
            raise Refusal(problem)
    return options


def _validated(given: Mapping[str, Any], naming: Naming) -> PipeOptions:
    profile = PROFILES.get(str(given.get("profile", "neutral")), {})
    try:
        return PipeOptions.model_validate({**profile, **given})
    except ValidationError as error:
        raise Refusal(refusal_of(error, OPTIONS, naming)) from None


def link_options(options: PipeOptions, naming: Naming = option_name) -> RunOptions | None:
    """Return what the link between producers and platform is asked, as a run of one vehicle says it; None without one.

    Refusal where there can be no such link.
    """
    if options.link is None:
        return None
    asked: dict[str, Any] = {"vehicles": 1, "trace_offsets": False, "link": options.link, "tcp": options.tcp}
    if options.link == DIRECT:
        asked.pop("trace_offsets")
    else:
        asked |= {"trace": options.trace, "rtt": options.rtt, "loss_ratio": options.loss_ratio}
        if options.loss_ratio:
            asked |= {"loss_direction": options.loss_direction, "loss_burst": options.loss_burst}
    return checked_options(asked, naming)


def _linked(options: PipeOptions, name: Naming) -> Iterator[str]:
    try:
        link_options(options, name)
    except Refusal as refusal:
        yield str(refusal)


def _choices(options: PipeOptions, name: Naming) -> Iterator[str]:
    for field in ("platform", "record", "tcp", "batching", *(("link",) if options.link is not None else ())):
        value = getattr(options, field)
        if value not in OPTIONS[field].choices:
            yield f"{name(field)} {shown(value)}: allowed are {', '.join(OPTIONS[field].choices)}"
            return
    if options.format not in formats_of(options.record):
        allowed = ", ".join(formats_of(options.record))
        yield f"{name('format')} {shown(options.format)}: {name('record')} {options.record} has {allowed}"


def _together(options: PipeOptions, name: Naming) -> Iterator[str]:
    if options.idempotence and options.acks != "all":
        yield f"{name('idempotence')}: needs {name('acks')} all, not {options.acks}"
    if options.consumers > options.partitions:
        yield (
            f"{name('consumers')} {options.consumers}: more than {name('partitions')} {options.partitions}:"
            " a consumer without a partition would read nothing"
        )
    if options.replication > options.brokers:
        yield (
            f"{name('replication')} {options.replication}: more than {name('brokers')} {options.brokers}:"
            " each of them keeps a record once"
        )
    if options.min_insync > options.replication:
        yield (
            f"{name('min_insync')} {options.min_insync}: more than {name('replication')} {options.replication}:"
            " nothing would ever be acknowledged"
        )
    if options.rate is not None and options.load_ratio is not None:
        yield f"{name('load_ratio')} {options.load_ratio:g}: has no effect with {name('rate')} {options.rate:g}"
    if options.warmup_s >= options.duration_s:
        yield (
            f"{name('warmup_s')} {options.warmup_s:g}: must be shorter than"
            f" {name('duration_s')} {options.duration_s:g}"
        )


def _obeyed(options: PipeOptions, name: Naming) -> Iterator[str]:
    row = platform_named(options.platform)
    found = row.refuses(options.model_dump(mode="json"))
    if found is not None:
        setting, allowed = found
        yield f"{name(setting)} {getattr(options, setting)}: with {name('platform')} {row.name} {allowed}"


def _amount(options: PipeOptions, name: Naming) -> Iterator[str]:
    if options.rate is None:
        return
    due = options.rate * options.duration_s
    if due > MOST_RECORDS:
        yield f"{name('rate')} {options.rate:g}: {due:,.0f} records in all; at most {MOST_RECORDS:,} are kept"
    if options.rate * (options.duration_s - options.warmup_s) < 1:
        yield f"{name('rate')} {options.rate:g}: no record would be due after the warm-up"


def _kill(options: PipeOptions, name: Naming) -> Iterator[str]:
    if options.kill is None:
        return
    try:
        kill = kill_of(options.kill)
    except ValueError as error:
        yield f"{name('kill')} {options.kill!r}: {error}"
        return
    brokers = options.brokers if platform_named(options.platform).has_brokers else 0
    there = {PRODUCER: options.producers, CONSUMER: options.consumers, BROKER: brokers}[kill.role]
    if not there:
        yield f"{name('kill')} {options.kill}: {name('platform')} {options.platform} has no {kill.role}"
    elif kill.which >= there:
        yield f"{name('kill')} {options.kill}: there is {there} {kill.role}, counted from 0"
    elif not 0 < kill.at_s < options.duration_s:
        yield f"{name('kill')} {options.kill}: must lie within {name('duration_s')} {options.duration_s:g}"


def _batches(options: PipeOptions, name: Naming) -> Iterator[str]:
    """What a policy cannot choose for; its period against its limit is the controller's own rule."""
    if not CHOOSES.holds(options):
        return
    from gateways.batching.model import IN_FLIGHT  # noqa: PLC0415 - SciPy, which no other option needs

    if options.limit_ms is None:
        yield f"{name('batching')} {options.batching}: needs {name('limit_ms')}"
        return
    if options.in_flight != IN_FLIGHT and not options.idempotence:
        yield (
            f"{name('batching')} {options.batching}: needs {name('in_flight')} {IN_FLIGHT}, by which it predicts"
            " what is carried"
        )
    if options.partitioner != "own":
        yield f"{name('batching')} {options.batching}: needs {name('partitioner')} own, not {options.partitioner}"
    longest_ms = max(options.limit_ms, options.linger_ms)
    if options.batch_period_s * 1e3 <= longest_ms:
        yield (
            f"{name('batch_period_s')} {options.batch_period_s:g}: shorter than a batch, which may wait"
            f" {longest_ms:g} ms; it must be longer"
        )
    asked = link_options(options, name)
    if asked is None:
        return
    least_ms = least_round_trip_ms(asked)
    if options.link_varies:
        least_ms = link_series.least_round_trip_ms(least_ms)
    if options.limit_ms <= least_ms:
        yield no_setting_keeps(name("limit_ms"), options.limit_ms, least_ms)


def _own_partitions(options: PipeOptions, name: Naming) -> Iterator[str]:
    if options.partitioner == "own" and options.producers > options.partitions:
        yield (
            f"{name('partitioner')} own: {name('producers')} {options.producers} are more than"
            f" {name('partitions')} {options.partitions}"
        )


def is_number(text: str | None) -> bool:
    """Return whether a round trip was said as a number, and not as a trace."""
    try:
        float(text or "")
    except ValueError:
        return False
    return True


def _varied(options: PipeOptions, name: Naming) -> Iterator[str]:
    """The series has delay and loss alone, in the place of the trace's."""
    if not options.link_varies:
        return
    if not is_number(options.rtt):
        yield f"{name('link_varies')}: needs {name('rtt')} as a number of ms, not {options.rtt}"
        return
    asked = link_options(options, name)
    if asked is not None and any(
        trace.uplink_kbps is not None or trace.downlink_kbps is not None for trace in asked.traces
    ):
        yield f"{name('link_varies')}: {name('trace')} {options.trace} has rates; it must have delays alone"


_RULES: Final = (_choices, _linked, _together, _own_partitions, _batches, _obeyed, _amount, _kill, _varied)
