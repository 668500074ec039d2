"""The end of a run, in order: sources stopped, tables, ledger, metrics, report; it measures nothing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivsim.agents.remote_sender import AgentLost
from ivsim.report.figures import FiguresAside
from ivsim.runs import processes
from ivsim.runs.children import Part
from ivsim.runs.components import Components
from ivsim.runs.directory import RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted, again, unhurried
from ivsim.runs.ledger_job import LedgerJob, why
from ivsim.runs.ntp import clock_error_ms
from ivsim.runs.result import write_proof, write_result
from ivsim.runs.snapshot import Facts, note, write_snapshot
from ivsim.runs.started import Ending, StartedRun
from ivsim.testbed.process import ProcessDied
from simulator.links import DIRECT, LinkError
from simulator.links.proof.after_run import LIMITS, WHOLE, Depth, prove_after_run
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


def account(started: StartedRun, ending: Ending, display: Display, *, alone: bool) -> Result:
    """Stop the sources, write every table, have the ledger made, then write the report.

    A signal ends the ledger, which takes longest and can be made anew; all that the run alone could know is kept first.
    `alone`: no other run follows on what this one has opened.
    """
    problems = [ending.error] if ending.error else []
    depth = _depth(started, ending, alone=alone)
    if depth is None:
        display.phase("accounting for every message")
    else:
        display.phase("proving the link")
    directory = started.directory
    with FiguresAside(directory.path) as drawn:
        job = LedgerJob(started, problems, drawn)
        with unhurried() as late, again():
            job.prepare()
            _stop_sources(started, problems)
            write_snapshot(
                directory, started.options, started.replay.rows(), _facts(started, ending, problems)
            )
            if ending.error is not None:
                display.note(so_far(started, ending))
        cut_short = None
        try:
            if depth is not None and late.number is None:
                _prove_link(started, depth)
            drawn.draw("link")
            display.phase("accounting for every message")
        except Interrupted as signal:
            cut_short = signal.number
            display.note(f"{signal}: the link is driven no further; all that was sent is accounted for")
        figures, error, number = job.write(display, late.number)
        with unhurried() as late:
            job.keep_kafka_records()  # of a run that a signal has stopped before
            if started.options.query != "none":
                answers.collect(directory.path)
            note(directory, problems=problems)
            display.phase("writing the report")
            metrics = write_result(directory, figures, drawn)
        return Result(metrics, directory.report, error, late.number or number or cut_short)


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
    started.replay.silence()
    # It has counted the probes' last packets; meanwhile the replay leaves what was played.
    if components.capture is not None:
        _stop_child(components.capture, problems)
    if (problem := started.replay.stop()) is not None:
        problems.append(problem)
    if not started.plan.topology.edge:
        _stop_gateways(components, problems)
    if components.consumer is not None:
        _stop_child(components.consumer, problems)
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


def _depth(started: StartedRun, ending: Ending, *, alone: bool) -> Depth | None:
    """Return how much of the run is driven through its link again; None for nothing, as of a run that was stopped."""
    if ending.error is not None:
        return None
    if started.options.prove_link:
        return WHOLE
    emulated = started.components.link.name != DIRECT
    return LIMITS if alone and emulated and started.options.probe else None


def _prove_link(started: StartedRun, depth: Depth) -> None:
    """Drive seconds of the run through its link once more, on which nobody sends any more.

    Interrupted at a signal, which ends this and nothing else: the run itself is over.
    """
    links = started.options.links
    try:
        with again():
            proven = prove_after_run(
                started.components.link,
                started.replay.distinct(),
                len(links),
                first=links.start,
                depth=depth,
            )
    except (LinkError, OSError) as error:
        write_proof(started.directory, depth.traffic_s, [], str(error), asked_for=depth is WHOLE)
    else:
        write_proof(started.directory, depth.traffic_s, [second.as_dict() for second in proven])


def _facts(started: StartedRun, ending: Ending, problems: Sequence[str]) -> Facts:
    """Return what only the living parts of a run know, once its sources have stopped."""
    components = started.components
    children = components.children
    return Facts(
        start_at_ns=started.start_at_ns,
        stop_at_ns=ending.stop_at_ns,
        clock_drift_ms=started.plan.clock.drift_ms(),
        clock_error_ms=clock_error_ms(),
        replay=started.replay.properties(),
        senders=[children.part(name).latest.get("done", {}) for name in components.senders],
        gateways=[children[name].latest.get("done", {}) for name in components.gateways],
        consumer=None if components.consumer is None else components.consumer.latest.get("done", {}),
        platform=None if started.platform is None else started.platform.facts(),
        deaths=_deaths(started, lost=False),
        lost=_deaths(started, lost=True),
        agents=components.agents.facts(),
        refused_gateways=_refused_gateways(started),
        twin_reopened=[] if components.twin is None else components.twin.reopened(),
        problems=problems,
    )


def _deaths(started: StartedRun, *, lost: bool) -> dict[str, str]:
    """Return of the senders that died on the way how each ended, and how many vehicles it had.

    Those that were lost with their agent, or the others.
    """
    dead = started.components.children.dead
    both = zip(started.components.senders, started.plan.senders, strict=True)
    return {
        name: f"{why(dead[name])} ({len(share.vehicles)} of {started.options.sending} vehicles)"
        for name, share in both
        if name in dead and isinstance(dead[name], AgentLost) == lost
    }


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


def remove_work(directory: RunDirectory) -> None:
    """Remove the servers' scratch; what a person may want is beside it, not in it."""
    logs = directory.work / "logs"
    if logs.is_dir() and directory.logs.is_dir():
        for log in logs.iterdir():
            log.replace(directory.logs / log.name)
    shutil.rmtree(directory.work, ignore_errors=True)


def never_started(directory: RunDirectory, *, logs: bool) -> None:
    """Note that a run never started: its directory goes once all is closed, and so do its logs unless they say why."""
    directory.manifest.unlink(missing_ok=True)
    if not logs:
        shutil.rmtree(directory.logs, ignore_errors=True)


def leave_directory(directory: RunDirectory) -> None:
    """Remove the scratch of a run in which all is closed; of one that never started all but its logs, where it has some."""
    remove_work(directory)
    if directory.manifest.exists() or not directory.path.is_dir():
        return
    for entry in directory.path.iterdir():
        if entry.is_file():
            entry.unlink()
        elif entry != directory.logs:
            shutil.rmtree(entry, ignore_errors=True)
    for empty in (directory.logs, directory.path):
        with contextlib.suppress(OSError):  # it is not empty, or not there
            empty.rmdir()
