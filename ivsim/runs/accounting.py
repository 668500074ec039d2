"""From what the components have written to one result: tables, ledger, metrics, report; it measures nothing."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateways import receive_log
from gateways.protocols import PROTOCOLS
from ivsim.options import Faults, RunOptions
from ivsim.runs import capture_join, kafka_log, processes
from ivsim.runs.children import ChildSpec
from ivsim.runs.components import Components
from ivsim.runs.directory import SCHEMA, RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.link_log import link_table
from ivsim.runs.reconciliation import agreement
from ivsim.runs.security_figures import security_figures
from ivsim.runs.started import Ending, StartedRun
from ivsim.runs.validity import judge, sender_lag_p99_ms
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import answers
from ivsim.testbed.process import NotReady, ProcessDied, last_lines
from schemas.json_files import write_json
from simulator import emission_table
from simulator.links import offload, tcp_stack
from simulator.links.proof.certificate import certificate
from simulator.scenario import Scenario
from twin.metrics import METRICS

LEDGER = "ledger"
LEDGER_S = 120.0
# A ledger that has more to do may take longer; figures of 6 million rows take about two minutes.
LEDGER_ROWS_PER_S = 10_000
LEDGER_POLL_S = 0.2
LIVE_S = 10.0
KAFKA_ANSWERS_S = 5.0


@dataclass(frozen=True)
class Result:
    """What a run's accounting came to: its figures, and where the report is.

    `error` says why there is no ledger, where there is none.
    """

    metrics: dict[str, Any]
    report: Path
    error: str | None = None


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
            "twin": {} if (twin := started.components.twin) is None else twin.ready(),
            "warnings": _warnings(plan.options),
        },
    )


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


def account(started: StartedRun, ending: Ending, display: Display) -> Result:
    """Stop the sources, write every table, let Spark make the ledger, then write the report."""
    display.phase("accounting for every message")
    problems = [ending.error] if ending.error else []
    _stop_sources(started, problems)
    _write_tables(started, ending)
    error: str | None = None
    with display.still("accounting for every message", lambda: _ledger_step(started)):
        try:
            metrics = _ledger(started, problems)
        except (ProcessDied, NotReady) as failure:
            error = f"there is no ledger: {_why(failure)}"
            problems.append(error)
            metrics = without_ledger(started.directory)
    _keep_kafka_records(started, problems)
    _finish_metrics(started, metrics, problems)
    display.phase("writing the report")
    from ivsim.report import write_page  # noqa: PLC0415 - charts take a second to load: not before they are needed

    return Result(metrics, write_page(started.directory.path), error)


def _stop_sources(started: StartedRun, problems: list[str]) -> None:
    """Stop vehicles, link replay, capture and gateways, upstream first, so that nothing is cut."""
    components = started.components
    _stop_senders(components, problems)
    _stop_link_threads(started, problems)
    _stop_child(components.capture, problems)
    for name in components.gateways:
        _stop_child(components.children[name], problems)
    started.publisher.close()  # the live figures' last second, before the streaming job is asked for its last word


def _stop_senders(components: Components, problems: list[str]) -> None:
    """Stop all at the same time; one that died before is no problem of the ledger's, whose rows say what it left."""
    with contextlib.suppress(ProcessDied):  # that of the last one is said below
        components.children.spare(components.senders)
    living = [name for name in components.senders if name not in components.children.dead]
    for name in living:
        with contextlib.suppress(ProcessDied):
            components.children[name].send("stop")
    for name in living:
        _stop_child(components.children[name], problems)


def _stop_child(child: Child, problems: list[str]) -> None:
    code = child.stop()
    if code != 0 and not any(child.name in problem for problem in problems):
        problems.append(str(ProcessDied(child.name, code, "")).partition(";")[0])


def _stop_link_threads(started: StartedRun, problems: list[str]) -> None:
    """Stop the probes, then the replay; both before the capture, which counts the probes' last packets."""
    for thread in (started.prober, started.replay):
        thread.stop()
        if thread.failure is not None:
            problems.append(f"{thread.name}: {thread.failure}")


