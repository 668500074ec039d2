"""The check of a run's options as a whole, before anything starts: what they must be to one another.

What one option may be by itself is said where it is declared, in `options.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from gateways.protocols import PROTOCOLS
from gateways.sinks import KAFKA
from ivsim.agent_rules import agents_can_reach, agents_have_work, agents_need_no_files
from ivsim.batching_rules import batch_limits, batch_periods
from ivsim.option import Naming, ineffective, refusal_of, shown
from ivsim.options import AUTO_SHARDS, OPTIONS, PAST, RunOptions, option_name, rtt_of, stored_places
from ivsim.share import share_of
from ivsim.target import SCHEMES, parse
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.formats import FORMATS
from simulator.traces import Trace
from twin.queries import QUERIES

# What a ledger with a row a message still fits into memory with; more would be sent for hours before that is seen.
MAX_MESSAGES: Final = 100_000_000


def run_options(**fields: Any) -> RunOptions:
    """Return the checked options; Refusal with one line that names option, value and what is allowed."""
    return checked_options(fields, option_name)


def checked_options(fields: Mapping[str, Any], naming: Naming) -> RunOptions:
    """Return options that a run can have and that each have an effect; Refusal names them by `naming`."""
    options = possible_options(fields, naming)
    for found in ineffective(options, OPTIONS, naming):
        raise Refusal(found.refusal)
    return options


def possible_options(fields: Mapping[str, Any], naming: Naming) -> RunOptions:
    """Return options that a run can have, whether or not each has an effect; Refusal names them by `naming`."""
    try:
        options = RunOptions(**fields)
    except ValidationError as error:
        raise Refusal(refusal_of(error, OPTIONS, naming)) from None
    for rule in _RULES:
        for problem in rule(options, naming):
            raise Refusal(problem)
    return options


def past_options(fields: Mapping[str, Any]) -> RunOptions:
    """Return the options of a run that was, whose files nobody looks for; Refusal for one that this version does not know."""
    try:
        return RunOptions.model_validate(dict(fields), context=PAST)
    except ValidationError as error:
        raise Refusal(refusal_of(error, OPTIONS, option_name)) from None


def _mode(options: RunOptions, name: Naming) -> Iterator[str]:
    modes = PROTOCOLS[options.protocol].modes
    if options.mode not in modes:
        yield f"{name('mode')} {shown(options.mode)}: {options.protocol} has {', '.join(modes)}"


def _mix(options: RunOptions, name: Naming) -> Iterator[str]:
    if options.mix is None:
        return
    for part in options.parts:
        if not part.vehicles:
            yield f"{name('mix')} {options.mix!r}: {name('vehicles')} {options.vehicles} leave none for {part.words}"
        elif options.shards != AUTO_SHARDS and int(options.shards) > len(part.vehicles):
            yield (
                f"{name('shards')} {options.shards}: each needs a vehicle at least, and {part.words} has"
                f" {len(part.vehicles)} of {name('vehicles')} {options.vehicles}"
            )


def _window(options: RunOptions, name: Naming) -> Iterator[str]:
    if options.warmup_s >= options.duration_s:
        yield (
            f"{name('warmup_s')} {options.warmup_s:g}: must be shorter than"
            f" {name('duration_s')} {options.duration_s:g}"
        )


def _copies(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse copies on more brokers than there are, or more in step than there are copies."""
    if options.kafka is None and options.kafka_replication > options.kafka_brokers:
        yield (
            f"{name('kafka_replication')} {options.kafka_replication}: at most"
            f" {name('kafka_brokers')} {options.kafka_brokers}"
        )
    if options.kafka_min_insync > options.kafka_replication:
        yield (
            f"{name('kafka_min_insync')} {options.kafka_min_insync}: at most"
            f" {name('kafka_replication')} {options.kafka_replication}"
        )


