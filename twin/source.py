"""Kafka's vehicle.status as columns, each record with the reason why it may not enter the twin; no state here."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ledger import admission
from schemas.topics import HEADERS
from twin.config import TwinConfig

WARM_KEY: Final = "ivsim-warm-up"


def warm_topic(config: TwinConfig) -> str:
    """Return the topic of the warm-up records: kept apart, so that vehicle.status holds vehicles' records alone."""
    return f"{config.topics_prefix}twin.warm-up"


def warm_output_topic(config: TwinConfig) -> str:
    """Return the topic in which the twin query shows that it is warm."""
    return f"{config.topics_prefix}twin.warm-up.state"


# A stream waits this long for a Kafka that restarts.
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


def header(name: str) -> str:
    """Return SQL: the last header of that name as text, null where there is none."""
    return f"cast(try_element_at(filter(headers, h -> h.key = '{name}'), -1).value as string)"


def parsed(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Add the headers as typed columns and `reason`, null where the record may enter the twin.

    Columns: vehicle_id, epoch, sequence, sampled_at_ns (null for formats without), received_at_ns,
    appended_at_ns, format, protocol, mode, payload_bytes, reason, and Kafka's own.

    The columns are SQL text. A function of PySpark's that makes a column calls Java, and a run's first message would wait
    for thousands of such calls.
    """
    texts = records.selectExpr(
        "topic", "partition", "offset", "timestamp", "value", "headers",
        "cast(key as string) as vehicle_id",
        "length(value) as payload_bytes",
        f"{APPENDED} as appended_at_ns",
        *(f"{header(name)} as h_{name}" for name in HEADERS),
    )  # fmt: skip
    typed = texts.selectExpr(
        *_PLAIN,
        *(f"h_{name}" for name in HEADERS),
        *(f"try_cast(h_{name} as bigint) as {name}" for name in admission.NUMBERS),
        *(f"h_{name} as {name}" for name in admission.WORDS),
    )
    return typed.selectExpr(
        *_PLAIN, *HEADERS, "h_sampled_at_ns", f"{admission.reason(config, _NAMES_VEHICLE)} as reason"
    )


_PLAIN: Final = (
    "topic", "partition", "offset", "timestamp", "value", "headers", "vehicle_id", "payload_bytes", "appended_at_ns"
)  # fmt: skip
# Kafka's stamps have whole milliseconds.
APPENDED: Final = "unix_millis(timestamp) * 1000000L"
# No Python function may decode inside a real-time query.
_NAMES_VEHICLE: Final = "contains(value, cast(vehicle_id as binary))"


def record_header(name: str, text: str) -> str:
    """Return SQL: a header of a record to be written, whose value is the SQL `text`."""
    return f"struct('{name}' as key, cast({text} as binary) as value)"


def literals(*words: str) -> str:
    """Return SQL: the words as string literals, with commas between them."""
    return ", ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words)
