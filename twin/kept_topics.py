"""A run's two topics as its result keeps them, once Kafka is gone: rows as Spark's Kafka source gives them.

kafka_records.parquet has no payloads. In the place of each stands a value of its length, which holds the record's key if the
payload did, and zeros: of a payload nothing else is asked (`twin.source.parsed`).
"""

from __future__ import annotations

from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from schemas.topics import HEADERS
from twin.config import TwinConfig
from twin.kafka_topics import Ends

FILE: Final = "kafka_records.parquet"
STATUS: Final = "vehicle.status"
STATE: Final = "twin.state"
_HEADERS: Final = (*HEADERS, "messages")
_VALUE: Final = (
    "case when value_bytes is null then null"
    " when value_has_key then concat(key, cast(repeat(char(0), cast(value_bytes - length(key) as int)) as binary))"
    " else cast(repeat(char(0), cast(value_bytes as int)) as binary) end"
)


def ends(config: TwinConfig) -> Ends:
    """Return how many rows there are, as the end of one partition; OSError where there is no file."""
    return {0: int(pq.read_metadata(config.run_file(FILE)).num_rows)}


def rows(session: SparkSession, config: TwinConfig, topic: str) -> DataFrame:
    """Return the records of a topic: topic, partition, offset, timestamp, key, value, headers."""
    kept = session.read.parquet(str(config.run_file(FILE))).where(F.col("topic") == topic)
    headers = ", ".join(
        f"if(header_{name} is null, null, named_struct('key', '{name}', 'value', header_{name}))"
        for name in _HEADERS
    )
    return kept.select(
        "topic",
        "partition",
        "offset",
        F.expr("timestamp_millis(appended_at_ns div 1000000)").alias("timestamp"),
        "key",
        F.expr(_VALUE).alias("value"),
        F.expr(f"filter(array({headers}), h -> h is not null)").alias("headers"),
    )
