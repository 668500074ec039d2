"""One Spark session for all tests of the twin, and runs made up by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.twin.made_up import MadeUpRun
from twin.config import TwinConfig
from twin.kafka_topics import ensure_topics
from twin.session import close_session, open_session

JARS = Path(__file__).resolve().parents[2] / ".jars" / "spark"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of the test process, with the fold in it."""
    session = open_session(
        TwinConfig(run_dir=str(tmp_path_factory.mktemp("spark")), topology="echo", jars_dir=str(JARS))
    )
    yield session
    close_session(session)


@pytest.fixture
def run(tmp_path: Path, kafka: str) -> MadeUpRun:
    """A run directory and topics of its own."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    config = TwinConfig(
        run_dir=str(tmp_path), bootstrap=kafka, topics_prefix=prefix, jars_dir=str(JARS), loss_timeout_s=2.0,
        warm_records=200, drain_timeout_s=30.0, rehearse=False,
    )  # fmt: skip
    ensure_topics(config)
    return MadeUpRun(config)
