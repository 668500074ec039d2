"""Every status, decoded, as partitioned Parquet, and what could not be decoded beside it; never part of the twin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from twin import decoded, source
from twin.config import TwinConfig

# Batches of one partition are made one file when there are this many.
COMPACT_AT: Final = 16
# A message that comes again later than this is written again.
DEDUPLICATION: Final = "10 minutes"
_FILE: Final = re.compile(r"(?:batch|batches)-([0-9]+)(?:-([0-9]+))?\.parquet")


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start writing RUN_DIR/history and RUN_DIR/dead-letters."""
    records = source.read_stream(session, config, config.topics.status)
    query = (
        distinct(source.parsed(records, config))
        .writeStream.queryName("history")
        .foreachBatch(lambda frame, number: write_batch(frame, number, Path(config.run_dir)))
        .option("checkpointLocation", str(config.checkpoint / "history"))
        .outputMode("append")
        .trigger(processingTime=f"{round(config.history_interval_s * 1000)} milliseconds")
        .start()
    )
    return [query]


def distinct(rows: DataFrame) -> DataFrame:
    """Drop further copies of a good message; a bad record is one of its own."""
    message = F.concat_ws("/", "vehicle_id", "epoch", "sequence")
    bad = F.concat_ws("/", F.lit("#"), "partition", "offset")
    named = rows.withColumn("message", F.when(F.col("reason").isNull(), message).otherwise(bad))
    return named.withWatermark("timestamp", DEDUPLICATION).dropDuplicatesWithinWatermark(["message"])


def write_batch(frame: DataFrame, number: int, run_dir: Path) -> None:
    """Decode a batch and write it; the same batch written again replaces its own files."""
    names = [name for name, _ in decoded.STAMPS]
    wanted = frame.select(*names, "value", "reason").withColumn("detail", F.lit(None).cast("string"))
    table = wanted.mapInArrow(decoded.decode_batches, from_arrow_schema(decoded.WITH_VERDICT)).toArrow()
    good = pc.is_null(table["reason"])
    write_partitions(table.filter(good).select(decoded.SCHEMA.names), run_dir / "history", number)
    stamps = [*names, *(name for name, _ in decoded.VERDICT)]
    write_partitions(table.filter(pc.invert(good)).select(stamps), run_dir / "dead-letters", number)


def write_partitions(table: pa.Table, directory: Path, number: int) -> None:
    """Write one file per hour of append; compact the partition when it has many."""
    for hour, rows in _by_hour(table):
        partition = directory / hour
        partition.mkdir(parents=True, exist_ok=True)
        _replace(rows, partition / f"batch-{number:08d}.parquet")
        if len(list(partition.glob("batch-*.parquet"))) >= COMPACT_AT:
            compact(partition)


def _by_hour(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    hours = pc.divide(table["appended_at_ns"].combine_chunks(), 3_600_000_000_000)
    for hour in pc.unique(hours).to_pylist():
        at = datetime.fromtimestamp(hour * 3_600, UTC)
        yield f"day={at:%Y-%m-%d}/hour={at:%H}", table.filter(pc.equal(hours, hour))


def compact(partition: Path) -> None:
    """Make one file of the partition's batches; one that a crash left half done is made again."""
    files = sorted(path for path in partition.glob("batch*.parquet") if _FILE.fullmatch(path.name))
    covered = _drop_covered(files)
    if len(covered) < 2:
        return
    numbers = [number for path in covered for number in _range(path)]
    table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in covered])
    _replace(table, partition / f"batches-{min(numbers):08d}-{max(numbers):08d}.parquet")
    _drop_covered([*covered, partition / f"batches-{min(numbers):08d}-{max(numbers):08d}.parquet"])


def compact_all(run_dir: Path) -> None:
    """Compact every partition of a run: one file each."""
    for directory in (run_dir / "history", run_dir / "dead-letters"):
        for partition in sorted(directory.glob("day=*/hour=*")):
            compact(partition)


def _drop_covered(files: list[Path]) -> list[Path]:
    """Remove the files whose batches a compacted file has; return the others."""
    kept = []
    ranges = {path: _range(path) for path in files}
    for path, (low, high) in ranges.items():
        others = (other for other in files if other != path and other.name.startswith("batches-"))
        if any(ranges[other][0] <= low and high <= ranges[other][1] for other in others):
            path.unlink(missing_ok=True)
        else:
            kept.append(path)
    return kept


def _range(path: Path) -> tuple[int, int]:
    match = _FILE.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or match[1])


def _replace(table: pa.Table, path: Path) -> None:
    temporary = path.with_suffix(".part")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
