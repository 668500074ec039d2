from __future__ import annotations

import queue
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import paho.mqtt.client as mqtt
import pika
import pytest
import trustme
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.mqtt.address import mqtt_topic
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord, started_at_ticks
from ivsim.testbed.security import Account, Security, TlsFiles
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

VEHICLE, OTHER = vehicle_id(1), vehicle_id(2)


@pytest.fixture
def secured(tmp_path: Path) -> Security:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1")
    files = TlsFiles(tmp_path / "ca.pem", tmp_path / "server.pem", tmp_path / "server.key")
    authority.cert_pem.write_to_path(str(files.authority))
    server.private_key_pem.write_to_path(str(files.key))
    for blob in server.cert_chain_pems:
        blob.write_to_path(str(files.certificate), append=True)
    accounts = (Account(VEHICLE, "one"), Account(OTHER, "two"), Account("gateway", "three", role="gateway"))
    return Security(files, accounts)


def published(host: str, port: int, topic: str, prepare: Callable[[mqtt.Client], None]) -> ReasonCode | None:
    """The reason code of the PUBACK for one QoS 1 message, or of a refused CONNACK."""
    answers: queue.Queue[ReasonCode] = queue.Queue()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_connect = lambda _c, _u, _f, reason, _p: answers.put(reason)
    client.on_publish = lambda _c, _u, _m, reason, _p: answers.put(reason)
    prepare(client)
    client.connect(host, port)
    client.loop_start()
    try:
        if (connack := answers.get(timeout=10)).is_failure:
            return connack
        client.publish(topic, b"x", qos=1)
        return answers.get(timeout=10)
    finally:
        client.disconnect()
        client.loop_stop()


def test_an_open_mosquitto_takes_a_message(mosquitto_loopback: tuple[str, int]) -> None:
    assert not published(*mosquitto_loopback, mqtt_topic(VEHICLE), lambda _: None).is_failure


@pytest.mark.parametrize(
    ("user", "password", "topic", "outcome"),
    [
        (VEHICLE, "one", mqtt_topic(VEHICLE), "No matching subscribers"),
        (VEHICLE, "one", mqtt_topic(OTHER), "Not authorized"),
        (VEHICLE, "two", mqtt_topic(VEHICLE), "Not authorized"),
        ("gateway", "three", mqtt_topic(VEHICLE), "Not authorized"),
    ],
)
def test_a_vehicle_publishes_its_own_topic_alone(
    run_record: RunRecord, secured: Security, *, user: str, password: str, topic: str, outcome: str
) -> None:
    def prepare(client: mqtt.Client) -> None:
        client.tls_set(ca_certs=str(secured.tls.authority))
        client.username_pw_set(user, password)

    with MosquittoServer(run_record, security=secured) as server:
        assert str(published(server.host, server.port, topic, prepare)) == outcome


@pytest.mark.parametrize("make", [MosquittoServer, pytest.param(RabbitmqServer, marks=pytest.mark.full)])
def test_a_server_restarts_after_a_kill_and_leaves_nothing(
    run_record: RunRecord,
    make: Callable[[RunRecord], AbstractContextManager[MosquittoServer | RabbitmqServer]],
) -> None:
    with make(run_record) as server:
        first = server.process.pid
        server.process.kill()
        with pytest.raises(ProcessDied, match="SIGKILL"):
            server.process.check()
        server.restart()
        server.process.check()
        second = server.process.pid
    assert [started_at_ticks(pid) for pid in (first, second)] == [None, None]
    assert [path.name for path in run_record.directory.iterdir()] == ["logs"]


def test_an_open_rabbitmq_confirms_a_message(rabbitmq_loopback: tuple[str, int]) -> None:
    host, port = rabbitmq_loopback
    with closing(pika.BlockingConnection(pika.ConnectionParameters(host, port))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", amqp_routing_key(VEHICLE), b"x")


def test_rabbitmq_keeps_accounts_apart(run_record: RunRecord, secured: Security) -> None:
    context = ssl.create_default_context(cafile=str(secured.tls.authority))

    def publish(port: int, password: str, key: str) -> None:
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            port,
            credentials=pika.PlainCredentials(VEHICLE, password),
            ssl_options=pika.SSLOptions(context, "127.0.0.1"),
        )
        with closing(pika.BlockingConnection(parameters)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("amq.topic", key, b"x")

    with RabbitmqServer(run_record, security=secured) as server:
        publish(server.port, "one", amqp_routing_key(VEHICLE))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            publish(server.port, "one", amqp_routing_key(OTHER))
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            publish(server.port, "wrong", amqp_routing_key(VEHICLE))
