"""Kafka's vehicle.status as columns, each record with the reason why it may not enter the twin; no state here."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from schemas.topics import HEADERS
from twin.config import TwinConfig

WARM_KEY: Final = "ivsim-warm-up"
# Above this a sequence or an epoch is noise: one message a nanosecond for three months.
MAX_SEQUENCE: Final = 2**53
# Formats whose payload names its vehicle as the 17 ASCII characters; `small` names nothing.
NAMELESS_FORMATS: Final = ("small",)
FORMAT_NAMES: Final = ("json", "protobuf", "flatbuffers", "avro", "msgpack", "small")

# reason -> what it says; also the legend of docs/twin.md and the dead-letter records
REASONS: Final = {
    "no_key": "the record has no key, or one that is no vehicle's name",
    "payload_too_large": "the value is longer than max_payload_bytes",
    "no_payload": "the record has no value",
    "header_missing": "one of the headers format, protocol, mode, epoch, sequence, received_at_ns is missing",
    "bad_header": "a header is longer than 64 characters or not printable ASCII",
    "unknown_format": "the header format names no format",
    "bad_epoch": "the header epoch is no integer from 0 to 2^53",
    "bad_sequence": "the header sequence is no integer from 1 to 2^53",
    "bad_stamp": "a stamp is no positive integer",
    "stamp_in_future": "a stamp is later than Kafka's own by more than the tolerance",
    "other_vehicle": "the payload names another vehicle than the record's key",
}


def warm_topic(config: TwinConfig) -> str:
    """Return the topic of the warm-up records: kept apart, so that vehicle.status holds vehicles' records alone."""
    return f"{config.topics_prefix}twin.warm-up"


def warm_output_topic(config: TwinConfig) -> str:
    """Return the topic in which the twin query shows that it is warm."""
    return f"{config.topics_prefix}twin.warm-up.state"


# A stream waits this long for a Kafka that restarts; a batch is asked for only where Kafka answers.
_OUTAGE_MS: Final = "120000"


def kafka_options(config: TwinConfig, *topics: str) -> dict[str, str]:
    """Return the reader's options, the same for streams and batches."""
    return {
        **config.spark_kafka(),
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        # Topics of a run are never trimmed; a gap in the offsets would be lost messages.
        "failOnDataLoss": "true",
        "kafka.max.partition.fetch.bytes": "4194304",
        "kafka.default.api.timeout.ms": "15000",
        "kafka.request.timeout.ms": "10000",
        "fetchOffset.numRetries": "3",
    }


def read_stream(session: SparkSession, config: TwinConfig, *topics: str, **more: str) -> DataFrame:
    """Return the topics as an unbounded table; `more` options of the reader."""
    options = kafka_options(config, *topics) | {"kafka.default.api.timeout.ms": _OUTAGE_MS, **more}
    return session.readStream.format("kafka").options(**options).load()


def read_until(session: SparkSession, config: TwinConfig, topic: str, ends: dict[int, int]) -> DataFrame:
    """Return what a topic holds before these offsets, one for each of its partitions."""
    options = kafka_options(config, topic) | {"endingOffsets": json.dumps({topic: ends})}
    return session.read.format("kafka").options(**options).load()


def header(name: str) -> Column:
    """Return the last header of that name as text, null where there is none."""
    return F.expr(f"cast(try_element_at(filter(headers, h -> h.key = '{name}'), -1).value as string)")


def parsed(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Add the headers as typed columns and `reason`, null where the record may enter the twin.

    Columns: vehicle_id, epoch, sequence, sampled_at_ns (null for formats without), received_at_ns,
    appended_at_ns, format, protocol, mode, payload_bytes, reason, and Kafka's own.
    """
    texts = records.select(
        "topic", "partition", "offset", "timestamp", "value", "headers",
        F.col("key").cast("string").alias("vehicle_id"),
        F.length("value").alias("payload_bytes"),
        *(header(name).alias(f"h_{name}") for name in HEADERS),
    )  # fmt: skip
    numbers = {name: F.col(f"h_{name}").try_cast("bigint") for name in HEADERS if name not in _WORDS}
    typed = texts.withColumns(
        {**numbers, **{name: F.col(f"h_{name}") for name in _WORDS}, "appended_at_ns": _appended()}
    )
    return typed.withColumn("reason", _reason(config)).drop(
        *(f"h_{name}" for name in HEADERS if name != "sampled_at_ns")
    )


_WORDS: Final = ("format", "protocol", "mode")


def _appended() -> Column:
    # Kafka's stamps have whole milliseconds.
    return F.unix_millis("timestamp") * F.lit(1_000_000)


def _reason(config: TwinConfig) -> Column:
    required = [name for name in HEADERS if name != "sampled_at_ns"]
    late = F.col("appended_at_ns") + F.lit(int(config.future_tolerance_s * 1e9))
    stamps = F.col("received_at_ns").isNull() | (F.col("received_at_ns") <= 0)
    sampled = (F.col("h_sampled_at_ns") != "") & (
        F.col("sampled_at_ns").isNull() | (F.col("sampled_at_ns") <= 0)
    )
    rules: list[tuple[str, Column]] = [
        ("no_key", F.col("vehicle_id").isNull() | ~F.col("vehicle_id").rlike(r"\A[A-Za-z0-9_-]{1,32}\z")),
        ("payload_too_large", F.col("payload_bytes") > config.max_payload_bytes),
        ("no_payload", F.col("payload_bytes").isNull() | (F.col("payload_bytes") == 0)),
        ("header_missing", _any([F.col(f"h_{name}").isNull() for name in required])),
        ("bad_header", _any([~F.col(f"h_{name}").rlike(r"\A[ -~]{0,64}\z") for name in HEADERS])),
        ("unknown_format", ~F.col("h_format").isin(*FORMAT_NAMES, *config.more_formats)),
        ("bad_epoch", ~_between("epoch", 0)),
        ("bad_sequence", ~_between("sequence", 1)),
        ("bad_stamp", stamps | F.coalesce(sampled, F.lit(False))),
        (
            "stamp_in_future",
            (F.col("received_at_ns") > late) | F.coalesce(F.col("sampled_at_ns") > late, F.lit(False)),
        ),
        ("other_vehicle", ~F.col("h_format").isin(*NAMELESS_FORMATS) & ~_names_its_vehicle()),
    ]
    chain = F.when(rules[0][1], F.lit(rules[0][0]))
    for name, condition in rules[1:]:
        chain = chain.when(condition, F.lit(name))
    return chain


def _names_its_vehicle() -> Column:
    # No Python function may decode inside a real-time query; every format but `small` has the name as plain bytes.
    return F.expr("contains(value, cast(vehicle_id as binary))")


def _between(name: str, low: int) -> Column:
    return F.coalesce(F.col(name).between(low, MAX_SEQUENCE), F.lit(False))


def _any(conditions: list[Column]) -> Column:
    chain = conditions[0]
    for condition in conditions[1:]:
        chain = chain | F.coalesce(condition, F.lit(False))
    return chain
