"""The ledger's work: Kafka's records kept once the twin has all, the ledger built while its queries end; each limited in time."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.options import RunOptions
from ivsim.report.figures import FiguresAside
from ivsim.runs.children import ChildSpec
from ivsim.runs.components import Components
from ivsim.runs.directory import RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted, again
from ivsim.runs.kafka_log import NOT_KEPT, KafkaLog
from ivsim.runs.reconciliation import agreement
from ivsim.runs.result import NO_LEDGER, ledger_config
from ivsim.runs.snapshot import note
from ivsim.runs.started import StartedRun
from ivsim.runs.twin_session import TwinSession
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import answers
from ivsim.testbed.process import NotReady, ProcessDied
from ledger.build import ledger_limit_s
from ledger.config import BUILD, WHEN_TOLD
from ledger.kept import Tally
from ledger.metrics import METRICS

LEDGER: Final = "ledger"
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
        figures: draws the page's figures, those of the messages once there is a ledger.
    """

    def __init__(self, started: StartedRun, problems: list[str], figures: FiguresAside) -> None:
        self._started, self._problems, self._figures = started, problems, figures
        self._taking: Taking | None = None
        self._log: KafkaLog | None = started.kafka_log
        self._config = ledger_config(started.directory.path, started.options)

    def prepare(self) -> None:
        """Start the process that will build the ledger: it loads what it needs while the sources stop."""
        if self._log is not None:
            self._log.stop_following()
        with contextlib.suppress(OSError):  # no memory for it, say: a later attempt has its reason told
            self._process()

    def _process(self) -> Child:
        children = self._started.components.children
        arguments = ("ledger", WHEN_TOLD)
        return children.get(LEDGER) or children.start(ChildSpec(LEDGER, arguments, self._config))

    def _end_process(self) -> None:
        """End the ledger's process at once: nothing of it may come behind what is said without it."""
        child = self._started.components.children.get(LEDGER)
        if child is not None and child.running():
            child.kill()
            child.stop()

    def write(self, display: Display, signalled: int | None) -> tuple[dict[str, Any], str | None, int | None]:
        """Return the ledger's figures; without one, why there is none and the signal that ended it, or had come before it.

        Args:
            display: says what is being done.
            signalled: number of the signal that has come already.
        """
        number = signalled
        if number is None:
            try:
                with again(), display.still("accounting for every message", self.step):
                    return self._write(), None, None
            except (ProcessDied, NotReady) as failure:
                reason = why(failure)
            except Interrupted as stop:
                number = stop.number
                self._end_process()
            except BaseException:
                self._end_process()  # whoever draws its rows waits for it
                raise
        if number is not None:
            reason = f"stopped by {Interrupted(number)}"
        error = f"{NO_LEDGER}: {reason}"
        self._problems.append(error)
        # It has rows before it has figures: rows alone would look like a ledger that was finished.
        self._started.directory.ledger.unlink(missing_ok=True)
        self._figures.draw("messages")
        return without_ledger(self._started.directory), error, number

    def step(self) -> str | None:
        """Return what the work is at."""
        if (taking := self._taking) is not None:
            return taking.words()
        child = self._started.components.children.get(LEDGER)
        step = None if child is None else child.latest.get("step")
        return None if step is None else str(step["words"])

    def keep_kafka_records(self) -> None:
        """Keep what Kafka held, unless that has been done or could not be; why it cannot be is added to the problems."""
        kafka, path = self._started.components.endpoints.kafka, self._started.directory.kafka_records
        if not kafka.bootstrap or path.is_file() or any(one.startswith(NOT_KEPT) for one in self._problems):
            return
        log = self._unbroken_log()
        taking = self._taking
        try:
            log.keep(lambda: taking is not None and taking.goes_on())
        except NotReady as error:
            self._problems.append(str(error))
        finally:
            self._log = None

    def _write(self) -> dict[str, Any]:
        twin = self._started.components.twin
        if twin is not None and twin.running() and not self._kafka_answers():
            # Its queries wait two minutes for a Kafka that restarts; nobody restarts this one for them.
            twin.abandon()
            self._problems.append("Kafka does not answer any more")
        rejected = None if twin is None or not twin.running() else self._keep_what_it_takes(twin)
        self.keep_kafka_records()
        child = self._process()
        child.send(BUILD)
        limit_s = self._limit_s()
        self._figures.draw("messages", lambda: child.wait_end(limit_s))
        live = None
        if twin is not None and rejected is not None and self._end_twin(twin, rejected):
            live = self._live_figures()
        await_ledger(child, limit_s)
        metrics = _read_metrics(self._started.directory)
        if live is not None:
            compared = (
                agreement(self._started.directory, *live) if live else {"verdict": "not read to its end"}
            )
            note(self._started.directory, live=compared)
        return metrics

    def _keep_what_it_takes(self, twin: TwinSession) -> int:
        """Keep Kafka's records once the twin has taken all of them; return how many of them it had to reject."""
        due = pq.read_metadata(self._started.directory.emissions).num_rows
        log = self._unbroken_log()
        assert log.tally is not None  # where there is a twin
        self._taking = taking = Taking(log.tally, twin, due)
        try:
            self.keep_kafka_records()
        finally:
            self._taking = None
        if taking.problem is not None:
            self._problems.append(taking.problem)
        return taking.rejected

    def _end_twin(self, twin: TwinSession, rejected: int) -> bool:
        """Let the twin's queries end; False where one could not."""
        try:
            self._problems += twin.finish(rejected, self._limit_s())
        except (ProcessDied, NotReady) as error:
            self._problems.append(str(error))
            return False
        return True

    def _unbroken_log(self) -> KafkaLog:
        """Return what has followed Kafka so far, or one that reads all of it anew."""
        if self._log is not None and self._log.problem() is not None:
            self._log.close()  # both write the same unfinished file
            self._log = None
        if self._log is None:
            started = self._started
            self._log = open_kafka_log(started.components, started.directory, started.options)
        return self._log

    def _kafka_answers(self) -> bool:
        """Say whether the run's Kafka answers; true where it has none."""
        kafka = self._started.components.endpoints.kafka
        return not kafka.bootstrap or answers(kafka.bootstrap, KAFKA_ANSWERS_S, kafka.login)

    def _live_figures(self) -> tuple[Any, ...] | None:
        """Return the streaming job's last figures, nothing of them where they do not come; None without a streaming job."""
        reader = self._started.components.live_reader
        return None if reader is None else reader.final(LIVE_S) or ()

    def _limit_s(self) -> float:
        return ledger_limit_s(pq.read_metadata(self._started.directory.emissions).num_rows)


