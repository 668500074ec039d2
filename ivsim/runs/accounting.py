"""The end of a run, in order: sources stopped, tables, ledger, metrics, report; it measures nothing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateways import receive_log
from ivsim.agents.remote_sender import AgentLost
from ivsim.runs import capture_join, processes
from ivsim.runs.children import Children, Part
from ivsim.runs.components import Components
from ivsim.runs.directory import RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.interrupt import unhurried
from ivsim.runs.ledger_job import keep_kafka_records, ledger_or_why, why
from ivsim.runs.link_log import write_link_log
from ivsim.runs.part_figures import part_figures
from ivsim.runs.query_figures import query_figures
from ivsim.runs.security_figures import security_figures
from ivsim.runs.started import Ending, StartedRun
from ivsim.runs.validity import judge, sender_lag_p99_ms
from ivsim.testbed.process import ProcessDied
from schemas.json_files import write_json
from schemas.topics import vehicle_id
from simulator import emission_table
from simulator.links import LinkError
from simulator.links.proof.after_run import TRAFFIC_S, probe_checks, prove_after_run
from simulator.links.proof.certificate import certificate
from simulator.links.proof.checks import Check
from simulator.scenario import Scenario
from twin.queries import answers

_KEPT = {"emitted": "messages emitted", "acknowledged": "acknowledged", "in twin": "in the twin"}


@dataclass(frozen=True)
class Result:
    """What a run's accounting came to: its figures, and where the report is.

    `error` says why there is no ledger, where there is none; `signal` is the number of the one that came meanwhile.
    """

    metrics: dict[str, Any]
    report: Path
    error: str | None = None
    signal: int | None = None


def account(started: StartedRun, ending: Ending, display: Display) -> Result:
    """Stop the sources, write every table, let Spark make the ledger, then write the report.

    A signal ends the ledger, which takes longest and can be made anew; all that the run alone could know is kept first.
    """
    display.phase("accounting for every message")
    problems = [ending.error] if ending.error else []
    with unhurried() as late:
        _stop_sources(started, problems)
        probed = _prove_link(started, ending, display)
        _write_tables(started, ending)
    if ending.error is not None:
        display.note(so_far(started, ending))
    metrics, error, number = ledger_or_why(started, problems, display, late.number)
    with unhurried() as late:
        # Behind the ledger of Spark, so that both have read the same end of the topics.
        keep_kafka_records(started, problems)
        _finish_metrics(started, metrics, problems, probed)
        display.phase("writing the report")
        from ivsim.report.page import write_page  # noqa: PLC0415 - charts take a second to load: not before they are needed

        page = write_page(started.directory.path)
    return Result(metrics, page, error, late.number or number)


def so_far(started: StartedRun, ending: Ending) -> str:
    """Return what stopped a run in its middle, and what there is of it; its sources have stopped, and said all."""
    row = started.publisher.row()
    kept = ", ".join(f"{row[name]:,} {words}" for name, words in _KEPT.items() if row.get(name) is not None)
    why_stopped = (ending.error or "").partition("\n")[0]
    after_s = max(0, (ending.stop_at_ns or 0) - started.start_at_ns) // 1_000_000_000
    return (
        f"{why_stopped} after {after_s:,} s: {kept}; accounting for what there is in {started.directory.path}"
    )


def _stop_sources(started: StartedRun, problems: list[str]) -> None:
    """Stop vehicles, link replay, capture and gateways, upstream first, so that nothing is cut."""
    components = started.components
    _stop_senders(components, problems)
    components.agents.settle(processes.scenario_of(started.options))
    if started.plan.topology.edge:
        _stop_gateways(components, problems)
    _stop_link_threads(started, problems)
    if components.capture is not None:
        _stop_child(components.capture, problems)
    if not started.plan.topology.edge:
        _stop_gateways(components, problems)
    started.publisher.close()  # the live figures' last second, before the streaming job is asked for its last word


def _stop_senders(components: Components, problems: list[str]) -> None:
    """Stop all at the same time; one that died before is no problem of the ledger's, whose rows say what it left."""
    with contextlib.suppress(ProcessDied):  # that of the last one is said below
        components.children.spare(components.senders)
    living = [name for name in components.senders if name not in components.children.dead]
    parts = [components.children.part(name) for name in living]
    for part in parts:
        with contextlib.suppress(ProcessDied):
            part.send("stop")
    for part in parts:
        _stop_child(part, problems)
        try:
            part.check()
        except AgentLost as death:  # while it was stopped
            components.children.dead.setdefault(part.name, death)
        except ProcessDied:
            pass  # said above


def _stop_gateways(components: Components, problems: list[str]) -> None:
    for name in components.gateways:
        _stop_child(components.children[name], problems)


