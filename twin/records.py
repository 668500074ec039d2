"""What Kafka and the gateway's receive log hold of a run, as batches; it judges no message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from twin import kafka_topics, source
from twin.applied import applied_in_arrow
from twin.config import TwinConfig

KEY: Final = ["vehicle_id", "epoch", "sequence"]
_APPLIED: Final = "vehicle_id string, epoch bigint, sequence bigint, applied_at_ns bigint"
_NO_MESSAGES: Final = (
    "vehicle_id string, epoch bigint, sequence bigint, kafka_received_at_ns bigint, appended_at_ns bigint,"
    " copies bigint, rejected_reason string, in_kafka boolean, applied_at_ns bigint, contained boolean"
)


@dataclass
class KafkaRecords:
    """What the topics hold, as far as they could be read.

    Attributes:
        messages: a row per message that has a record; `contained` is null where the twin's states could not be read.
        status_known: vehicle.status was read whole; else `messages` says nothing.
        state_known: twin.state was read whole.
        twin_updates, rejected_records, good_records: None where their topic could not be read.
    """

    messages: DataFrame
    status_known: bool = True
    state_known: bool = True
    twin_updates: int | None = None
    rejected_records: int | None = None
    good_records: int | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def unpersist(self) -> None:
        for frame in self.cached:
            frame.unpersist()


def read(session: SparkSession, config: TwinConfig, partial: list[str]) -> KafkaRecords:
    """Return vehicle.status and twin.state of the run; `partial` says what could not be read and why.

    What could not be read is unknown and not empty: `status_known` and `state_known` say so.
    """
    empty = session.createDataFrame([], _NO_MESSAGES)
    if config.topology == "echo":
        return KafkaRecords(empty)
    rows = _whole(lambda: status(session, config), _STATUS_COUNTS, config, config.topics.status, partial)
    if rows is None:
        return KafkaRecords(empty, status_known=False, state_known=False)
    states = _whole(lambda: state(session, config), _STATE_COUNTS, config, config.topics.state, partial)
    rejected = rows.counts["rejected"]
    return KafkaRecords(
        _joined(rows.frame, states.frame if states else None),
        state_known=states is not None,
        twin_updates=states.counts["records"] if states else None,
        rejected_records=rejected,
        good_records=rows.counts["records"] - rejected,
        cached=[read.frame for read in (rows, states) if read],
    )


@dataclass(frozen=True)
class _Topic:
    """A topic's records, read once and kept, and what was counted of them on the way."""

    frame: DataFrame
    counts: dict[str, int]


_STATE_COUNTS: Final = {"records": "count(*)"}
_STATUS_COUNTS: Final = {"records": "count(*)", "rejected": "count(reason)"}


def _whole(
    read_topic: Callable[[], DataFrame],
    counts: dict[str, str],
    config: TwinConfig,
    topic: str,
    partial: list[str],
) -> _Topic | None:
    """Return what a topic holds; None, and the reason in `partial`, when it cannot be read."""
    try:
        # Asked here first: Spark's own readers would try for a minute.
        kafka_topics.require(config, topic)
        rows = read_topic().cache()
        counted = rows.agg(*(F.expr(sql).alias(name) for name, sql in counts.items())).collect()
    except Exception as error:  # noqa: BLE001 - Spark wraps every failure of Kafka's client in types of its own
        partial.append(f"Kafka at {config.bootstrap}: {topic} is not readable: {_first_line(error)}")
        return None
    return _Topic(rows, counted[0].asDict())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _joined(rows: DataFrame, states: DataFrame | None) -> DataFrame:
    first = F.struct("appended_at_ns", "partition", "offset", "received_at_ns")
    good = rows.where("reason is null")
    messages = good.groupBy(*KEY).agg(F.min(first).alias("first"), F.count("*").alias("copies"))
    messages = messages.select(
        *KEY,
        F.col("first.received_at_ns").alias("kafka_received_at_ns"),
        F.col("first.appended_at_ns"),
        "copies",
    )
    rejected = rows.where("reason is not null and epoch is not null and sequence is not null")
    rejected = rejected.groupBy(*KEY).agg(F.min("reason").alias("rejected_reason"))
    joined = messages.join(rejected, KEY, "full").withColumn("in_kafka", F.lit(True))
    if states is None:
        # A record that may not enter the twin is not in it; of the others nobody knows.
        undecided = F.when(F.col("copies").isNull(), F.lit(False))
        return joined.withColumns({"applied_at_ns": F.lit(None).cast("bigint"), "contained": undecided})
    joined = joined.join(applied(messages, states), KEY, "left")
    return joined.withColumn("contained", F.col("applied_at_ns").isNotNull())


def status(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return vehicle.status without payloads, each record with the reason that keeps it out of the twin."""
    frame = source.parsed(source.read_batch(session, config, config.topics.status), config)
    return frame.select(*KEY, "received_at_ns", "appended_at_ns", "partition", "offset", "reason")


def state(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return twin.state without payloads: whose, which newest message, when appended, messages counted."""
    # A tombstone ends a twin and updates none.
    frame = source.read_batch(session, config, config.topics.state).where("value is not null")
    return frame.select(
        F.col("key").cast("string").alias("vehicle_id"),
        *(source.header(name).try_cast("bigint").alias(name) for name in ("epoch", "sequence", "messages")),
        (F.unix_millis("timestamp") * F.lit(1_000_000)).alias("appended_at_ns"),
    )


def applied(messages: DataFrame, states: DataFrame) -> DataFrame:
    """Return for each message the append stamp of the first state that contains it."""
    left = messages.select(*KEY, "appended_at_ns").groupBy("vehicle_id")
    right = states.where("sequence is not null").select(*KEY, "appended_at_ns").groupBy("vehicle_id")
    return left.cogroup(right).applyInArrow(applied_in_arrow, _APPLIED)


def read_received(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return the first receive stamp of each message in the gateway's own log, no rows when there is no log."""
    path = config.run_file("received.parquet")
    if not path.is_file():
        return session.createDataFrame(
            [], "vehicle_id string, epoch int, sequence bigint, taken_at_ns bigint"
        )
    log = session.read.parquet(str(path))
    return log.groupBy(*KEY).agg(F.min("received_at_ns").alias("taken_at_ns"))
