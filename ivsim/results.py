"""From what the parts have written to one result: tables, ledger, metrics, report; it measures nothing."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gateways import receive_log
from gateways.protocols import PROTOCOLS
from ivsim import wire_join
from ivsim.agreement import agreement
from ivsim.child_configs import receive_logs, scenario_of, twin_config
from ivsim.link_log import link_table
from ivsim.options import Faults, RunOptions
from ivsim.parts import Parts
from ivsim.run_directory import SCHEMA, RunDirectory, machine, versions, write_json
from ivsim.testbed.child import Child
from ivsim.testbed.process import ProcessDied
from simulator import emission_table
from simulator.links.certificate import certificate
from simulator.scenario import Scenario

if TYPE_CHECKING:
    from ivsim.runner import Outcome, Run

LEDGER_S = 120.0
LIVE_S = 10.0
TRACE_MEANING = ("origin", "licence", "rate_meaning")


def write_manifest(run: Run, parts: Parts) -> None:
    """Write what was asked and with what; before the first message, so that any end leaves it."""
    assert parts.link is not None
    write_json(
        run.directory.manifest,
        {
            "schema": SCHEMA,
            "run": run.run,
            "options": run.options.model_dump(),
            "start_at_ns": run.start_at_ns,
            "seed": run.options.seed,
            "machine": machine(),
            "versions": versions(),
            "link": {"name": parts.link.name, **parts.link.properties()},
            "trace_offsets_s": run.road.offsets_s(),
            "pacer": {"scheduling": _ready(parts.pacer).get("scheduling")},
            "twin": _ready(parts.twin),
            "warnings": _warnings(run.options),
        },
    )


def _ready(child: Child | None) -> dict[str, Any]:
    """Return what a child said of itself when it was ready."""
    said = {} if child is None else child.latest.get("ready", {})
    return {name: value for name, value in said.items() if name != "event"}


def note_timings(run: Run) -> None:
    """Add to the manifest how long the phases took, which only their end can say."""
    manifest = json.loads(run.directory.manifest.read_text())
    manifest["timings_s"] = {name: round(value, 3) for name, value in run.timings.items()}
    write_json(run.directory.manifest, manifest)


def _warnings(options: RunOptions) -> list[str]:
    """Return what a reader of the report must know before the first figure."""
    warnings = []
    if options.faults != Faults():
        warnings.append("Messages were lost on purpose in this run: see `faults` in the manifest.")
    if options.early_ack:
        warnings.append("The gateway acknowledged before Kafka had the record (--early-ack).")
    return warnings


def account(run: Run, parts: Parts, outcome: Outcome) -> None:
    """Stop the sources, write every table, let Spark make the ledger, then write the report."""
    run.display.phase("accounting for every message")
    problems = [outcome.error] if outcome.error else []
    _stop_sources(run, parts, problems)
    _write_tables(run)
    outcome.metrics = _ledger(run, parts, problems)
    _finish_metrics(run, outcome, problems)
    run.display.phase("writing the report")
    from ivsim.report import write_page  # noqa: PLC0415 - charts take a second to load: not before they are needed

    outcome.report = write_page(run.directory.path)


def _stop_sources(run: Run, parts: Parts, problems: list[str]) -> None:
    """Stop vehicles, link replay, capture and gateways, upstream first, so that nothing is cut."""
    for child in (parts.pacer, parts.capture, *parts.gateways):
        if child is None:
            continue
        if child is parts.capture:
            _stop_link_threads(run, problems)
        code = child.stop()
        if code != 0 and not any(child.name in problem for problem in problems):
            problems.append(str(ProcessDied(child.name, code, "")).partition(";")[0])
    if run.feed is not None:
        run.feed.close()  # the live figures' last second, before the streaming job is asked for its last word


def _stop_link_threads(run: Run, problems: list[str]) -> None:
    """Stop the probes, then the replay; both before the capture, which counts the probes' last packets."""
    for thread in (run.prober, run.replay):
        if thread is not None:
            thread.stop()
            if thread.failure is not None:
                problems.append(f"{thread.name}: {thread.failure}")


def _link_rows(run: Run) -> list[dict[str, Any]]:
    """Return what was asked, counted and probed; empty for a run whose road was never played."""
    if run.replay is None:
        return []
    rows = run.replay.rows()
    return rows if run.prober is None else run.prober.add_to(rows)


