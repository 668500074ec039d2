"""What a run leaves when its sources have stopped: a table of every log, and in run.json what its living parts alone know.

run.json is the last file of them, and is written whole: where it is, all others are. Whatever is made of a run behind it
reads files and nothing else (`ivsim.runs.result`), whether the run itself makes it, or `ivsim report` of what a killed run
has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateways import receive_log
from ivsim.options import RunOptions
from ivsim.runs import capture_join, processes
from ivsim.runs.directory import RunDirectory
from ivsim.runs.link_log import write_link_log
from ivsim.topologies import TOPOLOGIES
from ledger.sources import COMPLETE, CONFIRMED, CONSUMED
from schemas.json_files import read_json, write_json
from schemas.topics import vehicle_id
from simulator import emission_table
from simulator.links.step_log import Rows

_OF_SENDER: Final = ("access_refused", "datagrams_unsent", "cpu_s")
_OF_GATEWAY: Final = ("datagrams_dropped", "cpu_s")


@dataclass(frozen=True)
class Facts:
    """What the tables do not say; None, or an event that is empty, where nobody came to say it.

    Attributes:
        stop_at_ns: when the run stopped; None where every message had its chance.
        clock_drift_ms: between the two clocks.
        replay: `LinkReplay.properties`.
        senders, gateways: the last event of each.
        consumer: its last event; None where there is none.
        platform: `PlatformUsage.facts`; None where there is none.
        deaths: how senders ended that died on the way, by name; `lost` of those that were lost with their agent.
        clock_error_ms: from UTC at most, by the kernel's word; None where nobody keeps the clock.
        agents: what each had, and how well its times are known.
        shares: of a fleet that several runs sent, what is told of each.
        refused_gateways: a line for each gateway that its broker refused on the way.
        twin_reopened: a line for each time that a query of the twins died and was opened again.
        problems: a line for each thing that went wrong.
    """

    start_at_ns: int
    stop_at_ns: int | None
    clock_drift_ms: float | None = None
    replay: Mapping[str, Any] | None = None
    senders: Sequence[Mapping[str, Any]] = ()
    gateways: Sequence[Mapping[str, Any]] = ()
    consumer: Mapping[str, Any] | None = None
    platform: Mapping[str, Any] | None = None
    deaths: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    agents: Sequence[Mapping[str, Any]] = ()
    shares: Sequence[Mapping[str, Any]] = ()
    clock_error_ms: float | None = None
    refused_gateways: Sequence[str] = ()
    twin_reopened: Sequence[str] = ()
    problems: Sequence[str] = ()


def write_snapshot(directory: RunDirectory, options: RunOptions, asked: Rows, facts: Facts) -> None:
    """Write the tables, then run.json.

    Args:
        directory: of the run, with the logs of its parts.
        options: of the run.
        asked: of the link, as `LinkPlayer.rows`.
        facts: what the logs do not say.
    """
    scenario = processes.scenario_of(options, on_roads=False)
    events = emission_table.read_events(directory.emission_logs())
    pq.write_table(_emissions(directory, options, facts.start_at_ns, events), directory.emissions)
    pq.write_table(emission_table.connections(events), directory.path / "connections.parquet")
    _write_logs(processes.receive_logs(directory.path), directory.path / "received.parquet", "received_at_ns")
    _write_logs(processes.in_flight_logs(directory.path), directory.path / "in_flight.parquet", "noted_at_ns")
    if facts.consumer is not None:
        _write_logs(processes.confirmed_logs(directory.path), directory.path / CONFIRMED[0], CONFIRMED[1])
        complete = {COMPLETE: str(bool(facts.consumer.get("complete"))).lower().encode()}
        _write_logs(
            processes.consumed_logs(directory.path), directory.path / CONSUMED[0], CONSUMED[1], complete
        )
    write_link_log(directory.link, asked, directory.path / "wire.events")
    write_json(
        directory.path / "clock.json",
        {"clock_drift_ms": facts.clock_drift_ms, "clock_error_ms": facts.clock_error_ms},
    )
    write_json(
        directory.snapshot,
        {
            "start_at_ns": facts.start_at_ns,
            "warmup_s": options.warmup_s,
            "end_at_ns": facts.start_at_ns + scenario.duration_ns,
            "stop_at_ns": facts.stop_at_ns,
            "dead_senders": list(facts.deaths),
            "lost_senders": list(facts.lost),
            "deaths": {**facts.deaths, **facts.lost},
            "agents": list(facts.agents),
            "shares": list(facts.shares),
            "senders": [{name: said.get(name) for name in _OF_SENDER} for said in facts.senders],
            "gateways": [{name: said.get(name) for name in _OF_GATEWAY} for said in facts.gateways],
            **({} if facts.consumer is None else {"consumer": _of_consumer(facts.consumer)}),
            **({} if facts.platform is None else {"platform": facts.platform}),
            "gateway_drops": _gateway_drops(facts.gateways),
            "refused_gateways": list(facts.refused_gateways),
            "twin_reopened": list(facts.twin_reopened),
            "backlog_max": emission_table.largest_backlog(events),
            "replay": facts.replay,
            "problems": _lines(facts.problems),
        },
    )


def note(directory: RunDirectory, **more: Any) -> None:
    """Add to run.json what came to light behind it: further `problems`, or how the live figures compare (`live`)."""
    found = read_json(directory.snapshot)
    if "problems" in more:
        known = found["problems"]
        more["problems"] = [*known, *(line for line in _lines(more["problems"]) if line not in known)]
    write_json(directory.snapshot, found | more)


def _lines(problems: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(problem.partition("\n")[0] for problem in problems))


def _write_logs(
    logs: Sequence[Path], table: Path, stamp: str, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Make one table of logs of the receive log's form, whose last column is that stamp; none where there are none."""
    if logs:
        rows = pa.concat_tables([receive_log.to_table(path) for path in logs])
        rows = rows.rename_columns([*rows.column_names[:-1], stamp]).replace_schema_metadata(metadata)
        pq.write_table(rows, table)


