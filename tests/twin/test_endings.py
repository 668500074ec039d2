"""Twins that end: when, and what is written of it; with Kafka, and the service that removes them."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bench.twin_load import Load
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id
from tests import oracle
from tests.twin.service.test_service_kafka import start, until
from twin.config import TwinConfig
from twin.endings import Endings, LivingTwins, Update


def test_a_twin_is_over_once_its_last_update_is_older_than_the_time_to_live() -> None:
    living = LivingTwins(ttl_s=10)
    living.take(b"a", Update(0, 1_000))
    living.take(b"b", Update(1, 2_000))
    living.take(None, Update(0, 1))
    assert living.over(11_000) == []
    assert living.over(11_001) == [(b"a", 0)]
    living.take(b"a", Update(0, 9_000))  # it is back
    assert living.over(12_500) == [(b"b", 1)]
    living.take(b"b", None)
    living.take(b"c", None)
    assert living.over(19_001) == [(b"a", 0)]
    assert len(living) == 1


def config(**settings: Any) -> TwinConfig:
    return TwinConfig(run_dir="/", bootstrap="127.0.0.1:1", **settings)


def test_a_kafka_that_is_away_is_asked_again_and_an_error_of_ours_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Semaphore(0)
    answers: list[Exception] = [KafkaException(KafkaError(KafkaError._TRANSPORT)), RuntimeError("ours")]

    def sweep(_: Endings) -> None:
        asked.release()
        raise answers.pop(0)

    monkeypatch.setattr(logging.getLogger("twin.endings"), "disabled", True)
    monkeypatch.setattr(Endings, "sweep", sweep)
    endings = Endings(config(twin_ttl_s=1.0))
    assert all(asked.acquire(timeout=10) for _ in range(2))
    until(lambda: endings.failure, "the failure")
    assert endings.failure == "RuntimeError('ours')"
    endings.close()
    endings.close()


@pytest.mark.kafka
def test_a_twin_that_has_ended_is_a_tombstone_and_leaves_the_service(
    kafka: str, run_record: RunRecord
) -> None:
    topics = KafkaTopics(f"end{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    load = Load(kafka, topics, 20)
    load.all()
    old_ms = max(record["timestamp_ns"] for record in oracle.read_topic(kafka, topics.state)) / 1e6
    now_ms = old_ms
    child, client = start(kafka, topics, run_record)
    settings = {"bootstrap": kafka, "topics_prefix": topics.prefix}
    endings = Endings(config(twin_ttl_s=3_600.0).model_copy(update=settings), lambda: now_ms)
    try:
        with client:
            until(lambda: client.get("/api/fleet").json()["vehicles"] == 20, "the fleet")
            assert endings.sweep() == []
            time.sleep(0.1)
            load.one(3)  # this one goes on
            load.flush()
            now_ms = old_ms + 3_600_001
            ended = {key for key, _ in endings.sweep()}
            assert ended == {vehicle_id(k + 1).encode() for k in range(20) if k != 3}
            until(lambda: client.get("/api/fleet").json()["vehicles"] == 1, "the others gone")
            newest = {
                r["key"]: r for r in sorted(oracle.read_topic(kafka, topics.state), key=lambda r: r["offset"])
            }
            assert {key for key, record in newest.items() if record["value"] is None} == ended
            assert endings.sweep() == []
            load.one(5)  # one that had ended is back
            load.flush()
            until(lambda: client.get("/api/fleet").json()["vehicles"] == 2, "one is back")
    finally:
        endings.close()
        child.stop()
