"""The manifest of a run: what was asked and with what, and how long the phases took."""

from __future__ import annotations

import json
from typing import Any

from gateways.sinks import PLATFORM_SINKS, SINKS
from ivsim.options import Faults, RunOptions
from ivsim.runs.directory import SCHEMA, RunDirectory
from ivsim.runs.processes import attributed_ends, linger_ms_of
from ivsim.runs.started import StartedRun
from ivsim.testbed.child import Child
from ivsim.topologies import TOPOLOGIES
from schemas.json_files import write_json
from schemas.settings import as_mapping
from simulator.link_schedule import LinkSchedule
from simulator.links import offload, tcp_stack


def write_manifest(started: StartedRun, environment: dict[str, Any]) -> None:
    """Write what was asked and with what; before the first message, so that any end leaves it."""
    plan, link = started.plan, started.components.link
    children = started.components.children
    write_json(
        plan.directory.manifest,
        {
            "schema": SCHEMA,
            "run": plan.run_id,
            "options": plan.options.model_dump(),
            "start_at_ns": started.start_at_ns,
            "seed": plan.options.seed,
            **environment,
            "link": {"name": link.name, **link.properties()},
            "tcp": tcp_stack.settings(link),
            "offloads": offload.of_link(link),
            "trace_offsets_s": plan.schedule.offsets_s(),
            "sender": {
                "shards": plan.shards,
                "scheduling": _ready(children.get(started.components.senders[0])).get("scheduling"),
            },
            "gateway_linger_ms": gateway_linger_ms(plan.options),
            "twin": {} if (twin := started.components.twin) is None else twin.ready(),
            "vehicle_log": _vehicle_log(plan.options),
            **_stations(plan.options),
            "warnings": _warnings(plan.options),
            "notes": _notes(plan.options, plan.schedule),
        },
    )


def _vehicle_log(options: RunOptions) -> dict[str, Any] | None:
    """Return by which files, byte for byte, vehicles drove; None where they made up their drives."""
    log = options.drives
    if log is None:
        return None
    sums = {"log_sha256": log.log_sha256, "mapping_sha256": log.mapping_sha256}
    return {**sums, "drives": [drive.vehicle for drive in log.drives[: options.vehicles]]}


def gateway_linger_ms(options: RunOptions) -> dict[str, int]:
    """Return how long a record waits for others at gateways, by protocol; nothing where none does or `kafka_producer` says it."""
    sink = PLATFORM_SINKS.get(options.platform, SINKS[options.kafka_client])
    bridged = TOPOLOGIES[options.topology].bridged
    if not (bridged and sink.lingers) or "linger.ms" in as_mapping(options.kafka_producer):
        return {}
    return {part.words: linger_ms_of(options, part) for part in options.parts}


def _stations(options: RunOptions) -> dict[str, str]:
    """Return by which file, byte for byte, the query knew its stations; nothing without a query."""
    table = options.station_table
    return {} if table is None else {"stations_sha256": table.sha256}


def _ready(child: Child | None) -> dict[str, Any]:
    """Return what a child said of itself when it was ready."""
    said = {} if child is None else child.latest.get("ready", {})
    return {name: value for name, value in said.items() if name != "event"}


def note_timings(directory: RunDirectory, timings_s: dict[str, float]) -> None:
    """Add to the manifest how long the phases took, which only their end can say."""
    manifest = json.loads(directory.manifest.read_text())
    manifest["timings_s"] = {name: round(value, 3) for name, value in timings_s.items()}
    write_json(directory.manifest, manifest)


def _warnings(options: RunOptions) -> list[str]:
    """Return what a reader of the report must know before the first figure."""
    warnings = []
    if options.faults != Faults():
        warnings.append("Messages were lost on purpose in this run: see `faults` in the manifest.")
    if options.early_ack:
        warnings.append("The gateway acknowledged before Kafka had the record (--early-ack).")
    return warnings


def _notes(options: RunOptions, schedule: LinkSchedule) -> list[str]:
    """Return what a reader should know of a run in which all is well."""
    notes = []
    ends = None if options.agents else attributed_ends(options)
    if ends is not None:
        of = "gateways" if TOPOLOGIES[options.topology].edge else "vehicles"
        notes.append(
            f"Bytes are attributed to messages for {len(ends)} of the {of}, drawn at random by the seed; the others' are counted."
        )
    if options.link != "direct":
        notes += [
            f"The {direction} is unlimited: the trace says no rate of it." for direction in schedule.unlimited
        ]
    return notes
