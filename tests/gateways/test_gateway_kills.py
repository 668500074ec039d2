"""Gateway and Kafka killed with SIGKILL under load: no message that the broker took is missing from Kafka."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gateways.protocols.mqtt.address import mqtt_topic
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import answers, create_topics
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = [pytest.mark.broker, pytest.mark.kafka]


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record) as server:
        yield server


def load(payloads: Any) -> list[tuple[str, bytes]]:
    return [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(20, 60)]


def place(broker: MosquittoServer, bootstrap: str, topics: KafkaTopics, mode: str) -> dict[str, Any]:
    return {
        "host": broker.host,
        "port": broker.port,
        "bootstrap": bootstrap,
        "topics_prefix": topics.prefix,
        "mode": mode,
    }


@pytest.mark.parametrize("mode", ["qos1", "qos2"])
def test_a_killed_gateway_loses_nothing(
    mode, broker, kafka, topics, start_gateway, read_records, payloads, publish
) -> None:
    config = place(broker, kafka, topics, mode)
    sent = load(payloads)
    gateway = start_gateway(**config)
    for part in range(3):
        piece = sent[part * 400 : (part + 1) * 400]
        thread = threading.Thread(target=publish, args=(broker, piece, int(mode[3])))
        thread.start()
        # In the middle of the stream, wherever that is.
        gateway.popen.send_signal(signal.SIGKILL)
        gateway.popen.wait(10)
        gateway = start_gateway(**config)
        thread.join(60)
    # The gateway holds nothing also while the broker still has something for it: Kafka alone shows the end.
    expected = {payload for _, payload in sent}
    records = read_records(
        kafka, topics.status, len(sent), lambda found: {r.value() for r in found} == expected
    )
    assert {r.value() for r in records} == expected


@pytest.mark.full
@pytest.mark.parametrize("mode", ["qos1"])
def test_a_killed_kafka_loses_nothing(
    mode, broker, run_record, start_gateway, read_records, payloads, publish, until
) -> None:
    with KafkaServer(run_record) as kafka:
        topics = KafkaTopics("kill.")
        create_topics(kafka.bootstrap, topics)
        gateway = start_gateway(**place(broker, kafka.bootstrap, topics, mode))
        sent, qos = load(payloads), int(mode[3])
        publish(broker, sent[:100], qos)
        until(gateway, lambda e: e["delivered"] == 100)
        thread = threading.Thread(target=publish, args=(broker, sent[100:600], qos))
        thread.start()
        argv = kafka.process.popen.args
        kafka.process.kill()
        # The first part may be through before the kill, however soon it comes.
        publish(broker, sent[600:], qos)
        until(gateway, lambda e: e["held"] > 0)
        again = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            thread.join(60)
            event = until(gateway, lambda e: e["delivered"] >= len(sent) and e["held"] == 0, timeout_s=60)
            assert answers(kafka.bootstrap, 5.0)
            # An idempotent producer: a request repeated after the kill leaves no second record.
            assert (event["delivered"], event["duplicates"]) == (len(sent), 0)
            records = read_records(kafka.bootstrap, topics.status, len(sent))
            assert Counter(r.value() for r in records) == Counter(payload for _, payload in sent)
        finally:
            again.kill()
            again.wait(10)