def _write_tables(started: StartedRun, ending: Ending) -> None:
    directory, children = started.directory, started.components.children
    scenario = processes.scenario_of(started.options)
    pq.write_table(_emissions(started, scenario), directory.emissions)
    pq.write_table(
        emission_table.connections(directory.emission_logs()), directory.path / "connections.parquet"
    )
    logs = processes.receive_logs(directory.path)
    if logs:
        taken = pa.concat_tables([receive_log.to_table(path) for path in logs])
        pq.write_table(taken, directory.path / "received.parquet")
    pq.write_table(link_table(started.link_rows(), directory.path / "wire.events"), directory.link)
    write_json(directory.path / "clock.json", {"clock_drift_ms": started.plan.clock.drift_ms()})
    write_json(
        directory.path / "run.json",
        {
            "start_at_ns": started.start_at_ns,
            "warmup_s": started.options.warmup_s,
            "end_at_ns": started.start_at_ns + scenario.duration_ns,
            "stop_at_ns": ending.stop_at_ns,
            "dead_senders": [name for name in started.components.senders if name in children.dead],
            "backlog_max": emission_table.largest_backlog(directory.emission_logs()),
        },
    )


def _emissions(started: StartedRun, scenario: Scenario) -> pa.Table:
    """Return the emission log as a table, with what the capture proves where no acknowledgement can."""
    directory = started.directory
    emissions = emission_table.to_table(directory.emission_logs(), scenario, started.start_at_ns)
    protocol = PROTOCOLS[started.options.protocol]
    refused = pc.is_valid(emissions["refused_at_ns"])
    # Who answers a vehicle is its broker; without one, the gateway itself.
    peer = "gateway" if protocol.broker is None else "broker"
    emissions = emissions.append_column("refused_by", pc.if_else(refused, peer, pa.scalar(None, pa.string())))
    capture = directory.path / "wire_messages.parquet"
    proves = protocol.broker is not None and not protocol.modes[started.options.mode].acknowledged
    if not (proves and capture.is_file() and directory.emission_logs()):
        return capture_join.without_proof(emissions)
    wire = pq.read_table(capture)
    if (wire.schema.metadata or {}).get(b"complete") != b"true":
        return capture_join.without_proof(emissions)  # frames are missing: the nth row may be another message
    return capture_join.with_proof(emissions, emission_table.read_events(directory.emission_logs()), wire)


def _ledger(started: StartedRun, problems: list[str]) -> dict[str, Any]:
    """Have the warm Spark session write the ledger; a dead one, or none, gives way to a job of its own."""
    twin = started.components.twin
    if twin is not None and twin.running() and not _kafka_answers(started):
        # Its queries wait two minutes for a Kafka that restarts; nobody restarts this one for them.
        twin.abandon()
        problems.append("Kafka does not answer any more")
    if twin is not None and twin.running():
        try:
            twin.ledger(problems)
            return _read_metrics(started.directory) | _live(started)
        except (ProcessDied, NotReady) as error:
            problems.append(str(error))
            twin.stop()  # the job below works in the same directories
    _ledger_alone(started)
    return _read_metrics(started.directory)


def _kafka_answers(started: StartedRun) -> bool:
    """Say whether the run's Kafka answers; true where it has none."""
    bootstrap = started.components.endpoints.kafka.bootstrap
    return not bootstrap or answers(bootstrap, KAFKA_ANSWERS_S)


def _live(started: StartedRun) -> dict[str, Any]:
    """Return how the streaming job's last figures compare with the ledger; {} without a streaming job."""
    reader = started.components.live_reader
    if reader is None:
        return {}
    figures = reader.final(LIVE_S)
    return {"live": agreement(started.directory, *figures) if figures else {"verdict": "not read to its end"}}