def open_kafka_log(components: Components, directory: RunDirectory, options: RunOptions) -> KafkaLog:
    """Return what keeps a run's records of Kafka, none of them read yet; they are counted where there is a twin to take them."""
    tally = None if components.twin is None else Tally(ledger_config(directory.path, options))
    part = directory.work / "kafka_records.part"
    return KafkaLog(components.endpoints.kafka, directory.kafka_records, tally=tally, part=part)


class Taking:
    """How far the twin is with the records that Kafka holds for it.

    Args:
        tally: of the records that are read.
        twin: takes them.
        due: messages of the run.

    Attributes:
        problem: why not all of them are waited for; None where the twin has all.
    """

    def __init__(self, tally: Tally, twin: TwinSession, due: int) -> None:
        self._tally, self._twin = tally, twin
        self._began_s = self._heard_s = time.monotonic()
        self._limit_s = STALLED_S + due / SLOWEST_PER_S
        self._taken = tally.taken
        self.problem: str | None = None

    def goes_on(self) -> bool:
        """Return whether the twin has more to take, and may still do so."""
        now_s = time.monotonic()
        if self._tally.taken > self._taken:
            self._heard_s, self._taken = now_s, self._tally.taken
        if self.problem is not None or self._tally.taken >= self._tally.good:
            return False
        try:
            self._twin.process.check()
        except ProcessDied as death:
            self.problem = str(death)
        if now_s - self._heard_s > STALLED_S or now_s - self._began_s > self._limit_s:
            self.problem = f"{self.words()} after {now_s - self._began_s:.0f} s"
        return self.problem is None

    @property
    def rejected(self) -> int:
        return self._tally.rejected

    def words(self) -> str:
        return f"the twin has taken {self._tally.taken:,} of {self._tally.good:,} good records"


def await_ledger(child: Child, limit_s: float) -> None:
    """Return once the process has written its ledger; ProcessDied when it fails, NotReady when it takes too long.

    Interrupted, and the process goes on, when a signal asks for an end.
    """
    if not child.wait_end(limit_s):
        child.stop()
        raise NotReady(f"{child.name} was not written within {limit_s:,.0f} s")
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
    return dict.fromkeys(METRICS) | {"run_due": _due(directory), "partial": True, "partial_reason": None}


def _due(directory: RunDirectory) -> int:
    """Return how many messages were due before the run ended or stopped, as far as the vehicles' log says."""
    told = json.loads(directory.snapshot.read_text()) if directory.snapshot.is_file() else {}
    stop_at_ns = told.get("stop_at_ns")
    if stop_at_ns is None:
        return int(pq.read_metadata(directory.emissions).num_rows)
    rows = pq.read_table(directory.emissions, columns=["due_at_ns", "emitted_at_ns"])
    due = pc.or_(pc.less(rows["due_at_ns"], stop_at_ns), pc.is_valid(rows["emitted_at_ns"]))
    return int(pc.sum(due).as_py() or 0)
