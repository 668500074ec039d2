"""The ledger of what Kafka holds against an oracle in plain Python, on runs with a known place for every message."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.kafka_log import keep
from ledger.build import build
from ledger.metrics import METRICS
from ledger.sources import KAFKA_RECORDS
from schemas.topics import vehicle_id
from tests import oracle
from tests.twin.made_up import LOSS_TIMEOUT_S, SECOND, MadeUpRun, payload_of, status_headers
from twin.config import TwinConfig
from twin.kafka_topics import ensure_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def run(tmp_path: Path, kafka: str) -> MadeUpRun:
    """A run directory and topics of its own."""
    config = TwinConfig(run_dir=str(tmp_path), bootstrap=kafka, topics_prefix=f"t{uuid.uuid4().hex[:8]}.")
    ensure_topics(config)
    return MadeUpRun(config)


def random_run(run: MadeUpRun, rng: random.Random, vehicles: int = 7, messages: int = 40) -> None:
    """Losses at every hop, duplicates, late ones, restarts with a new epoch, messages out of order."""
    appended: list[tuple[dict[str, Any], int]] = []
    for vehicle in range(1, vehicles + 1):
        for event, handshake, present in (
            ("connected", 40_000_000 + vehicle, False),
            ("disconnected", None, None),
            ("connect_failed", None, None),
            ("connected", 90_000_000 * vehicle, vehicle % 2 == 1),
        ):
            run.connections.append(
                {"vehicle_id": vehicle_id(vehicle), "event": event, "handshake_ns": handshake,
                 "session_present": present, "backlog": 0}
            )  # fmt: skip
        for sequence in range(1, messages + 1):
            epoch, number = (1, sequence) if sequence <= 25 else (2, sequence - 25)
            row = run.due(vehicle, number, epoch, payload_bytes=rng.randrange(60, 400))
            row["due_at_ns"] = run.start_at_ns + sequence * SECOND // 2 + vehicle * 1_000_003
            row["emitted_at_ns"] = row["due_at_ns"] + rng.randrange(5_000_000)
            place(run, row, rng, appended)
    rng.shuffle(appended)
    for row, received in appended:
        run.append(row, received)
        if rng.random() < 0.1:
            run.append(row, received + 5_000)


def place(
    run: MadeUpRun, row: dict[str, Any], rng: random.Random, appended: list[tuple[dict[str, Any], int]]
) -> None:
    chance = rng.random()
    if rng.random() < 0.1:
        # By the broker or by the gateway, which may have taken it; it may have been accepted at a second attempt.
        by = "broker" if rng.random() < 0.5 else "gateway"
        row |= {"refused_at_ns": row["emitted_at_ns"] + 9, "refused_reason": "full", "refused_by": by}
    if chance < 0.05:
        row |= {"emitted_at_ns": None, "unsent_reason": "queue full"}
    elif chance < 0.10:
        row |= {"buffered": True, "held_back": rng.random() < 0.5}
    elif chance < 0.13:
        pass  # lost on the link
    elif chance < 0.15:
        row["reached_cloud_at_ns"] = row["emitted_at_ns"] + 30_000_000  # lost in the broker, unacknowledged
    elif chance < 0.20:
        row["acknowledged_at_ns"] = row["emitted_at_ns"] + 70_000_000
    elif chance < 0.25:
        received = run.take(row)
        if chance > 0.23:
            run.leave(row, received + SECOND)
    else:
        row["acknowledged_at_ns"] = row["emitted_at_ns"] + rng.randrange(90_000_000) if chance < 0.9 else None
        late = 3 * SECOND if chance < 0.35 else 0
        received = run.take(row, late + rng.randrange(1, 1_500_000_000))
        if chance > 0.97:
            row["emitted_at_ns"] = None  # the sender died before it wrote the stamp
        appended.append((row, received))


def random_states(run: MadeUpRun, rng: random.Random, vehicles: int = 7) -> None:
    """A twin that stops early for some vehicles and writes old updates again, as after a restart."""
    for vehicle in range(1, vehicles + 1):
        identity = vehicle_id(vehicle)
        orders = [(1, s) for s in (5, 25)] + ([(1, 9), (2, 3), (2, 15)] if vehicle % 3 else [(2, 2)])
        for epoch, sequence in orders:
            counters = {"messages": 1, "duplicates": 0, "gaps": 0}
            headers = status_headers(epoch, sequence, run.start_at_ns, run.start_at_ns + 5, **counters)
            run.produce(run.config.topics.state, identity, payload_of(identity), headers)
    del rng


def test_ledger_agrees_with_the_oracle(run: MadeUpRun) -> None:
    rng = random.Random(2)
    random_run(run, rng)
    run.flush()
    random_states(run, rng)
    bad = status_headers(1, 2**63, run.start_at_ns, run.start_at_ns)
    run.produce(run.config.topics.status, vehicle_id(1), payload_of(vehicle_id(1)), bad)
    run.produce(
        run.config.topics.status, vehicle_id(50), payload_of(vehicle_id(50)), status_headers(1, 1, 1, 1)
    )
    run.write(warmup_s=4.0, stop_at_ns=run.start_at_ns + 19 * SECOND)
    run.write_link(rng, 20, 7)
    config = run.config
    keep(KafkaAddress(config.bootstrap, config.topics), config.run_file(KAFKA_RECORDS))
    found = build(run.ledger)
    expected = oracle.metrics(Path(config.run_dir), config.bootstrap, config.topics_prefix, LOSS_TIMEOUT_S)
    assert {name: found[name] for name in METRICS} == {
        name: expected.get(name, "missing") for name in METRICS
    }
    assert json.loads(config.run_file("metrics.json").read_text()) == found
    assert all(found[f"lost_at_{hop}"] for hop in oracle.HOPS if hop != "platform")
    assert found["lost_at_platform"] == 0
    assert found["refused_by_broker"] > 0
    assert found["refused_by_gateway"] > 0
    assert found["due"] == sum(found[fate] for fate in oracle.FATES)
    assert (found["unknown"], found["partial"]) == (0, False)
    assert_rows_agree(config)


def assert_rows_agree(config: TwinConfig) -> None:
    status = oracle.read_topic(config.bootstrap, config.topics.status)
    states = oracle.read_topic(config.bootstrap, config.topics.state)
    expected = oracle.ledger(Path(config.run_dir), status, states, LOSS_TIMEOUT_S, echo=False)
    rows = pq.read_table(config.run_file("ledger.parquet")).to_pylist()
    names = (
        "vehicle_id",
        "epoch",
        "sequence",
        "fate",
        "hop",
        "received_at_ns",
        "appended_at_ns",
        "applied_at_ns",
        "copies",
    )
    assert sorted(tuple(map(str, (r[n] for n in names))) for r in rows) == sorted(
        tuple(map(str, (r[n] for n in names))) for r in expected
    )


def test_echo_topology_needs_no_kafka(run: MadeUpRun) -> None:
    for sequence in range(1, 21):
        row = run.due(1 + sequence % 2, sequence)
        if sequence % 5:
            row["received_at_ns"] = row["emitted_at_ns"] + sequence * 1_000_000 * (
                200 if sequence == 19 else 1
            )
    run.write()
    config = run.ledger.model_copy(update={"topology": "echo"})
    found = build(config)
    expected = oracle.metrics(Path(config.run_dir), None, "", LOSS_TIMEOUT_S)
    assert {name: found[name] for name in METRICS} == {
        name: expected.get(name, "missing") for name in METRICS
    }
    assert (found["delivered"], found["late"], found["lost"]) == (15, 1, 4)
    assert found["twin_updates"] is None
    assert found["processing_delay_p50_ms"] is None
