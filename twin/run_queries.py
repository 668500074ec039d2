"""All that works on one run inside a Spark session: the twin query, what stands beside it, and the live figures."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from schemas.last_words import java_cause_of
from twin import asked_query, dead_letters, history, job, live_query, rehearsal, warm
from twin.config import TwinConfig
from twin.endings import Endings
from twin.live import LiveFigures

log = logging.getLogger("twin")


class QueryDiedError(RuntimeError):
    """A streaming query ended by itself; the message is its first line."""


class RunQueries:
    """The queries of one run; `close` stops them and may be called twice.

    Args:
        session: outlives them.
        config: of the run.
        warmed: what the session has been warmed for.
        lost: returns why they may write no longer, None while they may.
    """

    def __init__(
        self, session: SparkSession, config: TwinConfig, warmed: warm.WarmUp, lost: Callable[[], str | None]
    ) -> None:
        self._session, self._config, self._warmed, self._lost = session, config, warmed, lost
        self._all: list[StreamingQuery] = []
        # Micro-batch queries, which say when they have taken all that there is.
        self._beside: list[StreamingQuery] = []
        self._live: LiveFigures | None = None
        self._endings: Endings | None = None

    def open(self) -> tuple[float, int]:
        """Start everything; return the seconds of the warm-up and the batches rehearsed.

        The twin query has then taken warm-up records.
        """
        session, config = self._session, self._config
        self._all += job.start(session, config)
        rehearsed = rehearsal.start(session, config) if self._warmed.rehearse(config) else None
        if config.live == "spark":
            self._beside += live_query.start(session, config)
        self._beside += asked_query.start(session, config)
        self._all += self._beside
        if config.live == "consumer":
            self._live = LiveFigures(config)
        warm_s = warm.warm_up(config, self.check, self._warmed.records(config))
        warm.await_first_batch(self._beside, self.check)
        batches = rehearsal.finish(session, rehearsed, config, self.check)
        self._warmed.served(config, batches)
        if config.history:
            self._beside += (written := history.start(session, config))
            self._all += written
        if config.twin_ttl_s is not None:
            self._endings = Endings(config)
        return warm_s, batches

    def check(self) -> None:
        """Raise QueryDiedError when a query has ended by itself, or may write no longer."""
        if (lost := self._lost()) is not None:
            raise QueryDiedError(lost)
        for query in self._all:
            if not query.isActive:
                error = query.exception()
                first = str(error).strip().splitlines()[0][:300] if error else "ended"
                raise QueryDiedError(f"query {query.name}: {first}{at_root(error)}")
        if self._endings is not None and self._endings.failure is not None:
            raise QueryDiedError(f"the sweeps of ended twins: {self._endings.failure[:300]}")

    def progress(self) -> dict[str, Any]:
        """Return what the queries say of themselves; a real-time batch reports when it ends."""
        return {query.name: _progress(query) for query in self._all}

    def finish(self, rejected: int) -> list[str]:
        """Wait until all that the twin has taken is told, too, then close; return why it is not.

        A dead query, or a broker that does not answer, is told and not raised: it must not cost the run's ledger.
        """
        problems: list[str] = []
        limit_s = self._config.drain_timeout_s
        try:
            self.check()
            for query in self._beside:
                take_all(query, limit_s)
            dead_letters.await_written(self._config, rejected, self.check, limit_s)
            self._finish_live(limit_s)
            if self._config.history:
                history.compact_all(self._config)
        except Exception as error:  # noqa: BLE001 - told in one line
            problems.append(str(error).strip().splitlines()[0][:300])
        self.close()
        return problems

    def _finish_live(self, limit_s: float) -> None:
        """Let the live figures be told whole; where they are not, the run that compares them with the ledger says so."""
        if self._live is not None:
            try:
                self._live.finish(limit_s)
            except TimeoutError as error:
                log.warning("%s", error)

    def close(self) -> None:
        """Stop all of it, what reads before what writes."""
        endings, self._endings = self._endings, None
        live, self._live = self._live, None
        for thread in (endings, live):
            if thread is not None:
                thread.close()
        while self._all:
            self._all.pop().stop()
        self._beside.clear()


def take_all(query: StreamingQuery, limit_s: float) -> None:
    """Let a micro-batch query take what is in Kafka; TimeoutError where it has not after `limit_s`."""
    failed: list[BaseException] = []

    def take() -> None:
        try:
            query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            failed.append(error)

    # Spark has no limit of its own here, and waits for ever for a Kafka that is gone.
    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    taking.join(limit_s)
    if taking.is_alive():
        raise TimeoutError(f"query {query.name} has not taken all that there is in {limit_s:g} s")
    if failed:
        raise failed[0]


def at_root(error: BaseException | None) -> str:
    """Return what Java threw at the root of an error, where the first line of that does not say so."""
    first = next(iter(str(error).strip().splitlines()), "")
    root = java_cause_of(str(error))
    return f": {root}" if root and root not in first else ""


def _progress(query: StreamingQuery) -> dict[str, Any]:
    last = query.lastProgress
    if last is None:
        return {"active": query.isActive}
    behind = [int(s["metrics"].get("maxOffsetsBehindLatest", 0)) for s in _sources(last) if s.get("metrics")]
    return {
        "active": query.isActive,
        "batch": last["batchId"],
        "rows_per_second": round(float(last["processedRowsPerSecond"] or 0.0), 1),
        "batch_ms": last["batchDuration"],
        "consumer_lag_records": max(behind, default=0),
    }


def _sources(progress: Any) -> list[dict[str, Any]]:
    return list(json.loads(progress.json)["sources"])
