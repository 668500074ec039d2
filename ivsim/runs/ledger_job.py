"""The ledger's work: Kafka's records kept once the twin has all, its queries ended, the ledger built, and each limited in time."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
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
from ivsim.runs.twin_session import TwinSession
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import answers
from ivsim.testbed.process import NotReady, ProcessDied
from ledger.build import ledger_limit_s
from ledger.kept import Tally
from ledger.metrics import METRICS

LEDGER: Final = "ledger"
LEDGER_POLL_S: Final = 0.2
LIVE_S: Final = 10.0
KAFKA_ANSWERS_S: Final = 5.0
# A twin that has fallen behind takes thousands of records a second; one that takes none for so long takes no more.
STALLED_S: Final = 20.0
SLOWEST_PER_S: Final = 500.0


class LedgerJob:
    """The work of one run; `step` may be asked from another thread.

    Args:
        started: the run, whose sources have stopped and whose tables are written.
        problems: what went wrong so far; what goes wrong here is added.
    """

    def __init__(self, started: StartedRun, problems: list[str]) -> None:
        self._started, self._problems = started, problems
        self._taking: Taking | None = None

    def write(self, display: Display, signalled: int | None) -> tuple[dict[str, Any], str | None, int | None]:
        """Return the ledger's figures; without one, why there is none and the signal that ended it, or had come before it.

        Args:
            display: says what is being done.
            signalled: number of the signal that has come already.
        """
        number = signalled
        if number is None:
            try:
                with display.still("accounting for every message", self.step):
                    return self._write(), None, None
            except (ProcessDied, NotReady) as failure:
                reason = why(failure)
            except Interrupted as stop:
                number = stop.number
        if number is not None:
            reason = f"stopped by {Interrupted(number)}"
        error = f"{NO_LEDGER}: {reason}"
        self._problems.append(error)
        # It has rows before it has figures: rows alone would look like a ledger that was finished.
        self._started.directory.ledger.unlink(missing_ok=True)
        return without_ledger(self._started.directory), error, number

    def step(self) -> str | None:
        """Return what the work is at."""
        child = self._started.components.children.get(LEDGER)
        if child is None:
            return None if self._taking is None else self._taking.words()
        step = child.latest.get("step")
        return None if step is None else str(step["words"])

    def keep_kafka_records(self) -> None:
        """Keep what Kafka held, unless that has been done or could not be; why it cannot be is added to the problems."""
        kafka, path = self._started.components.endpoints.kafka, self._started.directory.kafka_records
        if not kafka.bootstrap or path.is_file() or any(one.startswith(NOT_KEPT) for one in self._problems):
            return
        try:
            keep(
                kafka, path, awaits_more=lambda rows: self._taking is not None and self._taking.goes_on(rows)
            )
        except NotReady as error:
            self._problems.append(str(error))

    def _write(self) -> dict[str, Any]:
        twin = self._started.components.twin
        if twin is not None and twin.running() and not self._kafka_answers():
            # Its queries wait two minutes for a Kafka that restarts; nobody restarts this one for them.
            twin.abandon()
            self._problems.append("Kafka does not answer any more")
        ended = twin is not None and twin.running() and self._end_twin(twin)
        self.keep_kafka_records()
        config = ledger_config(self._started.directory.path, self._started.options)
        child = self._started.components.children.start(ChildSpec(LEDGER, ("ledger",), config))
        await_ledger(child, self._limit_s())
        metrics = _read_metrics(self._started.directory)
        if ended and (live := self._live()) is not None:
            note(self._started.directory, live=live)
        return metrics

    def _end_twin(self, twin: TwinSession) -> bool:
        """Keep Kafka's records once the twin has taken all of them, then let its queries end; False where one could not."""
        config = ledger_config(self._started.directory.path, self._started.options)
        due = pq.read_metadata(self._started.directory.emissions).num_rows
        with closing(Tally(config)) as tally:
            self._taking = Taking(tally, twin, due)
            try:
                self.keep_kafka_records()
            finally:
                taking, self._taking = self._taking, None
            if taking.problem is not None:
                self._problems.append(taking.problem)
            try:
                self._problems += twin.finish(tally.rejected, self._limit_s())
            except (ProcessDied, NotReady) as error:
                self._problems.append(str(error))
                return False
        return True

    def _kafka_answers(self) -> bool:
        """Say whether the run's Kafka answers; true where it has none."""
        kafka = self._started.components.endpoints.kafka
        return not kafka.bootstrap or answers(kafka.bootstrap, KAFKA_ANSWERS_S, kafka.login)

    def _live(self) -> dict[str, Any] | None:
        """Return how the streaming job's last figures compare with the ledger; None without a streaming job."""
        reader = self._started.components.live_reader
        if reader is None:
            return None
        figures = reader.final(LIVE_S)
        return agreement(self._started.directory, *figures) if figures else {"verdict": "not read to its end"}

    def _limit_s(self) -> float:
        return ledger_limit_s(pq.read_metadata(self._started.directory.emissions).num_rows)


class Taking:
    """How far the twin is with the records that Kafka holds for it.

    Args:
        tally: counts the records as they are read.
        twin: takes them.
        due: messages of the run.

    Attributes:
        problem: why not all of them are waited for; None where the twin has all.
    """

    def __init__(self, tally: Tally, twin: TwinSession, due: int) -> None:
        self._tally, self._twin = tally, twin
        self._began_s = self._heard_s = time.monotonic()
        self._limit_s = STALLED_S + due / SLOWEST_PER_S
        self.problem: str | None = None

    def goes_on(self, rows: pa.Table) -> bool:
        """Count further records; return whether the twin has more to take, and may still do so."""
        before = self._tally.taken
        if rows.num_rows:
            self._tally.add(rows)
        now_s = time.monotonic()
        if self._tally.taken > before:
            self._heard_s = now_s
        if self.problem is not None or self._tally.taken >= self._tally.good:
            return False
        try:
            self._twin.process.check()
        except ProcessDied as death:
            self.problem = str(death)
        if now_s - self._heard_s > STALLED_S or now_s - self._began_s > self._limit_s:
            self.problem = f"{self.words()} after {now_s - self._began_s:.0f} s"
        return self.problem is None

    def words(self) -> str:
        return f"the twin has taken {self._tally.taken:,} of {self._tally.good:,} good records"


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


def why(failure: Exception) -> str:
    """Return in one line what happened."""
    return failure.line if isinstance(failure, ProcessDied) else str(failure)


def without_ledger(directory: RunDirectory) -> dict[str, Any]:
    """Return the figures of a run that has no ledger: how many messages were due, and nothing else is known."""
    due = pq.read_metadata(directory.emissions).num_rows
    return dict.fromkeys(METRICS) | {"run_due": due, "partial": True, "partial_reason": None}
