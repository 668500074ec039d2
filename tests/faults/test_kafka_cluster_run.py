"""A run on three secured brokers that loses the one that leads: the others take over, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from ivsim.chaos.case import Disturber
from ivsim.chaos.faults import FAULTS
from ivsim.option_rules import run_options
from ivsim.runs.testbed import Testbed
from ivsim.testbed.kafka_admin import topics_of
from ivsim.testbed.kafka_cluster import bootstrap_of, kafka_cluster
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.kafka_login import client_settings, read_login
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

AT_MESSAGE = 60


@pytest.mark.full
def test_the_others_take_over_when_the_leader_is_killed(tmp_path: Path, testbed: Testbed) -> None:
    killed: list[str] = []

    class Watched(Disturber):
        def __call__(self, run):
            super().__call__(run)
            killed.extend(name for name in run.components.children.down if name not in killed)

    disturber = Watched(FAULTS["kafka-kill"], AT_MESSAGE)
    options = run_options(
        vehicles=6,
        duration_s=30.0,
        loss_timeout_s=60.0,
        link="direct",
        kafka_brokers=3,
        kafka_replication=3,
        kafka_min_insync=2,
        kafka_partitions=3,
        kafka_security="sasl-ssl",
    )
    outcome = testbed.run(options, tmp_path / "run", disturb=disturber)
    assert outcome.error is None
    assert disturber.done
    assert len(killed) == 1
    assert killed[0].startswith("kafka-sasl-ssl-of-3")
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    assert len(rows) == 180
    assert {row["fate"] for row in rows} == {"delivered"}
    assert outcome.twin_distinct == 180
    # The others led before it was back: what came in meanwhile was in Kafka, too.
    (killed_at_ns,), back_at_ns = disturber.injected_at_ns, disturber.restored_at_ns
    assert back_at_ns is not None
    meanwhile = [
        row for row in rows if killed_at_ns < row["received_at_ns"] and row["appended_at_ns"] < back_at_ns
    ]
    assert meanwhile
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["options"]["kafka_replication"] == 3


@pytest.mark.full
def test_a_secured_cluster_that_is_there_is_used_and_left_as_found(tmp_path: Path, testbed: Testbed) -> None:
    with (
        RunRecord(f"l{time.time_ns():x}-{time.time_ns() % 0xFFFFFF:06x}", tmp_path) as record,
        kafka_cluster(record, 3, name="theirs", security="sasl-ssl") as servers,
    ):
        login = servers[0].login
        # The first of the list is away, as one broker of a cluster may be.
        servers[0].process.kill()
        # Until the others know, they would give it copies of new topics.
        admin = AdminClient({**client_settings(bootstrap_of(servers), login), "log_level": 0})
        until_s = time.monotonic() + 60
        while len(admin.list_topics(timeout=30).brokers) > 2:
            assert time.monotonic() < until_s
            time.sleep(0.1)
        options = run_options(
            vehicles=3,
            duration_s=8.0,
            link="direct",
            kafka=bootstrap_of(servers),
            kafka_login=login,
            kafka_replication=2,
            kafka_min_insync=2,
        )
        outcome = testbed.run(options, tmp_path / "run")
        assert outcome.error is None
        assert topics_of(bootstrap_of(servers), "ivsim.", login=login) == []
        kept = testbed.run(options.model_copy(update={"keep_topics": True}), tmp_path / "kept")
        assert kept.error is None
        prefix = f"ivsim.{json.loads((tmp_path / 'kept' / 'manifest.json').read_text())['run']}."
        assert {*topics_of(bootstrap_of(servers), prefix, login=login)} >= {*KafkaTopics(prefix).all()}
        place = ["--kafka", bootstrap_of(servers), "--kafka-login", login, "--prefix", prefix]
        shown = subprocess.run(
            [sys.executable, "-m", "ivsim.cli", "twin", "get", "1", *place], capture_output=True, text=True, check=False
        )  # fmt: skip
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["thingId"].endswith(vehicle_id(1))
        with pytest.raises(Refusal, match=r"replication factor of 5 cannot be reached"):
            testbed.run(options.model_copy(update={"kafka_replication": 5}), tmp_path / "refused")
        other = tmp_path / "other.properties"
        secret = read_login(login).password
        other.write_text(Path(login).read_text().replace(secret, "another"))
        with pytest.raises(Refusal, match=r"no Kafka broker answered to --kafka-login .*other.properties"):
            testbed.run(options.model_copy(update={"kafka_login": str(other)}), tmp_path / "refused")
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    assert len(rows) == 24
    assert {row["fate"] for row in rows} == {"delivered"}
    assert all(
        secret.encode() not in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()
    )
