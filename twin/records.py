"""What Kafka and the gateway's receive log hold of a run, as batches; it judges no message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ledger import fates, sources
from ledger.applied import applied_in_arrow
from ledger.sources import KEY
from twin import source
from twin.config import TwinConfig

_APPLIED: Final = "vehicle_id string, epoch bigint, sequence bigint, applied_at_ns bigint"
_NO_MESSAGES: Final = pa.schema(
    [
        ("vehicle_id", pa.string()), ("epoch", pa.int64()), ("sequence", pa.int64()),
        ("kafka_received_at_ns", pa.int64()), ("appended_at_ns", pa.int64()), ("copies", pa.int64()),
        ("rejected_reason", pa.string()), ("in_kafka", pa.bool_()), ("applied_at_ns", pa.int64()),
        ("contained", pa.bool_()),
    ]
)  # fmt: skip


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class TopicRows:
    """A topic's records, read once and kept, and what was counted of them on the way.

    Attributes:
        counts: of vehicle.status `good` and `rejected` records, of twin.state `updates` and messages `taken`.
    """

    frame: DataFrame
    counts: dict[str, int]


def unreadable(session: SparkSession) -> KafkaRecords:
    """Return the records of a run whose vehicle.status cannot be read."""
    return KafkaRecords(_no_rows(session, _NO_MESSAGES), status_known=False, state_known=False)


def joined(rows: TopicRows, states: TopicRows | None) -> KafkaRecords:
    """Return what two topics hold together; None for a twin.state that cannot be read."""
    return KafkaRecords(
        _messages(rows.frame, states.frame if states else None),
        state_known=states is not None,
        twin_updates=states.counts["updates"] if states else None,
        rejected_records=rows.counts["rejected"],
        good_records=rows.counts["good"],
    )


def _messages(rows: DataFrame, states: DataFrame | None) -> DataFrame:
    session = rows.sparkSession
    messages = session.sql(fates.MESSAGES, records=rows)
    if states is None:
        return session.sql(fates.UNDECIDED, messages=messages)
    return session.sql(fates.CONTAINED, messages=messages, applied=applied(messages, states))


def status(kafka: DataFrame, config: TwinConfig) -> DataFrame:
    """Return vehicle.status without payloads, each record with the reason that keeps it out of the twin."""
    frame = source.parsed(kafka, config)
    return frame.selectExpr(
        *KEY,
        "received_at_ns",
        "appended_at_ns",
        "partition as kafka_partition",
        "offset as kafka_offset",
        "reason",
    )


def state(kafka: DataFrame) -> DataFrame:
    """Return twin.state without payloads: whose, which newest message, when appended, messages counted."""
    # A tombstone ends a twin and updates none.
    frame = kafka.where("value is not null")
    return frame.selectExpr(
        "cast(key as string) as vehicle_id",
        *(
            f"try_cast({source.header(name)} as bigint) as {name}"
            for name in ("epoch", "sequence", "messages")
        ),
        f"{source.APPENDED} as appended_at_ns",
    )


def applied(messages: DataFrame, states: DataFrame) -> DataFrame:
    """Return for each message the append stamp of the first state that contains it."""
    good, known = (
        messages.where("copies is not null"),
        states.where("epoch is not null and sequence is not null"),
    )
    left = good.select(*KEY, "appended_at_ns").groupBy("vehicle_id")
    right = known.select(*KEY, "appended_at_ns").groupBy("vehicle_id")
    return left.cogroup(right).applyInArrow(applied_in_arrow, _APPLIED)


def read_taken(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return when the gateways' logs have each message first; no rows where there is no log."""
    return session.sql(fates.TAKEN, received=_log(session, config, *sources.RECEIVED))


def read_left_behind(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return the messages in requests that a gateway had sent, and Kafka had not answered, when the gateway ended."""
    return session.sql(fates.LEFT, in_flight=_log(session, config, *sources.IN_FLIGHT))


def _log(session: SparkSession, config: TwinConfig, file: str, stamp: str) -> DataFrame:
    path = config.run_file(file)
    if path.is_file():
        return session.read.parquet(str(path))
    return _no_rows(session, sources.gateway_log(stamp))


def _no_rows(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return a table without rows. Made of a Python list, it would start a Python process for each of Spark's slots."""
    return session.createDataFrame(schema.empty_table())
