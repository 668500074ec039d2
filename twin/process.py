"""One twin process from start to stop: its session, the queries and the ledger of one run after the other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from schemas.control import emit
from schemas.errors import Refusal
from schemas.last_words import java_cause_of
from twin import (
    checkpoint,
    drain,
    history,
    job,
    jvm,
    kafka_topics,
    ledger,
    live,
    queries,
    rehearsal,
    run_topics,
    warm,
)
from twin.config import TwinConfig
from twin.endings import Endings
from twin.run_topics import RunTopics
from twin.session import close_session, held, open_session

# What holds for the whole session: a run that wants another value needs another process.
_OF_SESSION = (
    "spark_master",
    "spark_conf",
    "jars_dir",
    "jit",
    "shuffle_partitions",
    "shuffle_wait_ms",
    "log_level",
)


class QueryDiedError(RuntimeError):
    """A streaming query ended by itself; the message is its first line."""


class TwinProcess:
    """What `python -m twin` owns; `close` gives all of it back and may be called twice."""

    def __init__(self, config: TwinConfig) -> None:
        self._config = config
        self._session: SparkSession | None = None
        self._queries: list[StreamingQuery] = []
        self._endings: Endings | None = None
        self._warm = warm.WarmUp()
        self._started = time.monotonic()

    def open(self) -> dict[str, Any]:
        """Start everything and return the fields of `ready`; the twin query has then taken warm-up records."""
        config = self._config
        made: list[str] = []
        if config.bridged:
            checkpoint.claim(config)  # refused before a topic is made
            made = kafka_topics.ensure_topics(config)
        if self._session is None:
            self._session = open_session(config)
        opened_s = time.monotonic() - self._started
        warm_s, batches = 0.0, 0
        if config.bridged:
            self._queries.append(job.start(self._session, config))
            rehearsed = rehearsal.start(self._session, config) if self._warm.rehearse(config) else None
            if config.live:
                self._queries += live.start(self._session, config)
            self._queries += queries.start(self._session, config)
            warm_s = warm.warm_up(config, self.check, self._warm.records(config))
            live.await_first_batch(self._queries[1:], self.check)
            batches = rehearsal.finish(rehearsed, config, self.check)
            self._warm.served(config, batches)
            if config.history:
                self._queries += history.start(self._session, config)
            if config.twin_ttl_s is not None:
                self._endings = Endings(config)
        return {
            "trigger": config.trigger,
            "topics_prefix": config.topics_prefix,
            "topics_made": made,
            "session_s": round(opened_s, 1),
            "warm_s": round(warm_s, 1),
            "rehearsed_batches": batches,
            "ready_s": round(time.monotonic() - self._started, 1),
        }

    def reopen(self, config: TwinConfig) -> dict[str, Any]:
        """Leave the run so far and open the queries of another in the same session; return the fields of `ready`.

        Refusal when the other run wants another session.
        """
        for name in _OF_SESSION:
            if (now := getattr(self._config, name)) != (wanted := getattr(config, name)):
                raise Refusal(f"{name} {wanted!r}: this twin process has {now!r}, for all its runs")
        self.leave()
        self._config, self._started = config, time.monotonic()
        return self.open()

    def leave(self) -> None:
        """Stop the queries of the run; the session stays for the next one."""
        self._stop_queries()

    def check(self) -> None:
        """Raise QueryDiedError when a query has ended by itself."""
        for query in self._queries:
            if not query.isActive:
                error = query.exception()
                first = str(error).strip().splitlines()[0][:300] if error else "ended"
                raise QueryDiedError(f"query {query.name}: {first}{_at_root(error)}")
        if self._endings is not None and self._endings.failure is not None:
            raise QueryDiedError(f"the sweeps of ended twins: {self._endings.failure[:300]}")

    def progress(self) -> dict[str, Any]:
        """Return what the queries say of themselves; a real-time batch reports when it ends."""
        return {query.name: _progress(query) for query in self._queries}

    def ledger(self, partial: list[str]) -> dict[str, Any]:
        """Wait until all is applied, stop the queries, write the ledger; return the fields of its event."""
        assert self._session is not None
        started = time.monotonic()
        reasons = list(partial)
        topics = run_topics.of_run(self._session, self._config)
        if self._config.bridged:
            ledger.tell_step("waiting until the twin has all")
            with held(self._session, ledger.stages(self._config)):
                reasons += self._finish_queries(topics)
        drained = time.monotonic()
        metrics = ledger.write_ledger(self._session, self._config, reasons, ledger.tell_step, topics)
        seconds = {"drain_s": round(drained - started, 1), "ledger_s": round(time.monotonic() - drained, 1)}
        return {"metrics": metrics, **seconds}

    def _finish_queries(self, topics: RunTopics) -> list[str]:
        reasons: list[str] = []
        try:
            self.check()
            late = drain.await_applied(topics, self.check, self._config.drain_timeout_s)
            reasons += [late] if late else []
            live.finish(self._queries, self._config.drain_timeout_s)
            if self._config.history:
                history.compact_all(Path(self._config.run_dir))
        except Exception as error:  # noqa: BLE001 - a dead query or broker must not cost the ledger
            reasons.append(str(error).strip().splitlines()[0][:300])
        self._stop_queries()
        return reasons

    def _stop_queries(self) -> None:
        endings, self._endings = self._endings, None
        if endings is not None:
            endings.close()
        for query in reversed(self._queries):
            query.stop()
        self._queries.clear()

    def java_end(self) -> str | None:
        """Return how the session's Java has ended; None where it lives, or has not begun."""
        return None if self._session is None else jvm.end(self._session)

    def close(self) -> None:
        """Stop the queries and Spark."""
        if self._session is None:
            return
        session, self._session = self._session, None
        try:
            self._stop_queries()
        finally:
            close_session(session)


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
    import json  # noqa: PLC0415 - only where asked

    return list(json.loads(progress.json)["sources"])


def report_error(error: BaseException, java_end: str | None = None) -> None:
    """Tell the owner why this process ends; what comes of an end of its Java does not say that it was one."""
    first = next(iter(str(error).strip().splitlines()), repr(error))
    why = f"{first[:500]}{_at_root(error)}"
    emit("error", message=f"Spark's Java {java_end}: {why}" if java_end else why)


def _at_root(error: BaseException | None) -> str:
    """Return what Java threw at the root of an error, where the first line of that does not say so."""
    first = next(iter(str(error).strip().splitlines()), "")
    root = java_cause_of(str(error))
    return f": {root}" if root and root not in first else ""