def _stop_child(child: Part, problems: list[str]) -> None:
    code = child.stop()
    if code != 0 and not any(child.name in problem for problem in problems):
        problems.append(_end_of(child, code))


def _end_of(child: Part, code: int) -> str:
    """Return in a line how a process ended that was asked to stop."""
    try:
        child.check()
    except ProcessDied as death:
        return death.line
    return ProcessDied(child.name, code, None).line


def _stop_link_threads(started: StartedRun, problems: list[str]) -> None:
    """Stop the probes, then the replay; both before the capture, which counts the probes' last packets."""
    for thread in (started.prober, started.replay):
        thread.stop()
        if thread.failure is not None:
            problems.append(f"{thread.name}: {thread.failure}")


def _prove_link(started: StartedRun, ending: Ending, display: Display) -> list[Check]:
    """Drive seconds of the run through its link once more, if that was asked for and nothing has stopped the run."""
    if not started.options.prove_link or ending.error is not None:
        return []
    display.phase("proving the link")
    try:
        links = started.options.links
        proven = prove_after_run(
            started.components.link, started.replay.distinct(), len(links), first=links.start
        )
    except LinkError as error:
        return [Check("saturating probe", "both", "to end", str(error), "", "off")]
    seconds = [second.as_dict() for second in proven]
    write_json(started.directory.link_proof, {"traffic_s": TRAFFIC_S, "seconds": seconds})
    return probe_checks(seconds)


def _write_tables(started: StartedRun, ending: Ending) -> None:
    directory, children = started.directory, started.components.children
    scenario = processes.scenario_of(started.options)
    pq.write_table(_emissions(started, scenario), directory.emissions)
    pq.write_table(
        emission_table.connections(directory.emission_logs()), directory.path / "connections.parquet"
    )
    _write_logs(processes.receive_logs(directory.path), directory.path / "received.parquet", "received_at_ns")
    _write_logs(processes.in_flight_logs(directory.path), directory.path / "in_flight.parquet", "noted_at_ns")
    write_link_log(directory.link, started.link_rows(), directory.path / "wire.events")
    write_json(directory.path / "clock.json", {"clock_drift_ms": started.plan.clock.drift_ms()})
    write_json(
        directory.path / "run.json",
        {
            "start_at_ns": started.start_at_ns,
            "warmup_s": started.options.warmup_s,
            "end_at_ns": started.start_at_ns + scenario.duration_ns,
            "stop_at_ns": ending.stop_at_ns,
            "dead_senders": _names_of_dead(children, started.components.senders, lost=False),
            "lost_senders": _names_of_dead(children, started.components.senders, lost=True),
            "agents": started.components.agents.facts(),
            "gateway_drops": _gateway_drops(started),
            "refused_gateways": _refused_gateways(started),
            "backlog_max": emission_table.largest_backlog(directory.emission_logs()),
        },
    )


def _write_logs(logs: Sequence[Path], table: Path, stamp: str) -> None:
    """Make one table of the gateways' logs, whose last column is that stamp; none where there are none."""
    if logs:
        rows = pa.concat_tables([receive_log.to_table(path) for path in logs])
        pq.write_table(rows.rename_columns([*rows.column_names[:-1], stamp]), table)


def _emissions(started: StartedRun, scenario: Scenario) -> pa.Table:
    """Return the emission log as a table, with what the capture proves where no acknowledgement can."""
    directory = started.directory
    emissions = emission_table.to_table(directory.emission_logs(), scenario, started.start_at_ns)
    parts = started.options.parts
    asked = [vehicle_id(vehicle) for part in parts if part.peer == "gateway" for vehicle in part.vehicles]
    peer = pc.if_else(pc.is_in(emissions["vehicle_id"], pa.array(asked, pa.string())), "gateway", "broker")
    refused = pc.is_valid(emissions["refused_at_ns"])
    emissions = emissions.append_column("refused_by", pc.if_else(refused, peer, pa.scalar(None, pa.string())))
    capture = directory.path / "wire_messages.parquet"
    # What no broker acknowledges, the capture may prove to have come there; at the edge it does not see vehicles.
    seen = () if started.plan.topology.edge else parts
    proven = [part for part in seen if part.protocol.broker is not None and not part.mode.acknowledged]
    if not (proven and capture.is_file() and directory.emission_logs()):
        return capture_join.without_proof(emissions)
    wire = pq.read_table(capture)
    if (wire.schema.metadata or {}).get(b"complete") != b"true":
        return capture_join.without_proof(emissions)  # frames are missing: the nth row may be another message
    events = emission_table.read_events(directory.emission_logs())
    numbers = [vehicle for part in proven for vehicle in part.vehicles]
    names = pa.array([vehicle_id(vehicle) for vehicle in numbers])
    wire = wire.filter(pc.is_in(wire["vehicle_id"], names))
    return capture_join.with_proof(emissions, events[np.isin(events["vehicle"], numbers)], wire)


