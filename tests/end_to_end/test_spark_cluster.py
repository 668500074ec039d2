"""A run whose twins are kept by a Spark cluster of its own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from end_to_end_runs import Runs, processes_of

from ivsim.audit import audit
from tests.spark_executors import executors_among
from tests.store_server import BUCKET, KEYS, store_with_keys

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns, pytest.mark.full]


def test_a_run_on_a_cluster_of_its_own_is_like_any_other_and_hides_its_kafkas_account(runs: Runs) -> None:
    """Executors have the account in their environment; it is on no command line, and in no file of the result."""
    run = runs.start(
        "cluster", "--spark-master", "cluster[2]", "--vehicles", "5", "--duration", "20", "--loss-timeout", "10",
        "--link", "direct", "--kafka-security", "sasl-ssl",
    )  # fmt: skip
    run.wait_until_emitting(10)
    name = json.loads((run.directory / "manifest.json").read_text())["run"]
    processes = [psutil.Process(pid) for pid in processes_of(name)]
    secrets = {
        value for one in processes for name, value in one.environ().items() if name == "IVSIM_KAFKA_SECRET_PASSWORD"
    }  # fmt: skip
    assert len(secrets) == 1
    (secret,) = secrets
    assert [one.cmdline() for one in processes if secret in " ".join(one.cmdline())] == []
    done = run.finish()
    assert done.in_order, done.stderr
    files = [path for path in done.directory.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    assert {row["fate"] for row in done.rows("ledger.parquet")} == {"delivered"}
    assert done.metrics["run_received"] == done.metrics["run_due"] == 100
    assert processes_of(done.manifest["run"]) == []
    assert not (done.directory / "work").exists()


def test_a_run_whose_executor_is_killed_is_degraded_and_loses_nothing(runs: Runs) -> None:
    run = runs.start(
        "killed-executor", "--spark-master", "cluster[2]", "--vehicles", "5", "--duration", "20", "--interval", "0.2",
        "--loss-timeout", "20", "--link", "direct",
    )  # fmt: skip
    run.wait_until_emitting(100)
    name = json.loads((run.directory / "manifest.json").read_text())["run"]
    executors = executors_among(processes_of(name))
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    done = run.finish()
    assert done.in_order, done.stderr
    causes = {cause["name"]: cause["words"] for cause in done.metrics["validity"]["causes"]}
    assert "Spark's query died and was opened again in " in causes["twin_reopened"]
    rows = done.rows("ledger.parquet")
    assert len(rows) == done.metrics["run_due"] == 500
    assert {row["fate"] for row in rows} <= {"delivered", "late"}
    assert done.metrics["run_received"] == 500
    judged = audit(done.directory)
    assert [(sheet.name, sheet.differences) for sheet in judged.sheets if sheet.differences] == []
    assert processes_of(name) == []


def test_a_run_keeps_state_and_history_in_an_object_store(runs: Runs, tmp_path: Path) -> None:
    """What a store does not have is refused first; then nothing of the run's state stays there, and its history does."""
    with store_with_keys(tmp_path / "store") as store:
        place = ["--spark-master", "cluster[2]", "--s3-endpoint", store.endpoint, "--link", "direct"]
        refused = runs.run("no-bucket", *place, "--spark-checkpoint", "s3a://nobodys/twins")
        assert refused.code == 2
        assert refused.stderr == f"ivsim: s3a://nobodys/twins: no bucket nobodys at {store.endpoint}\n"
        assert not refused.directory.exists()
        done = runs.run(
            "stored", *place, "--spark-checkpoint", f"s3a://{BUCKET}/twins", "--history", f"s3a://{BUCKET}/fleet",
            "--vehicles", "5", "--duration", "5", "--loss-timeout", "10",
        )  # fmt: skip
        assert done.in_order, done.stderr
        run = done.manifest["run"]
        kept = [name for name in store.objects() if not name.endswith("/")]
        assert [name.split("/")[:3] for name in kept] == [["fleet", "history", f"source={run}"]]
        body = store.client().get_object(Bucket=BUCKET, Key=kept[0])["Body"].read()
        rows = pq.read_table(pa.BufferReader(body)).to_pylist()
        assert {(row["vehicle_id"], row["sequence"]) for row in rows} == {
            (row["vehicle_id"], row["sequence"]) for row in done.rows("ledger.parquet")
        }
        assert len(rows) == done.metrics["run_due"] == 25
        assert all(row["position_latitude_deg"] is not None for row in rows)
        for path in done.directory.rglob("*"):
            assert path.is_dir() or KEYS["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes(), path