def _keep_kafka_records(started: StartedRun, problems: list[str]) -> None:
    """Keep what Kafka held; behind the ledger, so that both have read the same end of the topics."""
    kafka = started.components.endpoints.kafka
    if not kafka.bootstrap:
        return
    try:
        kafka_log.keep(kafka, started.directory.kafka_records)
    except NotReady as error:
        problems.append(str(error))


def _ledger_alone(started: StartedRun) -> None:
    components = started.components
    config = processes.twin_config(started.plan, components.endpoints.kafka)
    child = components.children.start(ChildSpec(LEDGER, ("twin.ledger",), config))
    await_ledger(child, ledger_limit_s(pq.read_metadata(started.directory.emissions).num_rows))


def ledger_limit_s(messages: int) -> float:
    """Return how long a ledger of so many messages due may take."""
    return LEDGER_S + messages / LEDGER_ROWS_PER_S


def await_ledger(child: Child, limit_s: float) -> None:
    """Return once the process has written its ledger; ProcessDied when it fails, NotReady when it takes too long."""
    end_s = time.monotonic() + limit_s
    while child.running():
        if time.monotonic() >= end_s:
            child.stop()
            raise NotReady(f"{child.name} was not written within {limit_s:,.0f} s")
        time.sleep(
            LEDGER_POLL_S
        )  # `running` takes in what the child says on the way, and does not wait for it
    if (code := child.stop()) != 0:
        raise ProcessDied(child.name, code, last_lines(child.log_path))


def _ledger_step(started: StartedRun) -> str | None:
    """Return what the ledger is at, in the words of the process that writes it."""
    children, twin = started.components.children, started.components.twin
    at_work = children.get(LEDGER)
    if at_work is None and twin is not None and twin.running():
        at_work = twin.process
    step = None if at_work is None else at_work.latest.get("step")
    return None if step is None else str(step["words"])


def _why(failure: Exception) -> str:
    """Return in one line what happened, and the last thing that the process said."""
    if not isinstance(failure, ProcessDied):
        return str(failure)
    head = str(failure).partition(";")[0]
    said = failure.last_lines.strip().rpartition("\n")[2]
    return f"{head}: {said}" if said else head


def without_ledger(directory: RunDirectory) -> dict[str, Any]:
    """Return the figures of a run that has no ledger: how many messages were due, and nothing else is known."""
    due = pq.read_metadata(directory.emissions).num_rows
    return dict.fromkeys(METRICS) | {"run_due": due, "partial": True, "partial_reason": None}


def _read_metrics(directory: RunDirectory) -> dict[str, Any]:
    """Return what the ledger wrote; NotReady when it ended without figures."""
    try:
        metrics: dict[str, Any] = json.loads(directory.metrics.read_text())
    except FileNotFoundError:
        raise NotReady("the ledger ended without figures") from None
    return metrics


def _finish_metrics(started: StartedRun, metrics: dict[str, Any], problems: list[str]) -> None:
    """Add what only the owner knows: its name, what the link proved, and why the result is partial."""
    metrics["run"] = started.plan.run_id
    metrics["replay"] = started.replay.properties()
    name = started.components.link.name
    metrics["certificate"] = certificate(name, started.link_rows(), started.replay.properties())
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
        senders=[children[name].latest.get("done", {}) for name in started.components.senders],
        gateways=[children[name].latest.get("done", {}) for name in started.components.gateways],
    )
    captured = started.components.capture.latest.get("done", {})
    metrics["validity"] = judge(
        metrics,
        sender_lag_p99_ms=sender_lag_p99_ms(started.directory.ledger),
        capture_drops=captured.get("kernel_drops"),
        dead_senders=_dead_senders(started),
    ).as_dict()
    write_json(started.directory.metrics, metrics)


def _dead_senders(started: StartedRun) -> list[str]:
    """Return of each sender that died which it was, how it ended, and how many vehicles it had."""
    components = started.components
    both = zip(components.senders, started.plan.shard_vehicles, strict=True)
    return [
        f"{_why(components.children.dead[name])} ({len(vehicles)} of {started.options.vehicles} vehicles)"
        for name, vehicles in both
        if name in components.children.dead
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
