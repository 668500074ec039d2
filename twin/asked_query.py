"""Runs the query that a configuration asks for beside the twin's own (`twin.queries`): micro-batches, a file of answers each."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from twin import source
from twin.config import TwinConfig
from twin.queries import QUERIES, answers


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start it; none where none is asked for. Each batch of its answers is a file below RUN_DIR/answers."""
    if config.query is None:
        return []
    answered = import_module(QUERIES[config.query].module).answering(session, config.stations)
    records = source.read_stream(session, config, config.topics.status, source.warm_topic(config))
    good = source.parsed(records, config).where("reason is null")

    def write(frame: DataFrame, number: int) -> None:
        answers.write_batch(answered(frame), Path(config.run_dir), number)

    return [
        good.writeStream.queryName(config.query)
        .foreachBatch(write)
        .option("checkpointLocation", str(config.checkpoint / config.query))
        .trigger(processingTime="0 seconds")
        .start()
    ]
