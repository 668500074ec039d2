"""The ledger that Spark writes and the audit's, which shares no code with it, on runs that hide nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from ledger.config import Topology
from tests.ledger.adversary import TIMEOUT_S, Adversary, differences
from twin import kafka_topics, source
from twin.config import TwinConfig
from twin.ledger import write_ledger

pytestmark = pytest.mark.spark

FEW = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def by_spark(spark: SparkSession, seed: int, topology: Topology) -> list[str]:
    """Return what Spark and the audit say differently of a run."""
    run = Adversary(Random(seed))
    with TemporaryDirectory() as name:
        directory = Path(name)
        run.write(directory)
        run.write_topics(directory)

        def read_until(session: SparkSession, config: TwinConfig, topic: str, _: object) -> DataFrame:
            return session.read.parquet(str(directory / f"{topic}.records"))

        config = TwinConfig(run_dir=name, bootstrap="made.up:1", topology=topology, loss_timeout_s=TIMEOUT_S)
        with mock.patch.object(source, "read_until", read_until), mock.patch.object(kafka_topics, "ends"):
            said = write_ledger(spark, config)
        return differences(run, directory, said, topology=topology)


@pytest.mark.parametrize(
    "seed",
    [
        0,  # has a header that ends with a newline: Java's `$` matches before it
        9,  # has a record that is refused for its sequence "\n5", which names message 5 all the same
    ],
)
def test_a_bridged_run(spark: SparkSession, seed: int) -> None:
    assert by_spark(spark, seed, "gateway") == []


@pytest.mark.full
@FEW
@given(seed=st.integers(0, 2**64))
def test_any_bridged_run(spark: SparkSession, seed: int) -> None:
    assert by_spark(spark, seed, "gateway") == []


@pytest.mark.full
@FEW
@given(seed=st.integers(0, 2**64))
@example(seed=5)
def test_a_run_through_gateways_at_the_edge(spark: SparkSession, seed: int) -> None:
    assert by_spark(spark, seed, "edge") == []
