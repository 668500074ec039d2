"""One Spark session for all tests of the twin, and runs made up by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.one_spark import SPARK, OneSpark
from tests.twin.made_up import MadeUpRun
from twin.config import TwinConfig
from twin.kafka_topics import ensure_topics
from twin.session import close_session, open_session

JARS = Path(__file__).resolve().parents[2] / ".jars" / "spark"


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory, one_spark: OneSpark) -> SparkSession:
    """The Spark session of the test process, with the fold in it."""
    return one_spark.get(SPARK, lambda: _session(tmp_path_factory.mktemp("spark")))


@contextmanager
def _session(directory: Path) -> Iterator[SparkSession]:
    session = open_session(TwinConfig(run_dir=str(directory), topology="echo", jars_dir=str(JARS)))
    yield session
    close_session(session)


@pytest.fixture
def run(tmp_path: Path, kafka: str) -> MadeUpRun:
    """A run directory and topics of its own."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    config = TwinConfig(
        run_dir=str(tmp_path), bootstrap=kafka, topics_prefix=prefix, jars_dir=str(JARS),
        warm_records=200, drain_timeout_s=30.0, rehearse=False,
    )  # fmt: skip
    ensure_topics(config)
    return MadeUpRun(config)
