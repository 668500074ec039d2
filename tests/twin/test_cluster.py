"""The twin on a Spark cluster of two workers that have nothing of ours: what an executor's end costs, and whose a checkpoint is."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from ivsim.testbed.paths import ROOT, S3, installed_jars
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import HOME, SparkCluster
from schemas.topics import vehicle_id
from tests import oracle
from tests.spark_executors import executors_of
from tests.store_server import BUCKET, KEYS, StoreServer, store_with_keys
from tests.twin.conftest import JARS
from tests.twin.made_up import MadeUpRun, await_taken
from tests.twin.reference import fold
from tests.twin.test_twin_process import Sent, send, twin_child
from twin.config import TwinConfig
from twin.lease import LEASE_S
from twin.place import PROBE

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.netns]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with (
        RunRecord(f"c{uuid.uuid4().hex[:8]}", tmp_path / "cluster") as record,
        SparkCluster(record, 2) as made,
    ):
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    with store_with_keys(tmp_path / "store") as made:
        yield made


def config_on(cluster: SparkCluster, run: MadeUpRun, **more: object) -> TwinConfig:
    memory = {"spark.executor.memory": "1g", "spark.executor.cores": "8"}
    return run.config.model_copy(
        update={
            "spark_master": cluster.url, "checkpoint_dir": f"file://{cluster.shared}/{run.config.topics_prefix}checkpoint",
            "spark_conf": memory, "jars_dir": str(JARS), "live": "none", "reopenings": 3, "checkpoint_kept": False, **more,
        }
    )  # fmt: skip


def in_store(store: StoreServer, name: str) -> dict[str, object]:
    return {
        "checkpoint_dir": f"s3a://{BUCKET}/{name}",
        "s3_endpoint": store.endpoint,
        "s3_jars_dir": str(installed_jars(S3)),
    }


def test_an_executor_that_is_killed_costs_some_seconds_and_no_message(
    cluster: SparkCluster, store: StoreServer, run: MadeUpRun, tmp_path: Path
) -> None:
    config = config_on(cluster, run, **in_store(store, "twins/killed"))
    # Left by who may put and not delete: no word of a twin's.
    store.client().put_object(Bucket=BUCKET, Key=f"twins/killed/{PROBE}-1", Body=b"")
    sent: Sent = defaultdict(list)
    with twin_child(config) as child:
        child.event("ready")
        send(run, sent, 1, 60)
        await_taken(config, sum(map(len, sent.values())))
        send(run, sent, 61, 100)
        executors = [pid for worker in cluster.workers for pid in executors_of(worker.process.pid)]
        assert len(executors) == 2
        # What there is of the project and of its packages on this host, executors do not see.
        for pid in executors:
            assert Path(f"/proc/{pid}/root{HOME}/jars").is_dir()
            assert not Path(f"/proc/{pid}/root{ROOT}").exists()
            assert not Path(f"/proc/{pid}/root{sys.prefix}").exists()
        assert any(name.startswith("twins/killed/twin/") for name in store.objects())
        assert secrets_seen(KEYS["AWS_SECRET_ACCESS_KEY"], Path(config.run_dir), tmp_path) == []
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
    assert store.objects("twins/killed") == []
    assert_counted_once(config, sent)


def assert_counted_once(config: TwinConfig, sent: Sent) -> None:
    newest: dict[bytes, dict[str, bytes]] = {}
    for record in sorted(oracle.read_topic(config.bootstrap, config.topics.state), key=lambda r: r["offset"]):
        newest[record["key"]] = record["headers"]
    assert {key.decode() for key in newest} == {vehicle_id(v) for v in range(1, 5)}
    for identity, messages in sent.items():
        expected = fold(messages)
        assert {name: int(newest[identity.encode()][name]) for name in expected} == expected


def secrets_seen(secret: str, *directories: Path) -> list[str]:
    """Return the arguments of processes and the files below directories that hold a secret."""
    arguments = [path for path in Path("/proc").glob("[0-9]*/cmdline") if secret.encode() in read(path)]
    files = [
        path
        for one in directories
        for path in one.rglob("*")
        if path.is_file() and secret.encode() in read(path)
    ]
    return [str(path) for path in (*arguments, *files)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # of a process that has just ended
        return b""


def _beside(config: TwinConfig) -> str:
    path = Path(config.run_dir) / "second"
    path.mkdir()
    return str(path)


@pytest.mark.full
def test_a_cluster_with_too_few_slots_is_refused(cluster: SparkCluster, run: MadeUpRun) -> None:
    with twin_child(config_on(cluster, run, topic_partitions=20)) as child:
        assert "16 slots are free for this application, 23 are needed" in child.event("error")["message"]
        assert child.process.wait(60) == 2


@pytest.mark.full
def test_a_store_that_stands_still_costs_some_seconds_and_no_message(
    store: StoreServer, run: MadeUpRun
) -> None:
    """Twenty seconds are longer than a lease: the twin stops, and goes on by itself once the store answers."""
    config = run.config.model_copy(
        update={"jars_dir": str(JARS), "live": "none", "reopenings": 3, **in_store(store, "twins/still")}
    )
    sent: Sent = defaultdict(list)
    with twin_child(config) as child:
        child.event("ready")
        send(run, sent, 1, 60)
        await_taken(config, sum(map(len, sent.values())))
        os.kill(store.process.pid, signal.SIGSTOP)
        try:
            # Nothing tells of a lease that has ended: it is the time itself that is tried.
            time.sleep(LEASE_S + 8)
            send(run, sent, 61, 100)
        finally:
            os.kill(store.process.pid, signal.SIGCONT)
        reopened = child.event("reopened", 90)
        assert "the checkpoint's lease could not be renewed for 9 s" in reopened["cause"]
        send(run, sent, 101, 140)
        await_taken(config, sum(map(len, sent.values())))
        child.command("stop")
        child.event("done", 60)
    assert_counted_once(config, sent)
