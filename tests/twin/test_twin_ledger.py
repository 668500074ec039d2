"""The ledger against an oracle in plain Python, on runs with a known place for every message."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from schemas.errors import Refusal
from schemas.topics import vehicle_id
from tests import oracle
from tests.twin.made_up import EMISSION_TYPES, SECOND, MadeUpRun, payload_of, status_headers
from twin.config import TwinConfig
from twin.ledger import write_ledger
from twin.metrics import METRICS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


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


def test_ledger_agrees_with_the_oracle(spark: SparkSession, run: MadeUpRun) -> None:
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
    compiled = spark.conf.get("spark.sql.codegen.wholeStage")
    found = write_ledger(spark, run.config)
    # Else the queries of the session's next run would run otherwise than those of this one.
    assert spark.conf.get("spark.sql.codegen.wholeStage") == compiled
    config = run.config
    assert_figures_agree(config, found)
    assert json.loads(config.run_file("metrics.json").read_text()) == found
    assert all(found[f"lost_at_{hop}"] for hop in oracle.HOPS)
    assert found["refused_by_broker"] > 0
    assert found["refused_by_gateway"] > 0
    assert found["due"] == sum(found[fate] for fate in oracle.FATES)
    assert (found["unknown"], found["partial"]) == (0, False)
    assert_rows_agree(config)
    for unread in ("twin.state", "vehicle.status"):
        forget(config, unread)
        blind = write_ledger(spark, config)
        assert_figures_agree(config, blind, unread)
        assert blind["unknown"] > 0
        assert blind["due"] == sum(blind[fate] for fate in oracle.FATES) == found["due"]
        assert blind["delivery_ratio"] is blind["end_to_end_latency_p50_ms"] is None
        assert blind["acknowledgement_time_p50_ms"] == found["acknowledgement_time_p50_ms"]
        assert f"{unread} is not readable: there is no such topic" in blind["partial_reason"]


def assert_figures_agree(config: TwinConfig, found: dict[str, Any], *unread: str) -> None:
    expected = oracle.metrics(
        Path(config.run_dir), config.bootstrap, config.topics_prefix, config.loss_timeout_s, unread
    )
    assert {name: found[name] for name in METRICS} == {
        name: expected.get(name, "missing") for name in METRICS
    }


def forget(config: TwinConfig, name: str) -> None:
    """Delete one topic of the run, and wait until Kafka knows nothing of it."""
    admin = AdminClient({"bootstrap.servers": config.bootstrap})
    topic = f"{config.topics_prefix}{name}"
    admin.delete_topics([topic])[topic].result(10)
    deadline = time.monotonic() + 10
    while topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def assert_rows_agree(config: TwinConfig) -> None:
    status = oracle.read_topic(config.bootstrap, config.topics.status)
    states = oracle.read_topic(config.bootstrap, config.topics.state)
    expected = oracle.ledger(Path(config.run_dir), status, states, config.loss_timeout_s, echo=False)
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


def test_three_messages_dropped_at_three_places_are_named(spark: SparkSession, run: MadeUpRun) -> None:
    for sequence in range(1, 11):
        row = run.due(1, sequence, acknowledged_at_ns=None)
        if sequence == 3:
            continue
        row["acknowledged_at_ns"] = row["emitted_at_ns"] + 1_000
        if sequence == 5:
            continue
        received = run.take(row)
        if sequence != 7:
            run.append(row, received)
    run.flush()
    newest = run.emissions[-1]
    run.append(newest, newest["due_at_ns"] + 9, run.config.topics.state, messages=7)
    run.write()
    write_ledger(spark, run.config)
    lost = [
        row
        for row in pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
        if row["fate"] == "lost"
    ]
    assert [(row["sequence"], row["hop"]) for row in lost] == [(3, "link"), (5, "broker"), (7, "gateway")]


def test_echo_topology_needs_no_kafka(spark: SparkSession, run: MadeUpRun) -> None:
    for sequence in range(1, 21):
        row = run.due(1 + sequence % 2, sequence)
        if sequence % 5:
            row["received_at_ns"] = row["emitted_at_ns"] + sequence * 1_000_000 * (
                200 if sequence == 19 else 1
            )
    run.write()
    config = run.config.model_copy(update={"topology": "echo", "bootstrap": ""})
    found = write_ledger(spark, config)
    expected = oracle.metrics(Path(config.run_dir), None, "", config.loss_timeout_s)
    assert {name: found[name] for name in METRICS} == {
        name: expected.get(name, "missing") for name in METRICS
    }
    assert (found["delivered"], found["late"], found["lost"]) == (15, 1, 4)
    assert found["twin_updates"] is None
    assert found["processing_delay_p50_ms"] is None


def test_a_message_that_somebody_has_was_sent_whatever_the_log_says(
    spark: SparkSession, run: MadeUpRun
) -> None:
    """The sender was killed before it wrote the stamps: one is in Kafka, one with the gateway, one nowhere."""
    for sequence in (1, 2, 3):
        row = run.due(1, sequence, emitted_at_ns=None, unsent_reason="sender_ended")
        if sequence < 3:
            received = run.take(row)
        if sequence == 1:
            run.append(row, received)
    run.flush()
    run.write()
    found = write_ledger(spark, run.config)
    assert (found["lost_at_kafka"], found["lost_at_gateway"], found["unsent"]) == (1, 1, 1)


def test_kafka_away_still_reports_the_emission_log(spark: SparkSession, run: MadeUpRun) -> None:
    row = run.due(1, 1)
    run.take(row)
    run.due(1, 2, emitted_at_ns=None, unsent_reason="dropped_oldest")
    run.due(1, 3, emitted_at_ns=None, unsent_reason="sender_ended")  # the log may be cut short
    run.write()
    config = run.config.model_copy(update={"bootstrap": "127.0.0.1:1"})
    found = write_ledger(spark, config, ["gateway died"])
    assert (found["due"], found["unknown"], found["unsent"], found["lost"]) == (3, 2, 1, 0)
    assert found["delivery_ratio"] is None
    assert found["duplicates"] is None
    assert found["partial"] is True
    assert found["partial_reason"].startswith("gateway died; Kafka at 127.0.0.1:1: ")


def test_the_peers_last_word_decides_whether_a_message_is_refused(
    spark: SparkSession, run: MadeUpRun
) -> None:
    said = {"refused_reason": "5.03 Service Unavailable", "refused_by": "gateway"}
    for sequence in range(1, 8):
        row = run.due(1, sequence, refused_at_ns=run.start_at_ns, **said)
        if sequence > 4:
            row |= {"refused_reason": "Quota exceeded", "refused_by": "broker"}
        if sequence in (2, 3, 6):
            received = run.take(row)
        if sequence == 3:
            run.append(row, received)  # refused at first, then delivered
        if sequence == 4:
            row["acknowledged_at_ns"] = row["emitted_at_ns"] + 5
        if sequence == 7:
            row["emitted_at_ns"] = run.start_at_ns + 500 * SECOND  # after the stop: its timeout is not over
    run.flush()
    run.append(run.emissions[3], run.start_at_ns + 9, run.config.topics.state, messages=1)
    run.write()
    found = write_ledger(spark, run.config)
    rows = pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
    assert [(row["fate"], row["hop"], row["refused_reason"]) for row in rows] == [
        ("refused", "gateway", "5.03 Service Unavailable"),
        ("refused", "gateway", "5.03 Service Unavailable"),  # taken, and then not kept
        ("delivered", None, "5.03 Service Unavailable"),
        ("lost", "broker", "5.03 Service Unavailable"),  # accepted in the end, then gone
        ("refused", "broker", "Quota exceeded"),
        ("lost", "gateway", "Quota exceeded"),  # one queue was full, another was not
        ("refused", "broker", "Quota exceeded"),
    ]
    assert (found["refused"], found["refused_by_gateway"], found["refused_by_broker"]) == (4, 2, 2)
    assert_rows_agree(run.config)


def test_a_message_on_its_way_at_the_stop_is_not_lost(spark: SparkSession, run: MadeUpRun) -> None:
    """Four emitted, the loss timeout of two not over at the stop; the gateway has one of each pair."""
    for sequence in (1, 2, 3, 4):
        row = run.due(1, sequence)
        if sequence in (1, 3):
            run.take(row)
    second = run.emissions[2]["emitted_at_ns"]
    run.flush()
    timeout_ns = round(run.config.loss_timeout_s * 1e9)
    run.write(stop_at_ns=second - 1 + timeout_ns)
    found = write_ledger(spark, run.config)
    rows = pq.read_table(run.config.run_file("ledger.parquet")).to_pylist()
    assert [(row["fate"], row["hop"], row["in_window"]) for row in rows] == [
        ("lost", "gateway", True),
        ("lost", "link", True),
        ("lost", "gateway", True),
        ("unknown", None, False),
    ]
    assert (found["due"], found["unknown"], found["delivery_ratio"]) == (3, 0, 0.0)
    assert_rows_agree(run.config)


def test_a_message_due_twice_is_refused(spark: SparkSession, run: MadeUpRun) -> None:
    run.due(1, 1)
    run.due(1, 1)
    run.write()
    with pytest.raises(Refusal, match="a message is due twice"):
        write_ledger(spark, run.config)


def test_a_run_without_messages_has_nulls_not_zeros(spark: SparkSession, run: MadeUpRun) -> None:
    pq.write_table(pa.Table.from_pylist([], EMISSION_TYPES), run.config.run_file("emissions.parquet"))
    run.config.run_file("run.json").write_text(json.dumps({"start_at_ns": 1, "stop_at_ns": 2}))
    found = write_ledger(spark, run.config)
    assert found["due"] == 0
    assert found["delivery_ratio"] is None
    assert found["one_way_delay_p50_ms"] is None
