"""The run's own ledger, by the warm Spark session: what Kafka holds is read by Spark, and joined by the ledger's statements.

`ledger.build` makes the same of the files alone, by DuckDB; a test holds the two equal row by row.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from ledger import balance, fates, sources
from ledger.build import LEDGER, finish
from ledger.window import Window, read_window
from schemas.control import emit
from twin import records, run_topics
from twin.config import TwinConfig
from twin.run_topics import RunTopics
from twin.session import held

COMPILED_FROM_ROWS: Final = 200_000


def write_ledger(
    session: SparkSession,
    config: TwinConfig,
    partial: list[str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    topics: RunTopics | None = None,
) -> dict[str, Any]:
    """Write ledger.parquet (one row per message due) and metrics.json; return what metrics.json holds.

    `say` is told of each step in a few words. What `topics` has read is not read again, unless there is more.

    Refusal when the emission log is missing or does not name each message once; ArithmeticError when
    the fates of a vehicle's messages do not add up to those due.
    """
    reasons = list(partial or [])
    columns = sources.emission_columns(config)
    window = read_window(config, reasons)
    topics = topics or run_topics.of_run(session, config)
    with held(session, stages(config)), closing(topics):
        say("reading Kafka")
        kafka = topics.records(session, reasons)
        say("giving each message its fate")
        emissions = session.read.parquet(str(config.run_file(sources.EMISSION_LOG))).selectExpr(*columns)
        ledger = _placed(session, config, emissions, kafka, window)
        _write_one_file(ledger, config.run_file(LEDGER), sources.messages_due(config))
    say("computing the figures")
    return finish(config, kafka, window, reasons)


def stages(config: TwinConfig) -> dict[str, str]:
    """Return how Spark runs the stages of a batch over the run's messages.

    For the few rows of most runs compiling a class for each stage would take longer than running them, and so would
    starting a second Python process.
    """
    if sources.messages_due(config) > COMPILED_FROM_ROWS:
        return {"spark.sql.codegen.wholeStage": "true"}
    return {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}


def _placed(
    session: SparkSession,
    config: TwinConfig,
    emissions: DataFrame,
    kafka: records.KafkaRecords,
    window: Window,
) -> DataFrame:
    """Return one row per message due with its stamps at every hop, its fate and, if lost, its hop."""
    tables = {
        "emissions": emissions,
        "contained": kafka.messages,
        "taken": records.read_taken(session, config),
        "left_behind": records.read_left_behind(session, config),
    }
    return session.sql(fates.ledger(config, window, status_known=kafka.status_known), **tables)


def _write_one_file(frame: DataFrame, path: Path, due: int) -> None:
    """Write the rows, sorted and checked, to one file; Spark writes it, so that a long run's need not fit into memory."""
    parts = path.with_suffix(".parts")
    shutil.rmtree(parts, ignore_errors=True)  # of a ledger that was ended in the middle
    try:
        ordered = frame.coalesce(1).sortWithinPartitions(*sources.KEY)
        ordered.write.option("compression", "zstd").parquet(str(parts))
        (part,) = parts.glob("part-*.parquet")
        balance.check(part, due)
        part.replace(path)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def tell_step(words: str) -> None:
    """Tell the owner what the ledger is at."""
    emit("step", words=words)
