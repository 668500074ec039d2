"""The shell around the controller: what it hands on, obeys and writes down; and a gateway that chooses, at real servers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from standing_still import stand_still

from gateways.batch_control import BatchControl, controller_settings
from gateways.batching.asked import Batching
from gateways.batching.controller import Controller
from gateways.batching.decision_log import DecisionLog
from gateways.batching.period import Period
from gateways.batching.producer_statistics import ProducerWatch
from gateways.config import read_gateway_config
from gateways.counters import Counters
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.watched_delivery import WatchedDelivery
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from schemas.errors import Refusal
from schemas.topics import KafkaTopics, vehicle_id

BATCHING = Batching(messages=10, wait_ms=100.0, policy="deadline", limit_ms=350.0, period_s=10.0)


class Stand:
    """Delivery and control over a producer of paper, which confirms when it is told."""

    def __init__(self, log: Path | None = None) -> None:
        self.now_s = 100.0
        self.stops, self.stopped = 0, False
        self.fatal: str | None = None
        self.waiting: list[tuple[bytes, Any]] = []
        self.acknowledged: list[Any] = []
        self.period = Period(350.0, self.now_s)
        self.delivery = WatchedDelivery(
            period=self.period,
            setting=BATCHING.setting(),
            partition_of=lambda key: key[0] % 2,
            clock_s=lambda: self.now_s,
            producer=self,
            topics=KafkaTopics(),
            counters=Counters(),
            fatal=pytest.fail,
        )
        self.delivery.acknowledge = self.acknowledged.append
        self.control = BatchControl(
            Controller(controller_settings(BATCHING, 1_000, 2)),
            delivery=self.delivery,
            period=self.period,
            watch=ProducerWatch("t"),
            kafka_ports=(),
            stops=lambda: (self.stops, self.stopped),
            log=None if log is None else DecisionLog(log),
            clock_s=lambda: self.now_s,
        )

    def produce(self, _topic: str, value: bytes, _key: bytes, *, on_delivery: Any, headers: Any) -> None:
        self.waiting.append((value, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        pass

    def give(self, count: int) -> None:
        for number in range(count):
            self.delivery.deliver(b"\0", b"x", [], number)

    def confirm(self) -> None:
        waiting, self.waiting = self.waiting, []
        for value, on_delivery in waiting:
            on_delivery(None, value)


async def test_a_period_has_what_was_taken_how_long_it_was_answered_and_what_was_late() -> None:
    stand = Stand()
    stand.give(9)
    stand.now_s += 0.05
    stand.give(1)
    stand.now_s += 0.32
    stand.confirm()
    stand.give(3)
    stand.now_s = 110.0
    seen = stand.control.step().observation
    assert seen.per_s == pytest.approx(1.3)
    assert seen.answers_ms == pytest.approx([320.0] * 10)
    # Nine waited 50 ms for their batch besides, and are over 350 ms.
    assert seen.late_ratio == pytest.approx(0.9)


async def test_a_decision_is_obeyed_by_open_batches_and_written_down(tmp_path: Path) -> None:
    log = tmp_path / "decisions-0.jsonl"
    stand = Stand(log)
    stand.give(10)
    stand.now_s += 0.3
    stand.confirm()
    stand.give(4)
    stand.now_s += 0.06
    decision = stand.control.step()
    assert decision.rule == "deadline"
    assert decision.setting.messages == 250
    assert decision.setting.wait_ms == pytest.approx(50.0)
    assert len(stand.waiting) == 4, "open for 60 ms, and 50 is what the limit leaves"
    stand.now_s += 10.0
    assert stand.control.step().rule == "blind"
    stand.control.close()
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert (first["messages_before"], first["wait_ms_before"]) == (10, 100.0)
    assert (first["messages"], first["rule"], first["answers"]) == (250, "deadline", 10)
    assert first["answer_ms"] == pytest.approx(300.0)
    assert first["reason"] == decision.reason
    assert (first["rtt_ms"], first["expected_late_ratio"]) == (None, None)
    assert second["expected_late_ratio"] == first["predicted_late_ratio"] == decision.prediction.late_ratio
    assert (second["rule"], second["predicted_late_ratio"], second["answer_ms"]) == ("blind", None, None)
    assert first.keys() == second.keys()


async def test_a_period_is_held_back_that_began_stopped_or_was_stopped() -> None:
    stand = Stand()
    found = []
    for stops, stopped in ((0, False), (1, True), (1, True), (1, False), (1, False), (2, False)):
        stand.stops, stand.stopped = stops, stopped
        stand.now_s += 10.0
        found.append(stand.control.step().observation.held_back)
    assert found == [False, True, True, True, False, True]


async def test_dead_letters_are_no_matter_of_the_period() -> None:
    stand = Stand()
    stand.delivery.dead_letter(b"k", b"x", [], 1, "no payload")
    stand.confirm()
    stand.now_s += 1.0
    seen = stand.control.step().observation
    assert (seen.per_s, seen.answers_ms, seen.late_ratio) == (0.0, (), None)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policy": "best"}, "batching.policy 'best': allowed fixed, timely"),
        ({"policy": "timely", "limit_ms": None}, "batching.limit_ms: policy 'timely' needs one"),
        ({"policy": "timely", "period_s": 0.2}, "batching.period_s 0.2: shorter than a batch"),
        ({"policy": "timely", "limit_ms": -1.0}, "batching.limit_ms"),
    ],
)
def test_what_no_gateway_can_obey_is_refused_before_anything_is_opened(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    path = tmp_path / "gateway.json"
    batching = {"messages": 10, "wait_ms": 100.0, "limit_ms": 350.0, **changed}
    config = {
        "bootstrap": "127.0.0.1:1",
        "host": "127.0.0.1",
        "port": 1,
        "mode": "qos1",
        "batching": batching,
    }
    path.write_text(json.dumps(config))
    with pytest.raises(Refusal) as refusal:
        read_gateway_config(path)
    assert said in str(refusal.value)


@pytest.mark.broker
@pytest.mark.kafka
def test_a_real_gateway_chooses_by_what_it_sees_and_loses_nothing(
    kafka, topics, mosquitto_loopback, start_gateway, read_records, publish, payloads, until, tmp_path: Path
) -> None:
    log = tmp_path / "decisions-0.jsonl"
    host, port = mosquitto_loopback
    batching = {
        "messages": 50, "wait_ms": 900.0, "policy": "timely", "limit_ms": 500.0, "period_s": 1.0,
        "decision_log": str(log),
    }  # fmt: skip
    gateway = start_gateway(
        host=host, port=port, bootstrap=kafka, topics_prefix=topics.prefix, batching=batching, receive_max=400
    )
    messages = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(10, 60)]
    server = type("Server", (), {"host": host, "port": port})
    for first in range(0, 600, 20):
        publish(server, messages[first : first + 20])
    until(gateway, lambda event: event["delivered"] == 600)
    gateway.stop()
    done = gateway.latest["done"]
    assert (done["drained"], done["received"], done["acknowledged"]) == (True, 600, 600)
    assert len(read_records(kafka, topics.status, 600)) == 600
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    seen = [row for row in rows if row["answers"]]
    assert seen
    assert all(row["rtt_ms"] > 0 and row["loss_ratio"] is not None for row in seen)
    assert all(row["congestion_control"] for row in seen)
    known = [row for row in seen if row["request_ms"] is not None and row["message_bytes"] is not None]
    assert known, "librdkafka's statistics come each second"
    mean_bytes = sum(len(payload) for _, payload in messages) / len(messages)
    # A record is its payload, key, seven headers and framing.
    assert all(mean_bytes + 100 < row["message_bytes"] < mean_bytes + 700 for row in known)
    assert all(100 < row["request_bytes"] < 200 for row in known)
    assert all(row["wait_ms"] <= 500.0 for row in rows if row["rule"] == "largest")


@pytest.mark.full
@pytest.mark.broker
@pytest.mark.kafka
def test_while_kafka_stands_still_a_gateway_that_chooses_keeps_its_setting_and_loses_nothing(
    run_record, mosquitto_loopback, start_gateway, read_records, publish, payloads, until, tmp_path: Path
) -> None:
    log = tmp_path / "decisions-0.jsonl"
    host, port = mosquitto_loopback
    batching = {
        "messages": 5, "wait_ms": 50.0, "policy": "timely", "limit_ms": 500.0, "period_s": 1.0,
        "decision_log": str(log),
    }  # fmt: skip
    messages = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(10, 60)]
    server = type("Server", (), {"host": host, "port": port})
    with KafkaServer(run_record) as kafka:
        topics = KafkaTopics("still.")
        create_topics(kafka.bootstrap, topics)
        gateway = start_gateway(
            host=host, port=port, bootstrap=kafka.bootstrap, topics_prefix=topics.prefix, batching=batching,
            receive_max=100,
        )  # fmt: skip
        publish(server, messages[:200])
        until(gateway, lambda event: event["delivered"] == 200)
        stand_still(kafka.process.pid)
        try:
            publish(server, messages[200:])
            rows = len(log.read_text().splitlines())
            for _ in range(8):
                event = gateway.wait_for("progress", 10)
            assert event["acknowledged"] <= event["delivered"] < 600
        finally:
            os.kill(kafka.process.pid, signal.SIGCONT)
        until(gateway, lambda event: event["delivered"] == 600)
        gateway.stop()
        done = gateway.latest["done"]
        assert (done["drained"], done["acknowledged"], done["held"]) == (True, 600, 0)
        records = read_records(kafka.bootstrap, topics.status, 600)
    assert sorted(record.value() for record in records) == sorted(payload for _, payload in messages)
    decided = [json.loads(line) for line in log.read_text().splitlines()]
    still = [row for row in decided[rows:] if row["rule"] == "blind"]
    assert still, "nothing was confirmed in a period in which Kafka stood still"
    assert all((r["messages"], r["wait_ms"]) == (r["messages_before"], r["wait_ms_before"]) for r in still)
    assert still[-1]["held_back"], "the gateway held all that it may"
