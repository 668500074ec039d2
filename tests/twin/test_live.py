"""The live figures' thread on a real broker: it reads all again, tells nothing before it has, and ends."""

from __future__ import annotations

import json
import time
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests import oracle
from tests.twin.made_up import SECOND, MadeUpRun
from twin.live import LiveFigures

pytestmark = pytest.mark.kafka

VEHICLES, UPDATES = 40, 25


@pytest.fixture
def updated(run: MadeUpRun) -> MadeUpRun:
    """A run whose twins have had all their messages, one behind the other."""
    now = time.time_ns() - 60 * SECOND
    for number in range(UPDATES):
        for vehicle in range(VEHICLES):
            words = {
                "messages": number + 1, "duplicates": 0, "gaps": 0, "given_up": 0, "payload_bytes": 300 * (number + 1),
                "received_before": number, "gaps_before": 0, "sampled_at_ns": now + number * SECOND,
                "sampled_before_ns": "" if number == 0 else now + (number - 1) * SECOND,
                "received_at_ns": now + number * SECOND + 1, "last_received_at_ns": now + number * SECOND + 1,
            }  # fmt: skip
            headers = [(name, str(value).encode()) for name, value in words.items()]
            run.produce(run.config.topics.state, f"v{vehicle}", b"x", headers)
    run.flush()
    return run


def contained(run: MadeUpRun) -> list[int]:
    """Return what the fleet's rows of the run have said so far, in their order."""
    rows = [
        json.loads(r["value"]) for r in oracle.read_topic(run.config.bootstrap, run.config.topics.metrics)
    ]
    return [row["contained"] for row in rows if row["vehicle_id"] == "*" and row["window_start_s"] is None]


def test_who_reads_all_again_tells_nothing_before_it_has(updated: MadeUpRun) -> None:
    for _ in range(2):
        with closing(LiveFigures(updated.config)) as live:
            live.finish(30.0)
    said = contained(updated)
    assert len(said) >= 2
    assert set(said) == {VEHICLES * UPDATES}


def test_each_vehicle_is_told_at_the_end(updated: MadeUpRun) -> None:
    with closing(LiveFigures(updated.config.model_copy(update={"live_interval_s": 60.0}))) as live:
        live.finish(30.0)
    records = oracle.read_topic(updated.config.bootstrap, updated.config.topics.metrics)
    runs = {r["key"]: json.loads(r["value"]) for r in records if r["key"].endswith(b"/run")}
    assert len(runs) == VEHICLES + 1
    assert runs[b"v0/run"]["received"] == UPDATES
    assert runs[b"v0/run"]["payload_bytes"] == 300 * UPDATES


def test_a_topic_whose_records_are_gone_holds_nothing_back(updated: MadeUpRun) -> None:
    topics = updated.config.topics
    updated.produce(topics.emissions, None, b"{}", None)
    updated.flush()
    admin = AdminClient({"bootstrap.servers": updated.config.bootstrap})
    for future in admin.delete_records([TopicPartition(topics.emissions, 0, 1)]).values():
        future.result(10)
    with closing(LiveFigures(updated.config)) as live:
        live.finish(30.0)
    assert contained(updated)[-1] == VEHICLES * UPDATES


def test_the_last_figures_do_not_wait_for_a_broker_that_holds_back_its_answer(
    run: MadeUpRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker answers the requests of a connection in turn, and a fetch only once it has enough, or time is over."""
    monkeypatch.setattr("twin.live.FETCH_WAIT_MS", 10_000)
    with closing(LiveFigures(run.config)) as live:
        live.finish(8.0)


def test_closing_does_not_wait_for_a_kafka_that_is_gone(run: MadeUpRun) -> None:
    gone = run.config.model_copy(update={"bootstrap": "127.0.0.1:1"})
    began_s = time.monotonic()
    live = LiveFigures(gone)
    with pytest.raises(TimeoutError, match=r"not taken all that there is: 0\.5 s are over"):
        live.finish(0.5)
    live.close()
    assert time.monotonic() - began_s < 10