def _target(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a target that is none, another protocol's, or beside what says the same in other words."""
    if options.target is None:
        return
    try:
        target = parse(options.target)
    except ValueError as error:
        yield f"{name('target')} {error}"
        return
    if options.mix is not None:
        yield f"{name('mix')} {options.mix!r}: not with {name('target')}, which is one broker"
    elif target.protocol != options.protocol:
        yield f"{name('target')} {options.target}: {name('protocol')} {options.protocol} needs one of {_urls(options)}"
    if options.security != "plain":
        yield f"{name('security')} {options.security}: {name('target')} says it: {', '.join(SCHEMES)}"
    for field, securities in _TARGET_CREDENTIALS.items():
        if getattr(options, field) is not None and target.security not in securities:
            yield f"{name(field)} {getattr(options, field)}: has no effect with {name('target')} {options.target}"
    if target.security == "dtls-psk" and options.target_keys is None:
        yield f"{name('target')} {options.target}: needs {name('target_keys')}, a key for each vehicle"
    topology = TOPOLOGIES[options.topology]
    if PROTOCOLS[target.protocol].broker is None and (topology.bridged or topology.echoed):
        yield f"{name('target')} {options.target}: needs {name('topology')} peer: it stands in the gateway's place"


# What shows who a client is, to the securities of targets that have a use for it.
_TARGET_CREDENTIALS: Final = {
    "target_ca": {"tls"},
    "target_certificates": {"tls"},
    "target_accounts": {"plain", "tls"},
    "target_keys": {"dtls-psk"},
}


def _peer(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a way that ends at the peer without one, or where the peer says nothing."""
    topology = TOPOLOGIES[options.topology]
    if topology.bridged or topology.echoed:
        return
    if options.target is None:
        yield f"{name('topology')} {options.topology}: needs {name('target')}"
    for part in options.parts:
        if not part.mode.acknowledged:
            yield (
                f"{name('topology')} {options.topology}: nothing is seen with {part.protocol.name} {part.mode.name},"
                " which nobody acknowledges"
            )


def _urls(options: RunOptions) -> str:
    return ", ".join(f"{one}://" for one in PROTOCOLS[options.protocol].schemes)


def _messages(options: RunOptions, name: Naming) -> Iterator[str]:
    due = options.vehicles * options.duration_s / options.interval_s
    if due > MAX_MESSAGES:
        yield (
            f"{name('interval_s')} {options.interval_s:g}: {due:.3g} messages would be due of {name('vehicles')}"
            f" {options.vehicles} in {name('duration_s')} {options.duration_s:g}; a run takes up to {MAX_MESSAGES:g}"
        )


def _columns(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a trace without what the link needs, and one that no vehicle drives."""
    rtt = rtt_of(options)
    if isinstance(rtt, Trace) and rtt.rtt_ms is None:
        yield f"{name('rtt')} {options.rtt}: has no rtt_ms"
    names = options.trace.split(",")
    if len(names) > len(options.links):
        whose = "gateways" if TOPOLOGIES[options.topology].edge else "vehicles"
        yield f"{name('trace')} {options.trace}: {len(names)} traces need as many {name(whose)}, one each"
    for word, trace in zip(names, options.traces, strict=True):
        if trace.duration_s > 1 and min(np.diff(trace.time_s)) < 1 - 1e-6:
            yield f"{name('trace')} {word}: its steps are shorter than 1 s, in which the link changes"
        if options.rtt is None and trace.rtt_ms is None:
            yield (
                f"{name('trace')} {word}: has no rtt_ms: give {name('rtt')}, in milliseconds or as a bundled trace"
                " that has it"
            )


def _drives(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a drive that is over before the run is: what comes behind it nobody has recorded."""
    if options.drives is None:
        return
    for drive in options.drives.drives[: options.vehicles]:
        if drive.length_ns < options.duration_s * 1e9:
            yield (
                f"{name('vehicle_log')} {options.vehicle_log}: the drive of {drive.vehicle!r} lasts"
                f" {drive.length_ns / 1e9:g} s, and {name('duration_s')} is {options.duration_s:g}"
            )
            return


def _platform(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse sequences that wrap where a gateway cannot read how far the one before it had come."""
    if options.platform != KAFKA and FORMATS[options.format].sequence_modulus is not None:
        yield f"{name('format')} {options.format}: its sequences wrap, which needs {name('platform')} {KAFKA}"


def _query(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a query without its stations, and one whose tasks would run where our decoders are not."""
    if options.query == "none":
        return
    if QUERIES[options.query].needs_stations and options.station_table is None:
        yield f"{name('query')} {options.query}: needs {name('stations')}"
    master = options.spark_master
    if master is not None and not master.startswith("local"):
        yield (
            f"{name('query')} {options.query}: needs {name('spark_master')} local[N], not {master}: its tasks decode"
            " messages in Python"
        )


# Of masters the one whose executors may be on this machine alone.
_ON_THIS_MACHINE: Final = re.compile(r"spark://(127\.|localhost\b|\[::1\])")


def _spark_cluster(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse words of a cluster without one, places that its executors do not reach, and a store without a place in it."""
    master = options.spark_master or "local"
    if not TOPOLOGIES[options.topology].bridged:
        return
    if options.spark_driver_host is not None and master.startswith(("local", "cluster[")):
        yield (
            f"{name('spark_driver_host')}: needs {name('spark_master')} of another's cluster, such as spark://HOST:7077"
        )
    place = options.spark_checkpoint or ""
    if place.startswith("file:") and master.startswith("cluster["):
        yield (
            f"{name('spark_checkpoint')} {place}: not with {name('spark_master')} {master}, whose workers do not see this"
            " machine's files"
        )
    if options.s3_endpoint is not None and not stored_places(options):
        yield f"{name('s3_endpoint')}: needs {name('spark_checkpoint')} or {name('history')} s3a://BUCKET/PATH"


def _executors_reach(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a cluster whose executors do not reach the twins' state or the driver."""
    master = options.spark_master or "local"
    if not TOPOLOGIES[options.topology].bridged or master.startswith("local"):
        return
    typed = f"{name('spark_master')} {master}"
    if master.startswith("cluster["):
        return
    if options.spark_checkpoint is None:
        yield (
            f"{typed}: needs {name('spark_checkpoint')}, a URI that its executors reach, such as"
            " s3a://BUCKET/PATH: each would keep the twins' state on a disk of its own"
        )
    if not _ON_THIS_MACHINE.match(master):
        if options.spark_driver_host is None:
            yield f"{typed}: needs {name('spark_driver_host')}, this machine's address for its executors"
        if options.kafka is None:
            yield f"{typed}: needs {name('kafka')}: its executors do not reach the run's own Kafka"


def _outage_in_run(options: RunOptions, name: Naming) -> Iterator[str]:
    end_s = options.duration_s + options.loss_timeout_s
    for start_s, length_s in options.outage:
        if start_s % 1 or length_s % 1 or start_s >= end_s:
            yield (
                f"{name('outage')} {start_s:g}:{length_s:g}: whole seconds, starting before the run's end at"
                f" {end_s:g} s"
            )


def _outage_while_connecting(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse an outage in second 0, by whose conditions vehicles connect that do so at a rate."""
    if options.connect_rate_per_s is not None and any(start_s < 1 for start_s, _ in options.outage):
        yield (
            f"{name('connect_rate_per_s')} {options.connect_rate_per_s:g}: vehicles connect over the link as it is in"
            f" second 0, and {name('outage')} begins there"
        )


def _stages_fit(options: RunOptions, name: Naming) -> Iterator[str]:
    if not options.stages:
        return
    total_s = sum(length_s for length_s, _, _ in options.stages)
    counts = [count for _, begin, end in options.stages for count in (begin, end)]
    if any(length_s <= 0 for length_s, _, _ in options.stages):
        yield f"{name('stages')}: a stage lasts longer than 0 s"
    elif abs(total_s - options.duration_s) >= 1e-9:
        yield f"{name('stages')}: they last {total_s:g} s, and {name('duration_s')} is {options.duration_s:g}"
    elif min(counts) < 0 or max(counts) != options.vehicles:
        yield (
            f"{name('stages')}: {name('vehicles')} is {options.vehicles}, and must be the most that send in a stage,"
            f" {max(counts)}"
        )


def _shards_have_vehicles(options: RunOptions, name: Naming) -> Iterator[str]:
    if options.shards != AUTO_SHARDS and int(options.shards) > options.sending:
        of = f"{name('vehicles')} is {options.vehicles}"
        if options.share is not None:
            of = f"{name('share')} {options.share} of {name('vehicles')} {options.vehicles} has {options.sending}"
        yield f"{name('shards')} {options.shards}: each needs a vehicle at least: {of}"


def _share(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a share that the others could not be told from, or joined with."""
    if options.share is None:
        return
    given = f"{name('share')} {options.share}"
    if options.start_at is None:
        yield f"{given}: needs {name('start_at')}, one time for all shares"
    if options.agents:
        yield f"{name('agents')} {options.agents[0]}: not with {given}: a share is one machine's"
    if share_of(options.share).total > options.vehicles:
        yield f"{given}: each needs a vehicle at least: {name('vehicles')} is {options.vehicles}"


def _edge(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse gateways at the edge without a vehicle, and more senders than one of them has vehicles."""
    if not TOPOLOGIES[options.topology].edge:
        return
    fewest = options.vehicles // options.gateways
    if not fewest:
        yield (
            f"{name('gateways')} {options.gateways}: each needs a vehicle of its own with {name('topology')}"
            f" {options.topology}: {name('vehicles')} is {options.vehicles}"
        )
    elif options.shards != AUTO_SHARDS and int(options.shards) > fewest:
        yield (
            f"{name('shards')} {options.shards}: each needs a vehicle at least, and a gateway has {fewest} of"
            f" {name('vehicles')} {options.vehicles}"
        )


def _brokers_have_vehicles(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse brokers without a vehicle, and more senders than one of them has vehicles."""
    if options.brokers == 1:
        return
    for part in options.parts:
        if part.protocol.broker is None:
            continue
        fewest = len(part.vehicles) // options.brokers
        whose = f"{part.words} has {len(part.vehicles)} of {name('vehicles')} {options.vehicles}"
        if not fewest:
            yield f"{name('brokers')} {options.brokers}: each needs a vehicle of its own, and {whose}"
        elif options.shards != AUTO_SHARDS and int(options.shards) > fewest:
            yield (
                f"{name('shards')} {options.shards}: each needs a vehicle at least, and one of {name('brokers')}"
                f" {options.brokers} has {fewest}: {whose}"
            )


def _netem(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse what netem cannot do."""
    if options.loss_burst is not None and options.loss_ratio > options.loss_burst * (1 - options.loss_ratio):
        yield (
            f"{name('loss_burst')} {options.loss_burst:g}: too short for {name('loss_ratio')}"
            f" {options.loss_ratio:g}: even with one packet between the bursts fewer are lost"
        )
    if options.duplicate_ratio and len(options.links) > 1:
        whose = "gateways" if TOPOLOGIES[options.topology].edge else "vehicles"
        yield (
            f"{name('duplicate_ratio')} {options.duplicate_ratio:g}: needs {name(whose)} 1;"
            " netem duplicates only where it is a device's one qdisc"
        )
    if options.duplicate_ratio and options.loss_burst is not None:
        yield (
            f"{name('duplicate_ratio')} {options.duplicate_ratio:g}: not with {name('loss_burst')},"
            " which takes a netem of its own: netem duplicates only where it is a device's one qdisc"
        )


_RULES: Final = (
    _mode,
    _mix,
    _window,
    _copies,
    batch_periods,
    _target,
    _peer,
    _messages,
    _columns,
    _drives,
    batch_limits,
    _platform,
    _query,
    _spark_cluster,
    _executors_reach,
    _outage_in_run,
    _outage_while_connecting,
    _netem,
    _share,
    _shards_have_vehicles,
    _edge,
    _brokers_have_vehicles,
    _stages_fit,
    agents_have_work,
    agents_need_no_files,
    agents_can_reach,
)