def _write_tables(run: Run) -> None:
    assert run.start_at_ns is not None
    directory = run.directory
    scenario = scenario_of(run.options)
    pq.write_table(_emissions(run, scenario), directory.emissions)
    pq.write_table(
        emission_table.connections(directory.emission_events), directory.path / "connections.parquet"
    )
    logs = receive_logs(directory.path)
    if logs:
        taken = pa.concat_tables([receive_log.to_table(path) for path in logs])
        pq.write_table(taken, directory.path / "received.parquet")
    pq.write_table(link_table(_link_rows(run), directory.path / "wire.events"), directory.link)
    write_json(directory.path / "clock.json", {"clock_drift_ms": run.clock.drift_ms()})
    write_json(
        directory.path / "run.json",
        {
            "start_at_ns": run.start_at_ns,
            "warmup_s": run.options.warmup_s,
            "end_at_ns": run.start_at_ns + scenario.duration_ns,
            "stop_at_ns": run.window_stop_at_ns(),
            "backlog_max": emission_table.largest_backlog(directory.emission_events),
        },
    )


def _emissions(run: Run, scenario: Scenario) -> pa.Table:
    """Return the emission log as a table, with what the capture proves where no acknowledgement can."""
    assert run.start_at_ns is not None
    directory = run.directory
    emissions = emission_table.to_table(directory.emission_events, scenario, run.start_at_ns)
    protocol = PROTOCOLS[run.options.protocol]
    capture = directory.path / "wire_messages.parquet"
    proves = protocol.broker is not None and not protocol.modes[run.options.mode].acknowledged
    if not (proves and capture.is_file() and directory.emission_events.is_file()):
        return wire_join.without_proof(emissions)
    wire = pq.read_table(capture)
    if (wire.schema.metadata or {}).get(b"complete") != b"true":
        return wire_join.without_proof(emissions)  # frames are missing: the nth row may be another message
    return wire_join.with_proof(emissions, emission_table.read_events(directory.emission_events), wire)


def _ledger(run: Run, parts: Parts, problems: list[str]) -> dict[str, Any]:
    """Have the warm Spark session write the ledger; a dead one, or none, gives way to a job of its own."""
    if parts.twin is not None and parts.twin.running():
        try:
            # It reports a query that died; the session itself lives, and is what the ledger needs.
            parts.twin.forget_error()
            parts.twin.send("ledger", partial=problems)
            parts.twin.wait_for("ledger", LEDGER_S)
            return _read_metrics(run.directory) | _live(run, parts)
        except ProcessDied as error:
            problems.append(str(error))
            parts.twin.stop()  # the job below works in the same directories
    _ledger_alone(run, parts)
    return _read_metrics(run.directory)


def _live(run: Run, parts: Parts) -> dict[str, Any]:
    """Return how the streaming job's last figures compare with the ledger; {} without a streaming job."""
    if parts.watch is None:
        return {}
    figures = parts.watch.final(LIVE_S)
    return {"live": agreement(run.directory, *figures) if figures else {"verdict": "not read to its end"}}


def _ledger_alone(run: Run, parts: Parts) -> None:
    config = run.directory.work / "ledger.json"
    config.write_text(json.dumps(twin_config(parts)))
    child = Child("ledger", ["twin.ledger", str(config)], parts.record)
    parts.stack.callback(child.stop)
    child.popen.wait(LEDGER_S)
    if child.popen.returncode != 0:
        child.check()
        raise ProcessDied("ledger", child.popen.returncode, "")


def _read_metrics(directory: RunDirectory) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads(directory.metrics.read_text())
    return metrics


def _finish_metrics(run: Run, outcome: Outcome, problems: list[str]) -> None:
    """Add what only the owner knows: its name, what the link proved, and why the result is partial."""
    metrics = outcome.metrics
    metrics["run"] = run.run
    if run.replay is not None:
        metrics["replay"] = run.replay.properties()
        metrics["certificate"] = certificate(run.link_name, _link_rows(run), run.replay.properties())
    if problems:
        metrics["partial"] = True
        metrics["partial_reason"] = "; ".join(problem.partition("\n")[0] for problem in problems)
    write_json(run.directory.metrics, metrics)


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
