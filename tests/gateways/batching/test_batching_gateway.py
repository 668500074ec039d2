"""A gateway process that makes batches, between a real mosquitto and a real Kafka."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from gateways.protocols.mqtt.address import mqtt_topic
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = [pytest.mark.broker, pytest.mark.kafka]

LONG = {"messages": 50, "wait_ms": 60_000.0}


@pytest.fixture
def messages(payloads: Any) -> list[tuple[str, bytes]]:
    return [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(20, 30)]


def place(
    broker: MosquittoServer, kafka: str, topics: KafkaTopics, batching: dict[str, Any]
) -> dict[str, Any]:
    return {
        "host": broker.host,
        "port": broker.port,
        "bootstrap": kafka,
        "topics_prefix": topics.prefix,
        "batching": batching,
    }


def test_its_end_waits_for_no_batch_and_loses_nothing(
    kafka, topics, run_record: RunRecord, start_gateway, read_records, publish, until, messages
) -> None:
    with MosquittoServer(run_record) as broker:
        gateway = start_gateway(**place(broker, kafka, topics, LONG))
        publish(broker, messages[:333])
        event = until(gateway, lambda e: e["received"] == 333 and e["held"] < 100)
        assert event["delivered"] == event["acknowledged"] == 333 - event["held"] < 333
        gateway.stop()
        done = gateway.latest["done"]
        assert (done["drained"], done["delivered"], done["full_batches"]) == (True, 333, done["batches"] - 2)
        assert len(read_records(kafka, topics.status, 333)) == 333


def test_killed_while_batches_are_open_it_loses_nothing(
    kafka, topics, run_record: RunRecord, start_gateway, read_records, publish, messages
) -> None:
    with MosquittoServer(run_record) as broker:
        config = place(broker, kafka, topics, {"messages": 20, "wait_ms": 100.0})
        gateway = start_gateway(**config)
        for part in range(2):
            thread = threading.Thread(target=publish, args=(broker, messages[part * 300 : (part + 1) * 300]))
            thread.start()
            gateway.popen.send_signal(signal.SIGKILL)
            gateway.popen.wait(10)
            gateway = start_gateway(**config)
            thread.join(60)
        expected = {payload for _, payload in messages}
        records = read_records(
            kafka, topics.status, 600, lambda found: {r.value() for r in found} == expected
        )
        assert {r.value() for r in records} == expected
