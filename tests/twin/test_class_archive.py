"""Java maps the classes that set-up has loaded ahead, and starts without them where there are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from tests.shared_kafka import Kafka
from twin import class_archive


def test_without_an_archive_java_is_told_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "class_archive", lambda program: tmp_path / f"{program}.jsa")
    assert class_archive.java_options("spark") == []


def maps(pid: int, program: str) -> bool:
    """Say whether a process has the archive in its memory: Java lets go of one that does not fit."""
    return str(class_archive.class_archive(program).resolve()) in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.spark
def test_spark_takes_its_archive(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    java = [int(pid) for pid in own if "SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert java
    assert all(maps(pid, "spark") for pid in java)


@pytest.mark.kafka
def test_kafka_takes_its_archive(session_kafka: Kafka) -> None:
    assert maps(session_kafka.pid, "kafka")


@pytest.mark.full
@pytest.mark.kafka
def test_an_archive_that_does_not_fit_is_done_without(run_record: RunRecord, tmp_path: Path) -> None:
    archive = tmp_path / "other.jsa"
    archive.write_bytes(b"not an archive")
    with KafkaServer(run_record, java_options=[f"-XX:SharedArchiveFile={archive}"]) as server:
        assert server.process.running()
