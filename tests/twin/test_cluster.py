"""The twin on a Spark cluster of two workers that have nothing of ours: what an executor's end costs, and whose a checkpoint is."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from ivsim.testbed.paths import ROOT
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import HOME, SparkCluster
from schemas.topics import vehicle_id
from tests import oracle
from tests.twin.conftest import JARS
from tests.twin.made_up import MadeUpRun, await_taken
from tests.twin.reference import fold
from tests.twin.test_twin_process import Sent, send, twin_child
from twin.config import TwinConfig

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.netns]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with (
        RunRecord(f"c{uuid.uuid4().hex[:8]}", tmp_path / "cluster") as record,
        SparkCluster(record, 2) as made,
    ):
        yield made


def config_on(cluster: SparkCluster, run: MadeUpRun, **more: object) -> TwinConfig:
    memory = {"spark.executor.memory": "1g", "spark.executor.cores": "8"}
    return run.config.model_copy(
        update={
            "spark_master": cluster.url, "checkpoint_dir": f"file://{cluster.shared}/{run.config.topics_prefix}checkpoint",
            "spark_conf": memory, "jars_dir": str(JARS), "live": "none", "reopenings": 3, "checkpoint_kept": False, **more,
        }
    )  # fmt: skip


def executors_of(cluster: SparkCluster) -> list[int]:
    return [pid for worker in cluster.workers for pid in worker.executors()]


def test_an_executor_that_is_killed_costs_some_seconds_and_no_message(
    cluster: SparkCluster, run: MadeUpRun
) -> None:
    config = config_on(cluster, run)
    sent: Sent = defaultdict(list)
    with twin_child(config) as child:
        child.event("ready")
        send(run, sent, 1, 60)
        await_taken(config, sum(map(len, sent.values())))
        send(run, sent, 61, 100)
        executors = executors_of(cluster)
        assert len(executors) == 2
        # What there is of the project and of its packages on this host, executors do not see.
        for pid in executors:
            assert Path(f"/proc/{pid}/root{HOME}/jars").is_dir()
            assert not Path(f"/proc/{pid}/root{ROOT}").exists()
            assert not Path(f"/proc/{pid}/root{sys.prefix}").exists()
        os.kill(executors[0], signal.SIGKILL)
        send(run, sent, 101, 140)
        reopened = child.event("reopened", 90)
        # The other end of a shuffle may still be closing: then it takes one time more.
        assert 1 <= reopened["reopened"] <= reopened["of"] == 3
        assert reopened["cause"].startswith("query twin: ")
        await_taken(config, sum(map(len, sent.values())))
        with twin_child(config.model_copy(update={"run_dir": _beside(config)})) as second:
            assert "another twin has it open" in second.event("error")["message"]
            assert second.process.wait(30) == 2
        child.command("finish", rejected=0)
        assert child.event("finished")["problems"] == []
        child.command("stop")
        child.event("done", 60)
    assert not Path(config.checkpoint.removeprefix("file://")).exists()
    newest: dict[bytes, dict[str, bytes]] = {}
    for record in sorted(oracle.read_topic(config.bootstrap, config.topics.state), key=lambda r: r["offset"]):
        newest[record["key"]] = record["headers"]
    assert {key.decode() for key in newest} == {vehicle_id(v) for v in range(1, 5)}
    for identity, messages in sent.items():
        expected = fold(messages)
        assert {name: int(newest[identity.encode()][name]) for name in expected} == expected


def _beside(config: TwinConfig) -> str:
    path = Path(config.run_dir) / "second"
    path.mkdir()
    return str(path)


@pytest.mark.full
def test_a_cluster_with_too_few_slots_is_refused(cluster: SparkCluster, run: MadeUpRun) -> None:
    with twin_child(config_on(cluster, run, topic_partitions=20)) as child:
        assert "16 slots are free for this application, 23 are needed" in child.event("error")["message"]
        assert child.process.wait(60) == 2
