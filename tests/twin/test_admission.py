"""Which records Spark keeps out of the twins, and what the audit, which shares no code with it, says of the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from ivsim.audit.kafka_records import rejection
from tests.ledger.adversary import Adversary
from twin import source
from twin.config import TwinConfig

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "seed",
    [
        0,  # has a header that ends with a newline: Java's `$` matches before it
        9,  # has a record that is refused for its sequence "\n5", which names message 5 all the same
        *(pytest.param(seed, marks=pytest.mark.full) for seed in range(100, 110)),
    ],
)
def test_spark_and_the_audit_keep_out_the_same(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run = Adversary(Random(seed))
    run.write_topics(tmp_path)
    config = TwinConfig(run_dir=str(tmp_path), bootstrap="made.up:1")
    records = source.parsed(spark.read.parquet(str(tmp_path / "vehicle.status.records")), config)
    said = {
        (row.partition, row.offset): row.reason
        for row in records.select("partition", "offset", "reason").collect()
    }
    expected = {
        (row["partition"], row["offset"]): rejection(row, round(config.future_tolerance_s * 1e9))
        for row in run.kept()
        if row["topic"] == "vehicle.status"
    }
    assert said == expected
    assert {None, "no_key"} < set(said.values())  # good ones, and others
