"""The ledger's work: who writes it, how long that may take, and what it is at meanwhile."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow.parquet as pq

from ivsim.runs.children import ChildSpec
from ivsim.runs.directory import RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.kafka_log import NOT_KEPT, keep
from ivsim.runs.reconciliation import agreement
from ivsim.runs.result import NO_LEDGER, ledger_config
from ivsim.runs.snapshot import note
from ivsim.runs.started import StartedRun
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import answers
from ivsim.testbed.process import NotReady, ProcessDied
from ledger.build import ledger_limit_s
from ledger.metrics import METRICS

LEDGER = "ledger"
LEDGER_POLL_S = 0.2
LIVE_S = 10.0
KAFKA_ANSWERS_S = 5.0


def ledger_or_why(
    started: StartedRun, problems: list[str], display: Display, signalled: int | None
) -> tuple[dict[str, Any], str | None, int | None]:
    """Return the ledger's figures; without one, why there is none and the signal that ended it, or had come before it.

    Args:
        started: the run, whose sources have stopped and whose tables are written.
        problems: what went wrong so far; why there is no ledger is added.
        display: says what is being done.
        signalled: number of the signal that has come already.
    """
    number = signalled
    if number is None:
        try:
            with display.still("accounting for every message", lambda: ledger_step(started)):
                return write_ledger(started, problems), None, None
        except (ProcessDied, NotReady) as failure:
            reason = why(failure)
        except Interrupted as stop:
            number = stop.number
    if number is not None:
        reason = f"stopped by {Interrupted(number)}"
    error = f"{NO_LEDGER}: {reason}"
    problems.append(error)
    # It has rows before it has figures: rows alone would look like a ledger that was finished.
    started.directory.ledger.unlink(missing_ok=True)
    return without_ledger(started.directory), error, number


def write_ledger(started: StartedRun, problems: list[str]) -> dict[str, Any]:
    """Have the warm Spark session write the ledger, or a process without Java where that is dead or there is none.

    Return its figures.

    ProcessDied or NotReady when there is no ledger.
    """
    twin = started.components.twin
    if twin is not None and twin.running() and not _kafka_answers(started):
        # Its queries wait two minutes for a Kafka that restarts; nobody restarts this one for them.
        twin.abandon()
        problems.append("Kafka does not answer any more")
    if twin is not None and twin.running():
        try:
            twin.ledger(problems, _limit_s(started))
            if (live := _live(started)) is not None:
                note(started.directory, live=live)
            return _read_metrics(started.directory)
        except (ProcessDied, NotReady) as error:
            problems.append(str(error))
            twin.stop()  # the job below works in the same directories
    _ledger_alone(started, problems)
    return _read_metrics(started.directory)


def _kafka_answers(started: StartedRun) -> bool:
    """Say whether the run's Kafka answers; true where it has none."""
    kafka = started.components.endpoints.kafka
    return not kafka.bootstrap or answers(kafka.bootstrap, KAFKA_ANSWERS_S, kafka.login)


def _live(started: StartedRun) -> dict[str, Any] | None:
    """Return how the streaming job's last figures compare with the ledger; None without a streaming job."""
    reader = started.components.live_reader
    if reader is None:
        return None
    figures = reader.final(LIVE_S)
    return agreement(started.directory, *figures) if figures else {"verdict": "not read to its end"}


def _ledger_alone(started: StartedRun, problems: list[str]) -> None:
    keep_kafka_records(started, problems)
    config = ledger_config(started.directory.path, started.options)
    child = started.components.children.start(ChildSpec(LEDGER, ("ledger",), config))
    await_ledger(child, _limit_s(started))


def _limit_s(started: StartedRun) -> float:
    return ledger_limit_s(pq.read_metadata(started.directory.emissions).num_rows)


def keep_kafka_records(started: StartedRun, problems: list[str]) -> None:
    """Keep what Kafka held, unless that has been done or could not be; why it cannot be is added to the problems."""
    kafka, path = started.components.endpoints.kafka, started.directory.kafka_records
    if not kafka.bootstrap or path.is_file() or any(one.startswith(NOT_KEPT) for one in problems):
        return
    try:
        keep(kafka, path)
    except NotReady as error:
        problems.append(str(error))


def await_ledger(child: Child, limit_s: float) -> None:
    """Return once the process has written its ledger; ProcessDied when it fails, NotReady when it takes too long.

    Interrupted, and the process is gone, when a signal asks for an end.
    """
    end_s = time.monotonic() + limit_s
    while child.running():
        if time.monotonic() >= end_s:
            child.stop()
            raise NotReady(f"{child.name} was not written within {limit_s:,.0f} s")
        try:
            # `running` takes in what the child says on the way, and does not wait for it.
            time.sleep(LEDGER_POLL_S)
        except Interrupted:
            child.kill()
            child.stop()
            raise
    if (code := child.stop()) != 0:
        raise child.death(code)


def _read_metrics(directory: RunDirectory) -> dict[str, Any]:
    """Return what the ledger wrote; NotReady when it ended without figures."""
    try:
        metrics: dict[str, Any] = json.loads(directory.metrics.read_text())
    except FileNotFoundError:
        raise NotReady("the ledger ended without figures") from None
    return metrics


def ledger_step(started: StartedRun) -> str | None:
    """Return what the ledger is at, in the words of the process that writes it."""
    children, twin = started.components.children, started.components.twin
    at_work = children.get(LEDGER)
    if at_work is None and twin is not None and twin.running():
        at_work = twin.process
    step = None if at_work is None else at_work.latest.get("step")
    return None if step is None else str(step["words"])


def why(failure: Exception) -> str:
    """Return in one line what happened."""
    return failure.line if isinstance(failure, ProcessDied) else str(failure)


def without_ledger(directory: RunDirectory) -> dict[str, Any]:
    """Return the figures of a run that has no ledger: how many messages were due, and nothing else is known."""
    due = pq.read_metadata(directory.emissions).num_rows
    return dict.fromkeys(METRICS) | {"run_due": due, "partial": True, "partial_reason": None}
