"""Gateways by other client libraries, Kafka on the host and the broker in the cloud's namespace, as a run has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateways.protocols.mqtt.address import mqtt_topic
from gateways.sinks import CONFLUENT, SINKS
from ivsim.runs.processes import java_of
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.namespace import inside
from schemas.topics import CLOUD_ADDRESS, HEADERS, KafkaTopics, vehicle_id
from simulator.links.direct import DirectLink

# What each client promises under a gateway: tests/contract/test_sinks.py.
pytestmark = [pytest.mark.full, pytest.mark.broker, pytest.mark.kafka, pytest.mark.netns]

OTHERS = [name for name in SINKS if name != CONFLUENT]


@pytest.fixture
def link(run_record: RunRecord) -> Iterator[DirectLink]:
    made = DirectLink(run_record.run_id, 1)
    run_record.namespace(made.vehicles_namespace)
    run_record.namespace(made.cloud_namespace)
    with made:
        yield made


def test_each_message_becomes_a_record_of_each_gateway_and_each_ends_in_order(
    link: DirectLink,
    kafka: str,
    run_record: RunRecord,
    start_gateway: Callable[..., Child],
    read_records: Callable[..., list[Any]],
    payloads: Callable[..., list[tuple[int, int, bytes]]],
    publish: Callable[..., None],
) -> None:
    sent = payloads(3, 40)
    topics = {name: KafkaTopics(f"{name}-{run_record.run_id}.") for name in OTHERS}
    with MosquittoServer(run_record, host=CLOUD_ADDRESS, namespace=link.cloud_namespace) as broker:
        gateways = {}
        for name in OTHERS:
            create_topics(kafka, topics[name])
            gateways[name] = start_gateway(
                bootstrap=kafka,
                host=broker.host,
                port=broker.port,
                namespace=link.cloud_namespace,
                topics_prefix=topics[name].prefix,
                name=f"{name}-{run_record.run_id}",
                kafka_client=name,
                java=java_of(name),
            )
        with inside(link.cloud_namespace):
            publish(broker, [(mqtt_topic(vehicle_id(vehicle)), payload) for vehicle, _, payload in sent])
        for name, gateway in gateways.items():
            records = read_records(kafka, topics[name].status, len(sent))
            assert sorted((one.key(), one.value()) for one in records) == sorted(
                (vehicle_id(vehicle).encode(), payload) for vehicle, _, payload in sent
            ), name
            assert all(tuple(header for header, _ in one.headers()) == HEADERS for one in records), name
            gateway.popen.terminate()
            done = gateway.wait_for("done", 20)
            assert (done["drained"], done["acknowledged"], done["held"]) == (True, len(sent), 0), name
            assert gateway.popen.wait(20) == 0, name
