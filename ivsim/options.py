"""What a run is asked to do, checked as a whole before anything starts; it starts nothing itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gateways.protocols import PROTOCOLS
from schemas.errors import Refusal
from schemas.formats import FORMATS
from schemas.formats.padded import MAX_BYTES, MIN_BYTES
from schemas.topics import MAX_VEHICLES
from simulator.links import LINKS
from simulator.traces import BUNDLED, DEFAULT, Trace, bundled, read_trace

TRIGGERS = ("realtime", "microbatch")
TOPOLOGIES = ("gateway", "echo")


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


class RunOptions(BaseModel):
    """One run of the testbed; units are in the names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    protocol: str = "mqtt"
    mode: str = "qos1"
    topology: Literal["gateway", "echo"] = "gateway"
    vehicles: int = Field(default=20, ge=1, le=MAX_VEHICLES)
    interval_s: float = Field(default=1.0, gt=0, le=86_400)
    duration_s: float = Field(default=60.0, gt=0, le=7 * 86_400)
    warmup_s: float = Field(default=0.0, ge=0)
    loss_timeout_s: float = Field(default=30.0, gt=0, le=3_600)
    format: str = "protobuf"
    trace: str = DEFAULT
    trace_offsets: bool = True
    jitter_ms: float = Field(default=0.0, ge=0, le=10_000)
    jitter_distribution: Literal["uniform", "normal", "pareto", "paretonormal"] = "normal"
    loss_burst: float | None = Field(default=None, ge=1, le=1_000)
    reorder_ratio: float = Field(default=0.0, ge=0, lt=1)
    duplicate_ratio: float = Field(default=0.0, ge=0, lt=1)
    queue_bytes: int | None = Field(default=None, ge=1_514, lt=2**31)
    rate_factor: float = Field(default=1.0, gt=0, le=1_000)
    loss_ratio: float = Field(default=0.01, ge=0, le=1)
    loss_direction: Literal["both", "uplink", "downlink"] = "both"
    rtt: str | None = None
    link: str = "auto"
    trigger: str = "realtime"
    kafka: str | None = None
    spark_master: str | None = Field(
        default=None, pattern=r"^(local(\[[^\]]+\])?|spark://\S+|yarn|k8s://\S+)$"
    )
    page: bool = False
    page_port: int = Field(default=8080, ge=0, lt=65_536)
    seed: int = Field(default=1, ge=0, lt=2**63)
    gateways: int = Field(default=1, ge=1, le=64)
    early_ack: bool = False
    security: Literal["plain", "tls"] = "plain"
    outage: tuple[tuple[float, float], ...] = ()
    keepalive_s: int = Field(default=60, ge=1, le=65_535)
    outbox_limit: int = Field(default=1_000, ge=1)
    outbox_policy: Literal["drop_oldest", "drop_newest", "block"] = "drop_oldest"
    faults: Faults = Faults()
    # For studies: payloads of a size, and netem on the cloud machine alone, as the protocol paper had it.
    message_bytes: int | None = Field(default=None, ge=MIN_BYTES, le=MAX_BYTES)
    shaping: Literal["both", "cloud_egress"] = "both"

    @field_validator("protocol")
    @classmethod
    def _protocol(cls, value: str) -> str:
        return _one_of(value, PROTOCOLS)

    @field_validator("format")
    @classmethod
    def _format(cls, value: str) -> str:
        return _one_of(value, FORMATS)

    @field_validator("link")
    @classmethod
    def _link(cls, value: str) -> str:
        return _one_of(value, ["auto", *(name for name in LINKS if name != "auto")])

    @field_validator("trigger")
    @classmethod
    def _trigger(cls, value: str) -> str:
        return _one_of(value, TRIGGERS)

    @field_validator("kafka")
    @classmethod
    def _kafka(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ValueError(f"{value!r}: write HOST:PORT, such as localhost:9092")
        return value


def _one_of(value: str, allowed: Any) -> str:
    names = list(allowed)
    if value not in names:
        raise ValueError(f"{value!r}: allowed are {', '.join(names)}")
    return value


# What the command line calls a field, for messages that a person can act upon.
OPTION_NAMES = {
    "interval_s": "interval",
    "keepalive_s": "keepalive",
    "duration_s": "duration",
    "loss_ratio": "loss",
    "warmup_s": "warmup",
    "jitter_ms": "jitter",
    "reorder_ratio": "reorder",
    "duplicate_ratio": "duplicate",
}


def option_name(field: str) -> str:
    """Return the command-line word of a field, such as `--loss` for `loss_ratio`."""
    return "--" + OPTION_NAMES.get(field, field).replace("_", "-")


def run_options(**fields: Any) -> RunOptions:
    """Return the checked options; Refusal with one line that names option, value and what is allowed."""
    try:
        options = RunOptions(**fields)
    except ValidationError as error:
        raise Refusal(_one_line(error)) from None
    if options.mode not in PROTOCOLS[options.protocol].modes:
        modes = ", ".join(PROTOCOLS[options.protocol].modes)
        raise Refusal(f"--mode {options.mode!r}: {options.protocol} has {modes}")
    _check_combination(options)
    if options.warmup_s >= options.duration_s:
        raise Refusal(
            f"--warmup {options.warmup_s:g}: must be shorter than --duration {options.duration_s:g}"
        )
    fixed_rtt_ms(options)
    _check_road(options)
    return options


def _check_road(options: RunOptions) -> None:
    """Refuse what would have no effect: a missing column, a step shorter than a second, an outage that never is."""
    traces = load_traces(options)
    for name, trace in zip(options.trace.split(","), traces, strict=True):
        if trace.duration_s > 1 and min(np.diff(trace.time_s)) < 1 - 1e-6:
            raise Refusal(f"--trace {name}: its steps are shorter than 1 s, in which the road changes")
        if options.rtt is None and trace.rtt_ms is None:
            raise Refusal(
                f"--trace {name}: has no rtt_ms: give --rtt, in milliseconds or as a bundled trace that has it"
            )
    if options.rtt in BUNDLED and bundled(str(options.rtt)).rtt_ms is None:
        names = ", ".join(name for name in BUNDLED if bundled(name).rtt_ms is not None)
        raise Refusal(f"--rtt {options.rtt!r}: has no rtt_ms; bundled traces that have it: {names}")
    rates = (rate for trace in traces for rate in (trace.uplink_kbps, trace.downlink_kbps))
    if options.rate_factor != 1 and all(rate is None for rate in rates):
        raise Refusal(f"--rate-factor {options.rate_factor:g}: {options.trace} has no rate to multiply")
    end_s = options.duration_s + options.loss_timeout_s
    for start_s, length_s in options.outage:
        if start_s % 1 or length_s % 1 or start_s >= end_s:
            raise Refusal(
                f"--outage {start_s:g}:{length_s:g}: whole seconds, starting before the run's end at {end_s:g} s"
            )
    if options.loss_burst is not None and options.loss_ratio > options.loss_burst * (1 - options.loss_ratio):
        raise Refusal(
            f"--loss-burst {options.loss_burst:g}: too short for --loss {options.loss_ratio:g}:"
            " even with one packet between the bursts fewer are lost"
        )
    if options.duplicate_ratio and options.vehicles > 1:
        raise Refusal(
            "--duplicate: needs --vehicles 1; netem duplicates only where it is a device's one qdisc"
        )


def _check_combination(options: RunOptions) -> None:
    """Refuse what no part can do together."""
    if options.security == "tls" and PROTOCOLS[options.protocol].broker is None:
        raise Refusal(f"--security tls: MQTT and AMQP have it, not {options.protocol}")
    if options.message_bytes is not None and options.topology != "echo":
        raise Refusal("--message-bytes: needs --topology echo; the twin cannot decode filler")
    if options.topology == "echo":
        for field, plain in (
            ("security", "plain"),
            ("early_ack", False),
            ("gateways", 1),
            ("kafka", None),
            ("page", False),
        ):
            if getattr(options, field) != plain:
                raise Refusal(f"{option_name(field)}: needs --topology gateway; echo has no gateway")


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else "options"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{option_name(field)} {message}"
    return f"{option_name(field)} {first['input']!r}: {message[:1].lower()}{message[1:]}"


def mode_of(protocol: str, words: dict[str, Any]) -> str:
    """Return the name of the mode that the `words` given choose (such as qos=1), the default without any.

    Refusal for an unknown protocol, for a word of another protocol, or for a value it does not offer.
    """
    if protocol not in PROTOCOLS:
        raise Refusal(f"--protocol {protocol!r}: allowed are {', '.join(PROTOCOLS)}")
    given = {word: value for word, value in words.items() if value is not None}
    return PROTOCOLS[protocol].mode(given).name


def faults_of(text: str) -> Any:
    """Return `--faults` as it is checked later; Refusal when it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refusal(f"--faults: no JSON: {error}") from None


def outage_of(text: str) -> tuple[float, float]:
    """Return start and length of one `--outage`, in seconds."""
    start, _, length = text.partition(":")
    try:
        pair = float(start), float(length)
    except ValueError:
        pair = (-1.0, -1.0)
    if not (0 <= pair[0] < float("inf") and 0 < pair[1] < float("inf")):
        raise Refusal(f"--outage {text!r}: write START:SECONDS, such as 20:10")
    return pair


def load_traces(options: RunOptions) -> list[Trace]:
    """Return the traces of a run, bundled ones by name, others as files; Refusal names file and line."""
    return [_load(name) for name in options.trace.split(",")]


def _load(name: str) -> Trace:
    if name in BUNDLED:
        return bundled(name)
    path = Path(name)
    if not path.is_file():
        raise Refusal(f"--trace {name!r}: no such file, and no bundled trace; bundled: {', '.join(BUNDLED)}")
    return read_trace(path)


def fixed_rtt_ms(options: RunOptions) -> float | None:
    """Return `--rtt` in ms where it is a number, None where it is absent or names a bundled trace."""
    if options.rtt is None or options.rtt in BUNDLED:
        return None
    try:
        value = float(options.rtt)
    except ValueError:
        names = ", ".join(BUNDLED)
        raise Refusal(f"--rtt {options.rtt!r}: write milliseconds, or a bundled trace: {names}") from None
    if not math.isfinite(value) or not 0 <= value <= 60_000:
        raise Refusal(f"--rtt {options.rtt}: allowed are 0 to 60000 milliseconds")
    return value
