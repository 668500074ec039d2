"""Every status, decoded, as partitioned Parquet, and what could not be decoded beside it; never part of the twin.

Below a place (a directory, or `s3a://BUCKET/PATH`) there are two datasets, `history` and `dead-letters`, in
`source=NAME/day=YYYY-MM-DD/hour=HH`: many runs write into one place, each under its own name. Spark reads Kafka and drops copies,
and the driver writes, so that a store needs no committer. It also decodes where executors are elsewhere, which have no Python of
ours; on this machine Spark's own Python workers do, as many at once as there are partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from twin import decoded, source
from twin.config import TwinConfig
from twin.object_store import reached
from twin.place import Place

# Batches of one partition are made one file when there are this many.
COMPACT_AT: Final = 16
# A message that comes again later than this is written again.
DEDUPLICATION: Final = "10 minutes"
GOOD, BAD = "history", "dead-letters"
_FILE: Final = re.compile(r"(?:batch|batches)-([0-9]+)(?:-([0-9]+))?\.parquet")


class Files(NamedTuple):
    """A directory of Parquet files, wherever it is.

    Attributes:
        system: file system that it is in.
        path: of the directory in it.
    """

    system: fs.FileSystem
    path: str

    def __truediv__(self, name: str) -> Files:
        return Files(self.system, f"{self.path}/{name}")

    def names(self) -> list[str]:
        """Return the names of the files and directories in it, sorted; none where it is not there."""
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def read(self, name: str) -> pa.Table:
        with self.system.open_input_file(f"{self.path}/{name}") as file:
            return pq.read_table(file)

    def write(self, name: str, table: pa.Table) -> None:
        """Put a file there, in the place of one of its name; it appears whole."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        # What breaks off an object's upload would leave the half of it: its bytes are all there before it begins.
        in_store = self.system.type_name != "local"
        target = f"{self.path}/{name}"
        # Who reads a dataset passes over names with a dot in front: a twin that was killed may leave one.
        begun = target if in_store else f"{self.path}/.{name}.part"
        if not in_store:
            self.system.create_dir(self.path, recursive=True)
        with self.system.open_output_stream(begun) as stream:
            stream.write(sink.getvalue())
        if not in_store:
            self.system.move(begun, target)

    def remove(self, name: str) -> None:
        """Remove a file; nothing where it is not there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(f"{self.path}/{name}")


def files_of(config: TwinConfig, name: str) -> Files:
    """Return where this twin writes a dataset."""
    system, path = reached(Place(config.history), config.s3_endpoint)
    return Files(system, path.rstrip("/")) / name / f"source={config.history_source}"


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start writing the datasets."""
    records = source.read_stream(session, config, config.topics.status)
    good, bad = files_of(config, GOOD), files_of(config, BAD)
    query = (
        distinct(source.parsed(records, config))
        .writeStream.queryName("history")
        .foreachBatch(lambda frame, number: write_batch(frame, number, good, bad, local=config.local))
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


def write_batch(frame: DataFrame, number: int, good: Files, bad: Files, *, local: bool) -> None:
    """Decode a batch and write it; the same batch written again replaces its own files.

    `local` says whether executors have our Python.
    """
    names = [name for name, _ in decoded.STAMPS]
    wanted = frame.select(*names, "value", "reason").withColumn("detail", F.lit(None).cast("string"))
    if local:
        table = wanted.mapInArrow(decoded.decode_batches, from_arrow_schema(decoded.WITH_VERDICT)).toArrow()
    else:
        batches = decoded.decode_batches(iter(wanted.toArrow().to_batches()))
        table = pa.Table.from_batches(batches, schema=decoded.WITH_VERDICT)
    accepted = pc.is_null(table["reason"])
    write_partitions(table.filter(accepted).select(decoded.SCHEMA.names), good, number)
    stamps = [*names, *(name for name, _ in decoded.VERDICT)]
    write_partitions(table.filter(pc.invert(accepted)).select(stamps), bad, number)


def write_partitions(table: pa.Table, directory: Files, number: int) -> None:
    """Write one file per hour of append; compact the partition when it has many."""
    for hour, rows in _by_hour(table):
        partition = directory / hour
        partition.write(f"batch-{number:08d}.parquet", rows)
        if sum(name.startswith("batch-") for name in partition.names()) >= COMPACT_AT:
            compact(partition)


def _by_hour(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    hours = pc.divide(table["appended_at_ns"].combine_chunks(), 3_600_000_000_000)
    for hour in pc.unique(hours).to_pylist():
        at = datetime.fromtimestamp(hour * 3_600, UTC)
        yield f"day={at:%Y-%m-%d}/hour={at:%H}", table.filter(pc.equal(hours, hour))


def compact(partition: Files) -> None:
    """Make one file of the partition's batches; one that a crash left half done is made again."""
    covered = _drop_covered(partition, [name for name in partition.names() if _FILE.fullmatch(name)])
    if len(covered) < 2:
        return
    numbers = [number for name in covered for number in _range(name)]
    whole = f"batches-{min(numbers):08d}-{max(numbers):08d}.parquet"
    tables = [partition.read(name) for name in covered]
    partition.write(whole, pa.concat_tables(tables, promote_options="default"))
    _drop_covered(partition, [*covered, whole])


def compact_all(config: TwinConfig) -> None:
    """Compact every partition that this twin has written: one file each."""
    for dataset in (files_of(config, GOOD), files_of(config, BAD)):
        for day in dataset.names():
            for hour in (dataset / day).names():
                compact(dataset / day / hour)


def _drop_covered(partition: Files, names: list[str]) -> list[str]:
    """Remove the files whose batches a compacted file has; return the others."""
    kept = []
    ranges = {name: _range(name) for name in names}
    for name, (low, high) in ranges.items():
        others = (other for other in names if other != name and other.startswith("batches-"))
        if any(ranges[other][0] <= low and high <= ranges[other][1] for other in others):
            partition.remove(name)
        else:
            kept.append(name)
    return kept


def _range(name: str) -> tuple[int, int]:
    match = _FILE.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2] or match[1])
