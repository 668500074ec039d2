from __future__ import annotations

import socket
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from ivsim.testbed.kafka import KafkaServer, cluster_id
from ivsim.testbed.kafka_admin import ANSWER_S, answers, create_topics, delete_topics, probe, topics_of
from ivsim.testbed.process import ProcessDied, hold_port
from ivsim.testbed.registry import RunRecord, started_at_ticks
from schemas.errors import Refusal
from schemas.kafka_login import client_settings, read_login
from schemas.topics import KafkaTopics
from twin.service.client import open_source
from twin.service.config import ServiceConfig


@pytest.mark.kafka
def test_no_state_is_compacted_away_before_the_ledger_has_read_it(kafka: str) -> None:
    topics = KafkaTopics(f"kept-{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topics.state)
    admin = AdminClient({"bootstrap.servers": kafka})  # it must live until the answer is in
    (answer,) = admin.describe_configs([resource]).values()
    settings = {name: entry.value for name, entry in answer.result(10).items()}
    assert settings["cleanup.policy"] == "compact"
    assert int(settings["min.compaction.lag.ms"]) >= 86_400_000
    assert settings["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.kafka
def test_ten_megabytes_go_in_and_come_out_with_the_brokers_stamp(kafka: str) -> None:
    topics = KafkaTopics(f"big-{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    payload = bytes(10_000_000)
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 16_000_000, "acks": "all"})
    before_ms = time.time_ns() // 1_000_000
    producer.produce(topics.status, payload, key=b"k")
    assert producer.flush(30) == 0

    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": topics.prefix, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topics.status])
    record = consumer.poll(30)
    consumer.close()

    assert record is not None
    assert record.error() is None
    assert record.value() == payload
    kind, stamp_ms = record.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert stamp_ms >= before_ms
    delete_topics(kafka, topics.prefix)


@pytest.mark.kafka
def test_topics_are_there_for_everyone_once_they_are_made(kafka: str) -> None:
    reader = Producer({"bootstrap.servers": kafka})
    reader.list_topics(timeout=10)  # connected: its question comes at once
    for _ in range(5):
        topics = KafkaTopics(f"made-{uuid.uuid4().hex[:8]}.")
        create_topics(kafka, topics)
        assert set(topics.all()) <= set(reader.list_topics(timeout=10).topics)
        delete_topics(kafka, topics.prefix)


@pytest.mark.kafka
def test_every_partition_is_led_once_its_topic_is_made(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for _ in range(4):
        topics = KafkaTopics(f"led-{uuid.uuid4().hex[:8]}.")
        create_topics(kafka, topics, partitions=30)
        asked = {TopicPartition(topics.status, number): OffsetSpec.latest() for number in range(30)}
        # Each partition's own answer: NOT_LEADER_FOR_PARTITION would be raised here.
        assert [future.result(10).offset for future in admin.list_offsets(asked).values()] == [0] * 30
        delete_topics(kafka, topics.prefix)


@pytest.mark.kafka
def test_a_topic_that_exists_is_refused_by_name(kafka: str) -> None:
    topics = KafkaTopics(f"twice-{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    with pytest.raises(Refusal, match=topics.prefix):
        create_topics(kafka, topics)


@pytest.mark.kafka
def test_a_broker_leaves_nothing_and_tells_when_it_dies(run_record: RunRecord) -> None:
    with KafkaServer(run_record) as server:
        probe(server.bootstrap)
        pid = server.process.pid
        server.process.kill()
        with pytest.raises(ProcessDied, match="kafka was ended by SIGKILL"):
            server.process.check()
    assert started_at_ticks(pid) is None
    assert [path.name for path in run_record.directory.iterdir()] == ["logs"]


@pytest.mark.kafka
def test_a_secured_broker_takes_who_logs_in_alone(run_record: RunRecord) -> None:
    """Everyone of the run by its file; nobody with another password, without one, or in the clear."""
    with KafkaServer(run_record, security="sasl-ssl") as server:
        password = read_login(server.login).password
        secrets = [path for path in run_record.directory.rglob("*") if password in _text(path)]
        assert {path.stat().st_mode & 0o077 for path in secrets} == {0}
        assert password not in Path("/proc", str(server.process.pid), "cmdline").read_text()
        probe(server.bootstrap, login=server.login)
        topics = KafkaTopics("secured.")
        create_topics(server.bootstrap, topics, login=server.login)
        assert topics_of(server.bootstrap, "secured.", login=server.login) == sorted(topics.all())
        config = ServiceConfig(bootstrap=server.bootstrap, kafka_login=server.login, topics_prefix="other.")
        # Only a Kafka that has answered has prefixes to name.
        with pytest.raises(Refusal, match=r"there are 'secured\.'"), open_source(config, "", ""):
            pass
        assert delete_topics(server.bootstrap, "secured.", server.login) == {}

        other = Path(server.login).with_name("other.properties")
        other.write_text(Path(server.login).read_text().replace(password, "another"))
        assert not answers(server.bootstrap, 2.0, str(other))
        assert not answers(server.bootstrap, 1.0)
        began_s = time.monotonic()
        with pytest.raises(
            Refusal, match=rf"answered to --kafka-login {other}: SASL auth.* invalid credentials"
        ):
            probe(server.bootstrap, login=str(other))
        with pytest.raises(Refusal, match=r": it speaks TLS: --kafka-login says how to log in$"):
            probe(server.bootstrap)
        assert time.monotonic() - began_s < ANSWER_S, "a refusal is told at once"
        known = client_settings(server.bootstrap, server.login)
        encrypted = {name: known[name] for name in ("bootstrap.servers", "ssl.ca.location")}
        with pytest.raises(KafkaException):
            AdminClient({**encrypted, "security.protocol": "ssl", "log_level": 0}).list_topics(timeout=1.0)
    assert [path.name for path in run_record.directory.iterdir()] == ["logs"]


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:99999", ":9092"])
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(Refusal, match="expected HOST:PORT"):
        probe(address)


def test_an_address_without_a_broker_is_refused() -> None:
    with hold_port() as closed, pytest.raises(Refusal, match="no Kafka broker answered: Connection refused"):
        probe(f"127.0.0.1:{closed.getsockname()[1]}")


def test_one_that_listens_and_says_nothing_is_refused_in_time() -> None:
    said = pytest.raises(Refusal, match=r"no Kafka broker answered within 0.3 s")
    with socket.create_server(("127.0.0.1", 0)) as silent, said:
        probe(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3)


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    drawn = {cluster_id() for _ in range(2_000)}
    assert len(drawn) == 2_000
    assert not any(identity.startswith("-") for identity in drawn)
