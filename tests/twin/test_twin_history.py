"""The decoded history: typed columns, one row per message, files that compact and survive a repeated batch."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.vehicles.vehicle import Vehicle
from tests.store_server import BUCKET, StoreServer, store_with_keys
from tests.twin.made_up import MadeUpRun, payload_of, status_headers
from twin import decoded, history
from twin.config import TwinConfig
from twin.object_store import reached
from twin.place import Place

FULL = sorted(set(FORMATS) - {"small"})


@pytest.fixture(scope="module")
def payloads() -> dict[str, bytes]:
    vehicle = Vehicle(1, "trailer", random.Random(4))
    status = vehicle.status(3, 1, 1_700_000_000_000_000_000, "PERIODIC")
    return {name: FORMATS[name].encode(status) for name in FULL}


def test_every_format_gives_the_same_columns(payloads: dict[str, bytes]) -> None:
    rows = {name: decoded.row(payload, name) for name, payload in payloads.items()}
    table = pa.Table.from_pylist(
        [rows[name] for name in FULL], schema=pa.schema(list(decoded.SCHEMA)[len(decoded.STAMPS) :])
    )
    assert table.column("header_vehicle_id").to_pylist() == [vehicle_id(1)] * len(FULL)
    first = table.slice(0, 1)
    assert all(table.slice(n, 1).equals(first) for n in range(len(FULL)))
    assert first["motion_odometer_m"].type == pa.int64()
    assert first["axles"][0].as_py()[0]["wheels"]


def test_small_names_no_columns() -> None:
    row = decoded.row(b"message007", "small")
    assert row["position_latitude_deg"] is None


def batch_table(number: int, rows: int = 3) -> pa.Table:
    hour = 1_700_000_000 // 3_600 * 3_600
    stamps = [(hour + 3_600 * (number % 2)) * 1_000_000_000] * rows
    return pa.table({"appended_at_ns": stamps, "n": [number] * rows})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_with_keys(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(params=["directory", "object store"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> TwinConfig:
    """A history in a directory of this machine, and one in an object store."""
    place, endpoint = str(tmp_path), ""
    if request.param == "object store":
        place = f"s3a://{BUCKET}/{uuid.uuid4().hex[:8]}"
        endpoint = request.getfixturevalue("store").endpoint
    return TwinConfig(
        run_dir=str(tmp_path), topology="echo", history=place, history_source="r1", s3_endpoint=endpoint
    )


def hours(directory: history.Files) -> list[history.Files]:
    return [directory / day / hour for day in directory.names() for hour in (directory / day).names()]


def test_many_batches_become_one_file_and_a_repeated_batch_changes_nothing(config: TwinConfig) -> None:
    directory = history.files_of(config, "history")
    for number in range(40):
        history.write_partitions(batch_table(number), directory, number)
        history.write_partitions(batch_table(number), directory, number)
    history.compact_all(config)
    assert [len(hour.names()) for hour in hours(directory)] == [1, 1]
    found = sorted(n for hour in hours(directory) for n in hour.read(hour.names()[0])["n"].to_pylist())
    assert found == sorted([number for number in range(40) for _ in range(3)])


def test_a_crash_between_compaction_and_removal_repeats_nothing(config: TwinConfig) -> None:
    directory = history.files_of(config, "history")
    for number in range(0, 8, 2):
        history.write_partitions(batch_table(number), directory, number)
    (partition,) = hours(directory)
    kept = {name: partition.read(name) for name in partition.names()}
    history.compact(partition)
    for name, table in kept.items():
        partition.write(name, table)
    history.compact(partition)
    assert partition.names() == ["batches-00000000-00000006.parquet"]


def test_sources_of_one_place_are_one_dataset_whose_columns_may_grow(
    config: TwinConfig, tmp_path: Path
) -> None:
    """A run of a later version has a column more; what was written before is read with it, empty."""
    for source, table in {
        "r1": batch_table(1),
        "r2": batch_table(1).append_column("later", [["x"] * 3]),
    }.items():
        own = history.files_of(config.model_copy(update={"history_source": source}), "history")
        history.write_partitions(table, own, 1)
    system, path = reached(Place(config.history), config.s3_endpoint)
    schema = pa.schema([("n", pa.int64()), ("later", pa.string()), ("source", pa.string())])
    read = ds.dataset(f"{path}/history", filesystem=system, partitioning="hive", schema=schema).to_table()
    assert sorted(read.to_pylist(), key=str) == sorted(
        [{"n": 1, "later": late, "source": of} for of, late in (("r1", None), ("r2", "x")) for _ in range(3)],
        key=str,
    )
    # A partition of both: after an update in the middle of an hour.
    own = history.files_of(config, "history")
    history.write_partitions(batch_table(3).append_column("later", [["y"] * 3]), own, 3)
    history.compact_all(config)
    (hour,) = hours(own)
    assert hour.read(hour.names()[0])["later"].to_pylist() == [None] * 3 + ["y"] * 3


@pytest.mark.spark
@pytest.mark.kafka
def test_history_has_a_row_per_message(
    spark: SparkSession, run: MadeUpRun, payloads: dict[str, bytes]
) -> None:
    config = run.config.model_copy(
        update={"history_interval_s": 0.5, "history": run.config.run_dir, "history_source": "r1"}
    )
    identity = vehicle_id(1)
    at = run.start_at_ns
    sent: list[tuple[Any, ...]] = [
        (name, payload, n) for n, (name, payload) in enumerate(payloads.items(), 1)
    ]
    for name, payload, sequence in [*sent, sent[0]]:
        run.produce(
            config.topics.status, identity, payload, status_headers(1, sequence, at, at + 5, format=name)
        )
    run.produce(config.topics.status, identity, b"x" + payload_of(identity), status_headers(1, 90, at, at))
    run.produce(config.topics.status, identity, b"y", status_headers(1, 91, at, at))
    run.produce(config.topics.status, identity, b"message007", status_headers(1, 7, at, at, format="small"))
    run.flush()
    queries = history.start(spark, config)
    try:
        queries[0].processAllAvailable()
    finally:
        queries[0].stop()
    history.compact_all(config)
    (good,) = Path(config.run_dir, "history").rglob("*.parquet")
    table = pq.read_table(good, partitioning=None)
    assert table.schema.equals(decoded.SCHEMA)
    assert sorted(table["format"].to_pylist()) == sorted(FORMATS)
    assert set(table["header_vehicle_id"].to_pylist()) == {identity, ""}  # `small` names nobody
    (bad,) = Path(config.run_dir, "dead-letters").rglob("*.parquet")
    letters = {row["sequence"]: row for row in pq.read_table(bad, partitioning=None).to_pylist()}
    assert {n: row["reason"] for n, row in letters.items()} == {90: "undecodable", 91: "other_vehicle"}
    assert letters[90]["detail"].startswith("protobuf payload, byte")


class KilledBeforeTheName:
    """A file system whose user ends before a file that is whole gets its name."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def move(self, *_: str) -> None:
        raise KeyboardInterrupt


def test_a_file_that_was_begun_is_none_of_the_dataset(tmp_path: Path) -> None:
    """A twin that is killed while it writes leaves one, in a place of many runs."""
    config = TwinConfig(run_dir=str(tmp_path), topology="echo", history=str(tmp_path), history_source="r1")
    own = history.files_of(config, "history")
    history.write_partitions(batch_table(1), own, 1)
    with pytest.raises(KeyboardInterrupt):
        history.write_partitions(batch_table(3), history.Files(KilledBeforeTheName(own.system), own.path), 3)
    assert len(list(tmp_path.rglob("*.part"))) == 1
    assert ds.dataset(own.path, partitioning="hive").count_rows() == 3