def _finish_metrics(
    started: StartedRun, metrics: dict[str, Any], problems: list[str], probed: Sequence[Check]
) -> None:
    """Add what only the owner knows: its name, what the link proved, and why the result is partial."""
    metrics["run"] = started.plan.run_id
    metrics["replay"] = started.replay.properties()
    name = started.components.link.name
    metrics["certificate"] = certificate(name, started.link_rows(), started.replay.properties(), probed)
    if problems:
        # What the ledger could not read stands beside what went wrong; it was told some of the problems itself.
        known = metrics.get("partial_reason") or ""
        lines = [problem.partition("\n")[0] for problem in problems]
        metrics["partial"] = True
        metrics["partial_reason"] = "; ".join([*filter(None, [known]), *(x for x in lines if x not in known)])
    children = started.components.children
    metrics["security"] = security_figures(
        started.directory.path,
        security=started.plan.options.security,
        senders=[children.part(name).latest.get("done", {}) for name in started.components.senders],
        gateways=[children[name].latest.get("done", {}) for name in started.components.gateways],
    )
    if started.options.mix is not None:
        metrics["parts"] = part_figures(
            started.directory.ledger,
            started.directory.link,
            started.options.parts,
            start_at_ns=started.start_at_ns,
            warmup_s=started.options.warmup_s,
        )
    if agents := started.components.agents.facts():
        metrics["agents"] = agents
    if started.options.query != "none":
        answers.collect(started.directory.path)
        metrics["query"] = query_figures(started.directory.path, started.options)
    capture = started.components.capture
    captured = {} if capture is None else capture.latest.get("done", {})
    metrics["validity"] = judge(
        metrics,
        sender_lag_p99_ms=sender_lag_p99_ms(started.directory.ledger),
        capture_drops=captured.get("kernel_drops"),
        gateway_drops=_gateway_drops(started),
        refused_gateways=_refused_gateways(started),
        dead_senders=_dead_senders(started, lost=False),
        lost_senders=_dead_senders(started, lost=True),
    ).as_dict()
    write_json(started.directory.metrics, metrics)


def _gateway_drops(started: StartedRun) -> int | None:
    """Return how many datagrams found a gateway's socket full; None where one has not come to say it, and of streams."""
    said: list[int] = []
    for name in started.components.gateways:
        done = started.components.children[name].latest.get("done")
        if done is None:
            return None
        if (drops := done.get("datagrams_dropped")) is not None:
            said.append(drops)
    return sum(said) if said else None


def _refused_gateways(started: StartedRun) -> list[str]:
    """Return of each gateway that its broker refused on the way what the broker said, and how often."""
    children = [started.components.children[name] for name in started.components.gateways]
    said = [
        (child.name, child.latest.get("turned_away"), child.latest.get("progress", {})) for child in children
    ]
    return [
        f"{name} was refused {progress.get('connections_refused', 1)} times: {refusal['reason']}"
        for name, refusal, progress in said
        if refusal is not None
    ]


def _names_of_dead(children: Children, senders: Sequence[str], *, lost: bool) -> list[str]:
    """Return the senders that died on the way: those that were lost with their agent, or the others."""
    dead = [name for name in senders if name in children.dead]
    return [name for name in dead if isinstance(children.dead[name], AgentLost) == lost]


def _dead_senders(started: StartedRun, *, lost: bool) -> list[str]:
    """Return of each of them which it was, how it ended, and how many vehicles it had."""
    components = started.components
    names = _names_of_dead(components.children, components.senders, lost=lost)
    both = zip(components.senders, started.plan.senders, strict=True)
    return [
        f"{why(components.children.dead[name])} ({len(share.vehicles)} of {started.options.vehicles} vehicles)"
        for name, share in both
        if name in names
    ]


def remove_work(directory: RunDirectory) -> None:
    """Remove the servers' scratch; what a person may want is beside it, not in it."""
    logs = directory.work / "logs"
    if logs.is_dir():
        for log in logs.iterdir():
            log.replace(directory.logs / log.name)
    shutil.rmtree(directory.work, ignore_errors=True)


def discard(directory: RunDirectory) -> None:
    """Remove the directory of a run that never started; its logs stay when there are any."""
    remove_work(directory)
    if not any(directory.logs.iterdir()):
        shutil.rmtree(directory.path, ignore_errors=True)
