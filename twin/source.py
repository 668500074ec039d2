"""Kafka's vehicle.status as columns, each record with the reason why it may not enter the twin; no state here."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import DataFrame, SparkSession

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
    numbers = [name for name in HEADERS if name not in _WORDS]
    typed = texts.selectExpr(
        *_PLAIN,
        *(f"h_{name}" for name in HEADERS),
        *(f"try_cast(h_{name} as bigint) as {name}" for name in numbers),
        *(f"h_{name} as {name}" for name in _WORDS),
    )
    return typed.selectExpr(*_PLAIN, *HEADERS, "h_sampled_at_ns", f"{_reason(config)} as reason")


_WORDS: Final = ("format", "protocol", "mode")
_PLAIN: Final = (
    "topic", "partition", "offset", "timestamp", "value", "headers", "vehicle_id", "payload_bytes", "appended_at_ns"
)  # fmt: skip
# Kafka's stamps have whole milliseconds.
APPENDED: Final = "unix_millis(timestamp) * 1000000L"


def _reason(config: TwinConfig) -> str:
    required = [name for name in HEADERS if name != "sampled_at_ns"]
    late = f"appended_at_ns + {int(config.future_tolerance_s * 1e9)}L"
    rules = {
        "no_key": r"vehicle_id is null or not vehicle_id rlike r'\A[A-Za-z0-9_-]{1,32}\z'",
        "payload_too_large": f"payload_bytes > {config.max_payload_bytes}",
        "no_payload": "payload_bytes is null or payload_bytes = 0",
        "header_missing": " or ".join(f"h_{name} is null" for name in required),
        "bad_header": " or ".join(
            f"coalesce(not h_{name} rlike r'\\A[ -~]{{0,64}}\\z', false)" for name in HEADERS
        ),
        "unknown_format": f"h_format not in ({literals(*FORMAT_NAMES, *config.more_formats)})",
        "bad_epoch": f"not coalesce(epoch between 0 and {MAX_SEQUENCE}, false)",
        "bad_sequence": f"not coalesce(sequence between 1 and {MAX_SEQUENCE}, false)",
        "bad_stamp": (
            "received_at_ns is null or received_at_ns <= 0"
            " or coalesce(h_sampled_at_ns != '' and (sampled_at_ns is null or sampled_at_ns <= 0), false)"
        ),
        "stamp_in_future": f"received_at_ns > {late} or coalesce(sampled_at_ns > {late}, false)",
        # No Python function may decode inside a real-time query; every format but `small` has the name as plain bytes.
        "other_vehicle": (
            f"h_format not in ({literals(*NAMELESS_FORMATS)}) and not contains(value, cast(vehicle_id as binary))"
        ),
    }
    return f"case {' '.join(f'when {rule} then {literals(name)}' for name, rule in rules.items())} end"


def record_header(name: str, text: str) -> str:
    """Return SQL: a header of a record to be written, whose value is the SQL `text`."""
    return f"struct('{name}' as key, cast({text} as binary) as value)"


def literals(*words: str) -> str:
    """Return SQL: the words as string literals, with commas between them."""
    return ", ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words)
