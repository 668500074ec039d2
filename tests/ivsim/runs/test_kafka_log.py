"""What a run keeps of Kafka's records: every one, as it was, without payloads."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_END, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ivsim.option_rules import run_options
from ivsim.report.figures import FiguresAside
from ivsim.runs import kafka_log
from ivsim.runs.directory import RunDirectory
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.kafka_log import KafkaLog, keep
from ivsim.runs.ledger_job import LedgerJob
from ivsim.testbed.kafka_admin import Copies, create_topics
from ivsim.testbed.kafka_cluster import bootstrap_of, kafka_cluster
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from ledger.config import LedgerConfig
from ledger.kept import Tally
from schemas.kafka_login import client_settings
from schemas.topics import KafkaTopics
from twin.listed_topics import await_listed

pytestmark = pytest.mark.kafka


@pytest.fixture
def address(kafka: str) -> KafkaAddress:
    topics = KafkaTopics(f"t{uuid.uuid4().hex[:8]}.")
    admin = AdminClient({"bootstrap.servers": kafka})
    made = admin.create_topics([NewTopic(name, 2, 1) for name in (topics.status, topics.state)])
    for future in made.values():
        future.result(30)
    await_listed(admin, kafka, {topics.status, topics.state})
    return KafkaAddress(kafka, topics)


def test_every_record_is_kept_without_its_payload(address: KafkaAddress, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": address.bootstrap})
    for number in range(30_000):
        headers = [("format", b"json"), ("epoch", b"1"), ("sequence", b"%d" % number), ("other", b"x")]
        producer.produce(address.topics.status, b".." + b"truck" * (number % 2), b"truck", headers=headers)
        producer.poll(0)
    producer.produce(
        address.topics.status, None, None, headers=[("epoch", b"1"), ("epoch", b"\xff"), ("mode", None)]
    )
    producer.produce(address.topics.state, b"v", b"truck", headers=[("messages", b"7")])
    assert producer.flush(30) == 0
    path = tmp_path / "kafka_records.parquet"
    assert keep(address, path) == 30_002
    rows = pq.read_table(path).to_pylist()
    assert min(row["topic"] for row in rows) == "twin.state"
    good = [row for row in rows if row["key"] == b"truck" and row["topic"] == "vehicle.status"]
    assert len({row["header_sequence"] for row in good}) == len(good) == 30_000
    assert {row["value_has_key"] for row in good} == {True, False}
    assert {row["value_bytes"] for row in good} == {2, 7}
    assert all(row["appended_at_ns"] % 1_000_000 == 0 for row in rows)
    (odd,) = (row for row in rows if row["key"] is None)
    assert (odd["header_epoch"], odd["header_mode"], odd["value_bytes"]) == (b"\xff", None, None)
    assert odd["value_has_key"] is None
    assert [row["header_messages"] for row in rows if row["topic"] == "twin.state"] == [b"7"]
    assert sorted((row["partition"], row["offset"]) for row in [*good, odd])[:2] == [(0, 0), (0, 1)]


def state(address: KafkaAddress, *values: bytes) -> None:
    """Write these records to twin.state."""
    producer = Producer({"bootstrap.servers": address.bootstrap})
    for value in values:
        producer.produce(address.topics.state, value, b"truck")
    assert producer.flush(30) == 0


def await_file(path: Path) -> None:
    """Return once the file is there, which another thread writes."""
    until_s = time.monotonic() + 20
    while not path.is_file():
        assert time.monotonic() < until_s, path
        time.sleep(0.05)


def lengths(path: Path) -> list[int]:
    return sorted(pq.read_table(path)["value_bytes"].to_pylist())


def test_what_comes_while_more_is_awaited_is_kept_too(address: KafkaAddress, tmp_path: Path) -> None:
    path = tmp_path / "k.parquet"
    asked = 0

    def awaits_two() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:  # the topics have been empty so far
            state(address, b"v", b"ww")
        return tally.taken < 2

    class Counts(Tally):
        def add(self, kept: pa.Table) -> None:
            self.taken += kept.num_rows

    tally = Counts(LedgerConfig(run_dir="."))
    assert KafkaLog(address, path, tally=tally).keep(awaits_two) == 2
    assert lengths(path) == [1, 2]


def test_what_was_followed_is_read_once_and_the_rest_at_the_end(
    address: KafkaAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "_ROW_GROUP", 2)
    path, part = tmp_path / "k.parquet", tmp_path / "k.part"
    log = KafkaLog(address, path, part=part)
    log.follow()
    state(address, b"1", b"22", b"333")
    await_file(part)
    state(address, b"4444")
    log.stop_following()
    state(address, b"55555")
    assert log.keep() == 5
    assert lengths(path) == [1, 2, 3, 4, 5]
    assert list(tmp_path.iterdir()) == [path]


def test_a_follower_that_fails_says_why_and_leaves_no_file(address: KafkaAddress, tmp_path: Path) -> None:
    log = KafkaLog(KafkaAddress(address.bootstrap, KafkaTopics("none.")), tmp_path / "k.parquet")
    log.follow()
    with pytest.raises(NotReady, match=r"could not be kept: there is no topic none\.vehicle\.status"):
        log.keep()
    assert list(tmp_path.iterdir()) == []


def broken_log(address: KafkaAddress, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """Return one whose thread has written a record, and has broken at the next."""
    rows_of, ended = kafka_log._table, threading.Event()

    def broken(records: list[Message], names: dict[str, str]) -> pa.Table:
        if any(record.value() == b"333" for record in records):
            raise ArithmeticError
        return rows_of(records, names)

    with monkeypatch.context() as patch:
        patch.setattr(kafka_log, "_ROW_GROUP", 1)
        patch.setattr(kafka_log, "_table", broken)
        patch.setattr(threading, "excepthook", lambda _: ended.set())
        part = directory.work / "kafka_records.part"
        log = KafkaLog(address, directory.kafka_records, part=part)
        log.follow()
        state(address, b"1")
        await_file(part)
        state(address, b"333")
        assert ended.wait(20)
    return log


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    found = RunDirectory(tmp_path)
    found.work.mkdir()
    return found


def test_a_follower_that_breaks_has_kept_nothing(
    address: KafkaAddress, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broken_log(address, directory, monkeypatch)
    with pytest.raises(NotReady, match="their reader has failed"):
        log.keep()
    assert list(directory.path.rglob("*")) == [directory.work]


def test_behind_a_follower_that_has_broken_all_is_read_anew(
    address: KafkaAddress, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broken_log(address, directory, monkeypatch)
    components = SimpleNamespace(endpoints=SimpleNamespace(kafka=address), twin=None)
    started: Any = SimpleNamespace(
        components=components, directory=directory, options=run_options(), kafka_log=log
    )
    with FiguresAside(directory.path) as drawn:
        LedgerJob(started, problems := [], drawn).keep_kafka_records()
    log.close()  # as the run does at its very end
    assert problems == []
    assert lengths(directory.kafka_records) == [1, 3]
    assert list(directory.work.iterdir()) == []


def test_records_that_are_gone_are_not_passed_over(address: KafkaAddress, tmp_path: Path) -> None:
    for value in (b"1", b"22"):
        state(address, value)
    admin = AdminClient({"bootstrap.servers": address.bootstrap})
    places = [TopicPartition(address.topics.state, number, OFFSET_END) for number in (0, 1)]
    for future in admin.delete_records(places).values():
        future.result(30)
    with pytest.raises(NotReady, match="could not be kept"):
        keep(address, tmp_path / "k.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_ends_the_wait_leaves_no_file(address: KafkaAddress, tmp_path: Path) -> None:
    def stopped() -> bool:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        KafkaLog(address, tmp_path / "k.parquet").keep(stopped)
    assert list(tmp_path.iterdir()) == []


def test_empty_topics_are_kept_as_an_empty_table(address: KafkaAddress, tmp_path: Path) -> None:
    assert keep(address, tmp_path / "k.parquet") == 0
    assert pq.read_table(tmp_path / "k.parquet").num_rows == 0


def test_a_kafka_that_is_away_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="Kafka's records could not be kept"):
        keep(KafkaAddress("127.0.0.1:1", KafkaTopics()), tmp_path / "k.parquet", silent_s=1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_topic_that_is_missing_is_not_kept_as_one_without_records(
    address: KafkaAddress, tmp_path: Path
) -> None:
    nowhere = KafkaAddress(address.bootstrap, KafkaTopics("none."))
    with pytest.raises(NotReady, match=r"could not be kept: there is no topic none\.vehicle\.status"):
        keep(nowhere, tmp_path / "k.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_the_logs_of_a_cluster_that_was_killed_are_read_and_stay(
    run_record: RunRecord, tmp_path: Path
) -> None:
    """Its clients' listener is decided anew: whoever has the files needs no account of theirs."""
    topics = KafkaTopics()
    with kafka_cluster(run_record, 3, name="killed", security="sasl-ssl") as servers:
        login = servers[0].login
        create_topics(bootstrap_of(servers), topics, partitions=2, copies=Copies(3, 2), login=login)
        producer = Producer({**client_settings(bootstrap_of(servers), login), "acks": "all"})
        for number in range(1_000):
            producer.produce(topics.status, b"value", b"truck%d" % number)
        assert producer.flush(30) == 0
        for server in servers:
            server.process.kill()
        logs = [
            shutil.copytree(server.log, tmp_path / f"log-{number}") for number, server in enumerate(servers)
        ]
    path = tmp_path / "kafka_records.parquet"
    with kafka_cluster(run_record, 3, name="again", storages=logs) as servers:
        assert keep(KafkaAddress(bootstrap_of(servers), topics), path) == 1_000
    assert all((log / "meta.properties").is_file() for log in logs)
    assert len(set(pq.read_table(path)["key"].to_pylist())) == 1_000
