"""One twin process from start to stop: its session, and the queries of one run after the other."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from pyspark.sql import SparkSession

from schemas.control import emit
from schemas.errors import Refusal
from twin import checkpoint, jvm, kafka_topics, lease, warm
from twin.checkpoint_files import files_of
from twin.config import TwinConfig
from twin.run_queries import QueryDiedError, RunQueries, at_root
from twin.session import close_session, open_session
from twin.slots import check_slots

log = logging.getLogger("twin")
# What happens that often has no passing cause.
REOPENED_WITHIN_S: Final = 3_600.0
# What holds for the whole session: a run that wants another value needs another process.
_OF_SESSION = (
    "spark_master",
    "spark_conf",
    "jars_dir",
    "s3_jars_dir",
    "s3_endpoint",
    "jit",
    "shuffle_partitions",
    "shuffle_wait_ms",
    "log_level",
    "driver_host",
)


class TwinProcess:
    """What `python -m twin` owns; `close` gives all of it back and may be called twice."""

    def __init__(self, config: TwinConfig) -> None:
        self._config = config
        self._session: SparkSession | None = None
        self._queries: RunQueries | None = None
        self._lease: lease.Lease | None = None
        self._reopened: list[float] = []
        self._warm = warm.WarmUp()
        self._started = time.monotonic()

    def open(self) -> dict[str, Any]:
        """Start everything and return the fields of `ready`; the twin query has then taken warm-up records."""
        config = self._config
        made: list[str] = []
        if config.bridged and not config.checkpoint.remote:
            self._claim(config)  # refused before a topic is made
            made = kafka_topics.ensure_topics(config)
        if self._session is None:
            self._session = open_session(config)
        opened_s = time.monotonic() - self._started
        if config.bridged and config.checkpoint.remote:
            self._claim(config)
            check_slots(self._session, config)
            made = kafka_topics.ensure_topics(config)
        warm_s, batches = 0.0, 0
        if config.bridged:
            self._queries = RunQueries(self._session, self._config, self._warm, self._lost)
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
        for name in _OF_SESSION if config.local else (*_OF_SESSION, "kafka_login"):
            if (now := getattr(self._config, name)) != (wanted := getattr(config, name)):
                raise Refusal(f"{name} {wanted!r}: this twin process has {now!r}, for all its runs")
        self.leave()
        self._config, self._started, self._reopened = config, time.monotonic(), []
        return self.open()

    def _claim(self, config: TwinConfig) -> None:
        """Take the checkpoint for this twin alone; Refusal where it is another's, or another twin has it open."""
        if self._lease is not None:
            return
        files = files_of(self._session, config.checkpoint)
        try:
            checkpoint.claim(config, files)
            self._lease = lease.take(files, config.checkpoint)
            if config.history and not config.history_source:
                # Who writes there next, from another checkpoint, numbers batches anew.
                self._config = config.model_copy(update={"history_source": checkpoint.name_of(files)})
        except OSError as error:
            raise Refusal(f"checkpoint_dir {config.checkpoint}: {error.strerror or error}") from error

    def _lost(self) -> str | None:
        return None if self._lease is None else self._lease.lost()

    def leave(self) -> None:
        """Stop the queries of the run and give its checkpoint back; the session stays for the next one."""
        self._stop_queries()
        lost = self._lost()
        held, self._lease = self._lease, None
        if held is None:
            return
        try:
            held.close()
            if lost is None and not self._config.checkpoint_kept:
                files_of(self._session, self._config.checkpoint).remove("")
        except OSError as error:  # a store, or a Java, that is gone: the lease ends by itself
            log.warning("checkpoint_dir %s stays: %s", self._config.checkpoint, error)

    def _stop_queries(self) -> None:
        queries, self._queries = self._queries, None
        if queries is not None:
            queries.close()

    def check(self) -> None:
        """Raise QueryDiedError when a query has ended by itself, or this twin has lost its checkpoint to another."""
        if self._queries is None:
            return
        try:
            self._queries.check()
        except QueryDiedError:
            if self._lost() is not None:
                self._stop_queries()
            raise

    def may_open_again(self) -> bool:
        """Return whether queries that have died may be opened once more: at most `reopenings` times in REOPENED_WITHIN_S."""
        now_s = time.monotonic()
        self._reopened = [at_s for at_s in self._reopened if now_s - at_s < REOPENED_WITHIN_S]
        return len(self._reopened) < self._config.reopenings

    def again(self, error: QueryDiedError) -> dict[str, Any]:
        """Open the queries that have died once more, in the same session; return the fields of `reopened`.

        QueryDiedError where they die again, or cannot be opened. A lease that was lost is taken anew: whoever stood still for
        long may have lost it to nobody.
        """
        begun_s = self._started = time.monotonic()
        self._reopened.append(begun_s)
        try:
            self._stop_queries()
            if self._lease is not None and self._lost() is not None:
                self._lease.close()
                self._lease = None
            self.open()
        except Exception as failure:
            # Whatever Java, Kafka or the store say of it: the next time may be another.
            raise QueryDiedError(str(failure).partition("\n")[0][:300]) from failure
        return {
            "cause": str(error),
            "reopened": len(self._reopened),
            "of": self._config.reopenings,
            "opened_s": round(time.monotonic() - begun_s, 1),
            "at_s": round(begun_s, 3),
        }

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
        try:
            self.leave()
        finally:
            session, self._session = self._session, None
            if session is not None:
                close_session(session)


def report_error(error: BaseException, java_end: str | None = None) -> None:
    """Tell the owner why this process ends; what comes of an end of its Java does not say that it was one."""
    first = next(iter(str(error).strip().splitlines()), repr(error))
    why = f"{first[:500]}{at_root(error)}"
    emit("error", message=f"Spark's Java {java_end}: {why}" if java_end else why)
