"""The decoded history: typed columns, one row per message, files that compact and survive a repeated batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.vehicles.vehicle import Vehicle
from tests.twin.made_up import MadeUpRun, payload_of, status_headers
from twin import decoded, history

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


def test_many_batches_become_one_file_and_a_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    for number in range(40):
        history.write_partitions(batch_table(number), directory, number)
        history.write_partitions(batch_table(number), directory, number)
    history.compact_all(tmp_path)
    files = sorted(directory.rglob("*.parquet"))
    assert [len(list(p.parent.glob("*"))) for p in files] == [1, 1]
    found = sorted(n for path in files for n in pq.read_table(path, partitioning=None)["n"].to_pylist())
    assert found == sorted([number for number in range(40) for _ in range(3)])


def test_a_crash_between_compaction_and_removal_repeats_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    for number in range(0, 8, 2):
        history.write_partitions(batch_table(number), directory, number)
    partition = next(directory.glob("day=*/hour=*"))
    kept = {path.name: path.read_bytes() for path in partition.iterdir()}
    history.compact(partition)
    for name, content in kept.items():
        (partition / name).write_bytes(content)
    history.compact(partition)
    assert [path.name for path in partition.iterdir()] == ["batches-00000000-00000006.parquet"]


@pytest.mark.spark
@pytest.mark.kafka
def test_history_has_a_row_per_message(
    spark: SparkSession, run: MadeUpRun, payloads: dict[str, bytes]
) -> None:
    config = run.config.model_copy(update={"history_interval_s": 0.5})
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
    history.compact_all(Path(config.run_dir))
    (good,) = Path(config.run_dir, "history").rglob("*.parquet")
    table = pq.read_table(good, partitioning=None)
    assert table.schema.equals(decoded.SCHEMA)
    assert sorted(table["format"].to_pylist()) == sorted(FORMATS)
    assert set(table["header_vehicle_id"].to_pylist()) == {identity, ""}  # `small` names nobody
    (bad,) = Path(config.run_dir, "dead-letters").rglob("*.parquet")
    letters = {row["sequence"]: row for row in pq.read_table(bad, partitioning=None).to_pylist()}
    assert {n: row["reason"] for n, row in letters.items()} == {90: "undecodable", 91: "other_vehicle"}
    assert letters[90]["detail"].startswith("protobuf payload, byte")
