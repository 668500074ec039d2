"""What the run's two topics hold: each is read once, and again only where it has grown since; it judges no message."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from twin import kafka_topics, records, source
from twin.config import TwinConfig
from twin.kafka_topics import Ends
from twin.records import KafkaRecords, TopicRows

STATUS: Final = "status"
STATE: Final = "state"


@dataclass(frozen=True)
class Topic:
    """How one topic is asked and read.

    Attributes:
        name: as Kafka has it.
        ends: asks Kafka how far it goes; raises where it cannot say.
        rows: reads it so far, and keeps what it has read.
    """

    name: str
    ends: Callable[[], Ends]
    rows: Callable[[Ends], TopicRows]


class RunTopics:
    """vehicle.status and twin.state of a run; `close` forgets what was read of them."""

    def __init__(self, topics: dict[str, Topic], bootstrap: str) -> None:
        self._topics, self._bootstrap = topics, bootstrap
        self._read: dict[str, tuple[Ends, TopicRows]] = {}

    def taken_and_due(self) -> tuple[int, int]:
        """Return how many messages the twins have counted and how many good records there are.

        Raises what prevents it.
        """
        counts: dict[str, int] = {}
        for rows in self._look().values():
            if isinstance(rows, Exception):
                raise rows
            counts |= rows.counts
        return counts["taken"], counts["good"]

    def rejected(self) -> int:
        """Return how many records of vehicle.status may not enter a twin. Raises what prevents it."""
        rows = self._look()[STATUS]
        if isinstance(rows, Exception):
            raise rows
        return rows.counts["rejected"]

    def records(self, session: SparkSession, partial: list[str]) -> KafkaRecords:
        """Return what the topics hold now; `partial` says what could not be read and why.

        What could not be read is unknown and not empty: `status_known` and `state_known` say so.
        """
        readable: dict[str, TopicRows] = {}
        for name, rows in self._look().items():
            if not isinstance(rows, Exception):
                readable[name] = rows
            elif STATUS in readable or name == STATUS:  # without the messages their states say nothing
                topic = self._topics[name].name
                partial.append(f"Kafka at {self._bootstrap}: {topic} is not readable: {_first_line(rows)}")
        if STATUS not in readable:
            return records.unreadable(session)
        return records.joined(readable[STATUS], readable.get(STATE))

    def close(self) -> None:
        """Let Spark forget what was read."""
        for name in self._topics:
            self._forget(name)

    def _look(self) -> dict[str, TopicRows | Exception]:
        """Return what each topic holds, or why that cannot be said; both are read at the same time."""
        with ThreadPoolExecutor(len(self._topics)) as pool:
            return dict(zip(self._topics, pool.map(self._rows, self._topics), strict=True))

    def _rows(self, name: str) -> TopicRows | Exception:
        topic = self._topics[name]
        try:
            # Asked here first: Spark's own readers would try for a minute.
            ends = topic.ends()
            read = self._read.get(name)
            if read is None or read[0] != ends:
                self._forget(name)
                read = self._read[name] = ends, topic.rows(ends)
        except Exception as error:  # noqa: BLE001 - Spark wraps every failure of Kafka's client in types of its own
            return error
        return read[1]

    def _forget(self, name: str) -> None:
        if (read := self._read.pop(name, None)) is not None:
            read[1].frame.unpersist()


def of_run(session: SparkSession, config: TwinConfig) -> RunTopics:
    """Return the topics of a run, of which nothing is read yet."""

    def topic(name: str, rows: Callable[[DataFrame], TopicRows]) -> Topic:
        return Topic(
            name,
            lambda: kafka_topics.ends(config, name),
            lambda ends: rows(source.read_until(session, config, name, ends)),
        )

    return RunTopics(
        {
            STATUS: topic(config.topics.status, lambda kafka: _status(records.status(kafka, config))),
            STATE: topic(config.topics.state, lambda kafka: _state(records.state(kafka))),
        },
        config.bootstrap,
    )


def _status(frame: DataFrame) -> TopicRows:
    kept = frame.cache()
    return _counted(kept, kept, good="count(*) - count(reason)", rejected="count(reason)")


def _state(frame: DataFrame) -> TopicRows:
    kept = frame.cache()
    twins = kept.groupBy("vehicle_id").agg(F.count("*").alias("n"), F.max("messages").alias("m"))
    return _counted(kept, twins, updates="coalesce(sum(n), 0)", taken="coalesce(sum(m), 0)")


def _counted(kept: DataFrame, of: DataFrame, **counts: str) -> TopicRows:
    """Return rows with what is counted while they are read."""
    (row,) = of.agg(*(F.expr(sql).alias(name) for name, sql in counts.items())).collect()
    return TopicRows(kept, row.asDict())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
