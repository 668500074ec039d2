"""One twin process from start to stop: its session, and the queries of one run after the other."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from schemas.control import emit
from schemas.errors import Refusal
from twin import checkpoint, jvm, kafka_topics, warm
from twin.config import TwinConfig
from twin.run_queries import RunQueries, at_root
from twin.session import close_session, open_session

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


class TwinProcess:
    """What `python -m twin` owns; `close` gives all of it back and may be called twice."""

    def __init__(self, config: TwinConfig) -> None:
        self._config = config
        self._session: SparkSession | None = None
        self._queries: RunQueries | None = None
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
            self._queries = RunQueries(self._session, config, self._warm)
            warm_s, batches = self._queries.open()
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
        queries, self._queries = self._queries, None
        if queries is not None:
            queries.close()

    def check(self) -> None:
        """Raise QueryDiedError when a query has ended by itself."""
        if self._queries is not None:
            self._queries.check()

    def progress(self) -> dict[str, Any]:
        """Return what the queries say of themselves; a real-time batch reports when it ends."""
        return {} if self._queries is None else self._queries.progress()

    def finish(self, rejected: int) -> list[str]:
        """Let the queries write what is still theirs, and stop them; return what they could not.

        `rejected` records may not enter a twin, and each has a dead letter.
        """
        queries, self._queries = self._queries, None
        return [] if queries is None else queries.finish(rejected)

    def java_end(self) -> str | None:
        """Return how the session's Java has ended; None where it lives, or has not begun."""
        return None if self._session is None else jvm.end(self._session)

    def close(self) -> None:
        """Stop the queries and Spark."""
        if self._session is None:
            return
        session, self._session = self._session, None
        try:
            self.leave()
        finally:
            close_session(session)


def report_error(error: BaseException, java_end: str | None = None) -> None:
    """Tell the owner why this process ends; what comes of an end of its Java does not say that it was one."""
    first = next(iter(str(error).strip().splitlines()), repr(error))
    why = f"{first[:500]}{at_root(error)}"
    emit("error", message=f"Spark's Java {java_end}: {why}" if java_end else why)
