"""What Kafka and the gateway's receive log hold of a run, as batches; it judges no message."""

from __future__ import annotations

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
    """What the topics hold. `messages`: a row per message that has a record; counts are None without Kafka."""

    messages: DataFrame
    twin_updates: int | None = None
    rejected_records: int | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def unpersist(self) -> None:
        for frame in self.cached:
            frame.unpersist()


def read(session: SparkSession, config: TwinConfig, partial: list[str]) -> KafkaRecords:
    """Return vehicle.status and twin.state of the run; without Kafka no rows, and `partial` says why."""
    empty = session.createDataFrame([], _NO_MESSAGES)
    if config.topology == "echo":
        return KafkaRecords(empty)
    try:
        # Asked here first: Spark's own readers would try for a minute.
        kafka_topics.require(config)
        return _read(session, config)
    except Exception as error:  # noqa: BLE001 - Spark wraps every failure of Kafka's client in types of its own
        partial.append(f"Kafka at {config.bootstrap} is not readable: {_first_line(error)}")
        return KafkaRecords(empty)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _read(session: SparkSession, config: TwinConfig) -> KafkaRecords:
    rows = status(session, config).cache()
    states = state(session, config).cache()
    rejected_of = rows.agg(F.count(F.when(F.col("reason").isNotNull(), 1)).alias("rejected"))
    totals = rejected_of.crossJoin(states.agg(F.count("*").alias("updates"))).head()
    assert totals is not None
    good = rows.where("reason is null")
    first = F.struct("appended_at_ns", "partition", "offset", "received_at_ns")
    messages = good.groupBy(*KEY).agg(F.min(first).alias("first"), F.count("*").alias("copies"))
    messages = messages.select(
        *KEY,
        F.col("first.received_at_ns").alias("kafka_received_at_ns"),
        F.col("first.appended_at_ns"),
        "copies",
    ).cache()
    refused = rows.where("reason is not null and epoch is not null and sequence is not null")
    refused = refused.groupBy(*KEY).agg(F.min("reason").alias("rejected_reason"))
    joined = messages.join(refused, KEY, "full").join(applied(messages, states), KEY, "left")
    joined = joined.withColumn("in_kafka", F.lit(True)).withColumn(
        "contained", F.col("applied_at_ns").isNotNull()
    )
    return KafkaRecords(joined.cache(), totals["updates"], totals["rejected"], [rows, states, messages])


def status(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return vehicle.status without payloads, each record with the reason that keeps it out of the twin."""
    frame = source.parsed(source.read_batch(session, config, config.topics.status), config)
    return frame.select(*KEY, "received_at_ns", "appended_at_ns", "partition", "offset", "reason")


def state(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return twin.state without payloads: whose, which newest message, when appended, messages counted."""
    frame = source.read_batch(session, config, config.topics.state)
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
