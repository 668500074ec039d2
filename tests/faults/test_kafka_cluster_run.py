"""A run on three secured brokers that loses the one that leads: the others take over, and nothing acknowledged is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.chaos.case import Disturber
from ivsim.chaos.faults import FAULTS
from ivsim.option_rules import run_options
from ivsim.runs.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

AT_MESSAGE = 60


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