def _emissions(
    directory: RunDirectory, options: RunOptions, start_at_ns: int, events: npt.NDArray[Any]
) -> pa.Table:
    """Return the emission log as a table, with what the capture proves where no acknowledgement can."""
    parts = options.parts
    own = sorted(vehicle for part in parts for vehicle in part.vehicles)
    emissions = emission_table.to_table(
        events, processes.scenario_of(options, on_roads=False), start_at_ns, own
    )
    asked = [vehicle_id(vehicle) for part in parts if part.peer == "gateway" for vehicle in part.vehicles]
    peer = pc.if_else(pc.is_in(emissions["vehicle_id"], pa.array(asked, pa.string())), "gateway", "broker")
    refused = pc.is_valid(emissions["refused_at_ns"])
    emissions = emissions.append_column("refused_by", pc.if_else(refused, peer, pa.scalar(None, pa.string())))
    capture = directory.path / "wire_messages.parquet"
    # What no broker acknowledges, the capture may prove to have come there; at the edge it does not see vehicles.
    seen = () if TOPOLOGIES[options.topology].edge else parts
    proven = [part for part in seen if part.protocol.broker is not None and not part.mode.acknowledged]
    if not (proven and capture.is_file() and len(events)):
        return capture_join.without_proof(emissions)
    wire = pq.read_table(capture)
    if (wire.schema.metadata or {}).get(b"complete") != b"true":
        return capture_join.without_proof(emissions)  # frames are missing: the nth row may be another message
    numbers = [vehicle for part in proven for vehicle in part.vehicles]
    names = pa.array([vehicle_id(vehicle) for vehicle in numbers])
    wire = wire.filter(pc.is_in(wire["vehicle_id"], names))
    purposes = directory.path / "wire_categories.parquet"
    categories = pq.read_table(purposes) if purposes.is_file() else None
    return capture_join.with_proof(emissions, events[np.isin(events["vehicle"], numbers)], wire, categories)


def _of_consumer(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said.get(name) for name in ("complete", "records", "distinct", "unreadable")}


def _gateway_drops(gateways: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many datagrams found a gateway's socket full; None if a gateway never reported, or for TCP."""
    if not all(gateways):
        return None
    said = [drops for one in gateways if (drops := one.get("datagrams_dropped")) is not None]
    return sum(said) if said else None
