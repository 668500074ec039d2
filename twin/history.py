"""Live figures of a run; not written yet."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from twin.config import TwinConfig


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start the live queries."""
    del session, config
    return []
