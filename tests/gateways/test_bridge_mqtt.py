"""The gateway process between a real mosquitto and a real Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from standing_still import stand_still

from gateways.protocols.mqtt.address import mqtt_topic
from gateways.receive_log import to_table
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import HEADERS, KafkaTopics, vehicle_id

pytestmark = [pytest.mark.broker, pytest.mark.kafka]


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    """A mosquitto of the test's own: persistent sessions of other tests must not fill it."""
    with MosquittoServer(run_record) as server:
        yield server


@pytest.fixture(scope="module")
def stoppable_kafka(session_record: RunRecord) -> Iterator[KafkaServer]:
    with KafkaServer(session_record, name="kafka-stoppable") as server:
        yield server


@pytest.fixture
def own_kafka(stoppable_kafka: KafkaServer) -> Iterator[KafkaServer]:
    """A Kafka that the test may freeze; it runs again afterwards."""
    yield stoppable_kafka
    thawed(stoppable_kafka)


def place(broker: MosquittoServer, bootstrap: str, topics: KafkaTopics) -> dict[str, Any]:
    return {"host": broker.host, "port": broker.port, "bootstrap": bootstrap, "topics_prefix": topics.prefix}


def own_topics(kafka: KafkaServer) -> KafkaTopics:
    topics = KafkaTopics(f"o{uuid.uuid4().hex[:8]}.")
    create_topics(kafka.bootstrap, topics)
    return topics


def frozen(kafka: KafkaServer) -> None:
    stand_still(kafka.process.pid)


def thawed(kafka: KafkaServer) -> None:
    os.killpg(kafka.process.pid, signal.SIGCONT)


def pairs(records: list[Any]) -> set[tuple[bytes, bytes]]:
    return {(record.key(), record.value()) for record in records}


def kill(gateway: Any) -> None:
    gateway.popen.send_signal(signal.SIGKILL)
    gateway.popen.wait(10)


@pytest.mark.parametrize(
    "mode",
    [
        "qos0",
        "qos1",
        "qos2",
        "qos1-v311",
        *(pytest.param(mode, marks=pytest.mark.full) for mode in ("qos0-v311", "qos2-v311")),
    ],
)
def test_every_message_becomes_one_record(
    mode, broker, kafka, topics, start_gateway, read_records, payloads, publish, tmp_path
) -> None:
    sent = payloads(3, 5)
    log = tmp_path / "received.events"
    gateway = start_gateway(**place(broker, kafka, topics), mode=mode, receive_log=str(log))
    before_ns = time.time_ns()
    publish(broker, [(mqtt_topic(vehicle_id(v)), p) for v, _, p in sent], qos=int(mode[3]))
    records = read_records(kafka, topics.status, len(sent))
    assert sorted((r.key(), r.value()) for r in records) == sorted(
        (vehicle_id(v).encode(), p) for v, _, p in sent
    )
    expected = {(vehicle_id(v), s): 1_700_000_000_000_000_000 for v, s, _ in sent}
    for record in records:
        assert tuple(name for name, _ in record.headers()) == HEADERS
        headers = {name: value.decode() for name, value in record.headers()}
        assert (headers["format"], headers["protocol"], headers["mode"]) == ("protobuf", "mqtt", mode)
        assert headers["epoch"] == "1"
        assert int(headers["sampled_at_ns"]) >= expected[record.key().decode(), int(headers["sequence"])]
        assert before_ns < int(headers["received_at_ns"]) < time.time_ns()
    gateway.stop()
    assert gateway.latest["done"]["drained"] is True
    table = to_table(log).to_pylist()
    assert sorted((r["vehicle_id"], r["sequence"]) for r in table) == sorted(expected)


@pytest.mark.parametrize("mode", ["qos1", pytest.param("qos2", marks=pytest.mark.full)])
def test_broker_is_not_acknowledged_before_kafka_has_the_record(
    mode, broker, own_kafka, start_gateway, read_records, payloads, publish, until
) -> None:
    topics = own_topics(own_kafka)
    config = {**place(broker, own_kafka.bootstrap, topics), "mode": mode}
    first = start_gateway(**config)
    sent = payloads(5, 10)
    frozen(own_kafka)
    publish(broker, [(mqtt_topic(vehicle_id(v)), p) for v, _, p in sent], qos=int(mode[3]))
    event = until(first, lambda e: e["received"] == len(sent))
    assert (event["acknowledged"], event["delivered"], event["mqtt_held"]) == (0, 0, len(sent))
    # What was never acknowledged the broker still has: the next gateway gets all of it.
    kill(first)
    thawed(own_kafka)
    second = start_gateway(**config)
    until(second, lambda e: e["acknowledged"] == len(sent))
    # What the first had on the wire when it was killed Kafka may take as well.
    expected = {(vehicle_id(v).encode(), p) for v, _, p in sent}
    records = read_records(
        own_kafka.bootstrap, topics.status, len(sent), lambda found: pairs(found) == expected
    )
    assert pairs(records) == expected


def test_early_acknowledgement_loses_what_a_killed_gateway_held(
    broker, own_kafka, start_gateway, read_records, payloads, publish, until
) -> None:
    topics = own_topics(own_kafka)
    config = {**place(broker, own_kafka.bootstrap, topics), "early_ack": True, "format": "json"}
    first = start_gateway(**config)
    # Five requests at most are on the wire to Kafka, each with a batch of 1 MB at most (batch.size): of 12 MB more
    # than half is in the process alone. Spaces at its end do not change a JSON text.
    sent = [(mqtt_topic(vehicle_id(v)), p.ljust(100_000)) for v, _, p in payloads(10, 12, "json")]
    frozen(own_kafka)
    publish(broker, sent)
    until(first, lambda e: e["acknowledged"] == len(sent))
    kill(first)
    thawed(own_kafka)
    second = start_gateway(**config)
    event = until(second, lambda e: e["connected"] == 1)
    assert event["received"] == 0
    assert len(read_records(own_kafka.bootstrap, topics.status, len(sent), timeout_s=3)) < len(sent)


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "mode", ["qos1", *(pytest.param(mode, marks=FULL) for mode in ("qos0", "qos2", "qos1-v311"))]
)
def test_back_pressure_bounds_what_is_held(
    mode, broker, own_kafka, start_gateway, read_records, payloads, publish, until
) -> None:
    topics = own_topics(own_kafka)
    gateway = start_gateway(**place(broker, own_kafka.bootstrap, topics), mode=mode, receive_max=20)
    sent = payloads(10, 50)
    frozen(own_kafka)
    publish(broker, [(mqtt_topic(vehicle_id(v)), p) for v, _, p in sent], qos=int(mode[3]))
    event = until(gateway, lambda e: e["held"] >= 20)
    for _ in range(3):
        event = gateway.wait_for("progress", 5)
        # One read of the socket (256 KiB) may lie above the limit where the protocol has no window.
        assert event["held"] <= (20 + 262_144 // 800 if mode in {"qos0", "qos1-v311"} else 20), event
        assert event["delivered"] == 0
    thawed(own_kafka)
    until(gateway, lambda e: e["delivered"] == len(sent))
    records = read_records(own_kafka.bootstrap, topics.status, len(sent))
    assert Counter(r.value() for r in records) == Counter(p for _, _, p in sent)


def test_bad_input_goes_to_the_dead_letters_and_good_input_on(
    broker, kafka, topics, start_gateway, read_records, payloads, publish, until
) -> None:
    gateway = start_gateway(**place(broker, kafka, topics))
    mine = next(p for v, _, p in payloads(2, 1) if v == 1)
    own, strange = mqtt_topic(vehicle_id(1)), mqtt_topic(vehicle_id(9))
    publish(
        broker,
        [
            (own, b"\xff\xff not protobuf"),
            (own, b""),
            (strange, mine),
            ("vehicles/a/b/c/d", mine),
            ("vehicles/" + "x" * 60 + "/status", mine),
            (own, mine),
        ],
    )
    letters = read_records(kafka, topics.dead_letter, 5)
    reasons = [dict(r.headers())["reason"].decode() for r in letters]
    assert len(letters) == 5
    assert sum("does not name a vehicle" in reason for reason in reasons) == 2
    assert sum("the payload names vehicle" in reason for reason in reasons) == 1
    assert sum("protobuf payload" in reason for reason in reasons) == 2
    assert {r.value() for r in letters if r.key() == strange.split("/")[1].encode()} == {mine}
    assert len(read_records(kafka, topics.status, 1)) == 1
    event = until(gateway, lambda e: e["acknowledged"] == 6)
    assert (event["dead_letters"], event["mqtt_held"], event["connections_lost"]) == (5, 0, 0)


def test_duplicates_are_counted_and_passed_on(
    broker, kafka, topics, start_gateway, read_records, payloads, publish, until
) -> None:
    gateway = start_gateway(**place(broker, kafka, topics))
    sent = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(2, 3)]
    publish(broker, [*sent, sent[0], sent[-1]])
    event = until(gateway, lambda e: e["delivered"] == 8)
    assert event["duplicates"] == 2
    assert len(read_records(kafka, topics.status, 8)) == 8


def test_shared_gateways_take_each_message_once(
    broker, kafka, topics, start_gateway, read_records, payloads, publish
) -> None:
    config = {**place(broker, kafka, topics), "shared": True}
    gateways = [start_gateway(**config, name=f"shared-{topics.prefix}{k}") for k in range(2)]
    sent = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(10, 20)]
    publish(broker, sent)
    records = read_records(kafka, topics.status, len(sent))
    assert Counter(r.value() for r in records) == Counter(p for _, p in sent)
    for gateway in gateways:
        gateway.stop()
    taken = [gateway.latest["done"]["received"] for gateway in gateways]
    assert sum(taken) == len(sent)
    assert min(taken) > 0


def test_dropped_on_purpose_is_logged_acknowledged_and_missing(
    broker, kafka, topics, start_gateway, read_records, payloads, publish, until, tmp_path
) -> None:
    log = tmp_path / "received.events"
    drop = [[vehicle_id(2), 3]]
    gateway = start_gateway(**place(broker, kafka, topics), receive_log=str(log), faults={"drop": drop})
    sent = payloads(2, 4)
    publish(broker, [(mqtt_topic(vehicle_id(v)), p) for v, _, p in sent])
    event = until(gateway, lambda e: e["delivered"] == 7 and e["dropped_on_purpose"] == 1)
    assert event["mqtt_held"] == 0
    gateway.stop()
    assert (vehicle_id(2), 3) in {(r["vehicle_id"], r["sequence"]) for r in to_table(log).to_pylist()}
    records = read_records(kafka, topics.status, 7)
    assert (vehicle_id(2).encode(), b"3") not in {(r.key(), dict(r.headers())["sequence"]) for r in records}


def test_small_sequences_are_unwrapped_across_a_restart(
    broker, kafka, topics, start_gateway, read_records, publish, until
) -> None:
    config = {**place(broker, kafka, topics), "format": "small"}
    first = start_gateway(**config)
    topic = mqtt_topic(vehicle_id(1))
    sent = [(topic, b"message%03d" % (k % 100 + 1)) for k in range(250)]
    publish(broker, [*sent, sent[248]])
    until(first, lambda e: e["delivered"] == 251)
    kill(first)
    second = start_gateway(**config)
    publish(broker, [(topic, b"message051"), (topic, b"message001")])
    event = until(second, lambda e: e["delivered"] == 2)
    assert event["duplicates"] == 0
    records = read_records(kafka, topics.status, 253)
    sequences = [int(dict(r.headers())["sequence"]) for r in records]
    assert sequences == [*range(1, 251), 249, 251, 301]
    assert {dict(r.headers())["sampled_at_ns"] for r in records} == {b""}


@pytest.mark.parametrize("mode", [pytest.param("qos1", marks=FULL), "qos2"])
def test_broker_restarted_by_sigterm_loses_nothing(
    mode, broker, kafka, topics, start_gateway, read_records, payloads, publish, until
) -> None:
    gateway = start_gateway(**place(broker, kafka, topics), mode=mode)
    sent = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(5, 20)]
    publish(broker, sent[:50], qos=int(mode[3]))
    first_ns = until(gateway, lambda e: e["delivered"] == 50)["connected_at_ns"]
    stopped_ns = time.time_ns()
    assert 0 < first_ns < stopped_ns
    broker.restart()
    again = until(gateway, lambda e: e["connections_lost"] >= 1 and e["connected"] == 1)
    assert stopped_ns < again["connected_at_ns"] < time.time_ns()
    publish(broker, sent[50:], qos=int(mode[3]))
    # Acknowledgements that the broker had not read when it stopped bring their messages again.
    expected = {p for _, p in sent}
    records = read_records(kafka, topics.status, 100, lambda found: {r.value() for r in found} == expected)
    assert {r.value() for r in records} == expected
    gateway.stop()
    assert gateway.latest["done"]["connections_lost"] == 1


def test_metrics_page_has_the_counters(
    broker, kafka, topics, start_gateway, payloads, publish, until
) -> None:
    gateway = start_gateway(**place(broker, kafka, topics), metrics_port=0)
    publish(broker, [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(1, 4)])
    until(gateway, lambda e: e["delivered"] == 4)
    port = gateway.latest["ready"]["metrics_port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        page = response.read().decode()
    samples = {s.name: s for family in text_string_to_metric_families(page) for s in family.samples}
    assert samples["ivsim_gateway_received_total"].labels.keys() == {"protocol", "mode", "gateway"}
    assert samples["ivsim_gateway_delivered_total"].value == 4
    assert samples["ivsim_gateway_held"].value == 0


def test_malformed_publishes_neither_stop_it_nor_lose_a_good_one(
    broker, kafka, topics, start_gateway, read_records, payloads, publish, until, fuzzed
) -> None:
    gateway = start_gateway(**place(broker, kafka, topics))
    good = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(5, 20)]
    mixed = fuzzed(good, 5000)
    publish(broker, mixed)
    event = until(gateway, lambda e: e["acknowledged"] == len(mixed))
    assert event["dead_letters"] == 5000
    records = read_records(kafka, topics.status, len(good))
    assert Counter(r.value() for r in records) == Counter(p for _, p in good)


def test_a_payload_over_the_limit_leaves_its_beginning_size_and_reason(
    broker, kafka, topics, start_gateway, read_records, payloads, publish, until
) -> None:
    # An MQTT 5 gateway announces its limit: the broker then drops a longer packet.
    gateway = start_gateway(**place(broker, kafka, topics), mode="qos1-v311")
    topic = mqtt_topic(vehicle_id(1))
    huge = b"beginning" + bytes(13_000_000)
    (good,) = [p for _, _, p in payloads(1, 1)]
    publish(broker, [(topic, huge), (topic, good), ("vehicles/no one/else", huge)])
    event = until(gateway, lambda e: e["acknowledged"] == 3)
    assert (event["dead_letters"], event["mqtt_held"], event["connections_lost"]) == (2, 0, 0)
    assert event["received_bytes"] == 2 * len(huge) + len(good)
    letters = read_records(kafka, topics.dead_letter, 2)
    for letter in letters:
        headers = dict(letter.headers())
        assert letter.value() == huge[:900_000]
        assert headers["payload_bytes"] == b"%d" % len(huge)
        assert headers["reason"] == b"a payload of 13000009 bytes: a packet may have 12582912"
    assert {letter.key() for letter in letters} == {vehicle_id(1).encode(), b"vehicles/no one/else"}
    assert [record.value() for record in read_records(kafka, topics.status, 1)] == [good]


def test_end_of_standard_input_ends_the_gateway(broker, kafka, topics, start_gateway) -> None:
    gateway = start_gateway(**place(broker, kafka, topics))
    gateway.popen.stdin.close()
    assert gateway.popen.wait(10) == 0


def test_without_an_owner_a_gateway_runs_until_a_signal(broker, kafka, topics, tmp_path) -> None:
    """As under a service manager, which gives /dev/null."""
    path = tmp_path / "gateway.json"
    path.write_text(json.dumps({**place(broker, kafka, topics), "mode": "qos1", "name": "no-owner"}))
    argv = [sys.executable, "-m", "gateways", "mqtt", "--config", str(path)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as gateway:
        events = (json.loads(line)["event"] for line in gateway.stdout)
        assert [next(events) for _ in range(4)] == ["ready", "progress", "progress", "progress"]
        gateway.send_signal(signal.SIGTERM)
        assert list(events)[-1] == "done"
    assert gateway.returncode == 0


def test_sigterm_ends_the_gateway_in_order(broker, kafka, topics, start_gateway) -> None:
    gateway = start_gateway(**place(broker, kafka, topics))
    gateway.popen.send_signal(signal.SIGTERM)
    gateway.wait_for("done", 10)
    assert gateway.popen.wait(10) == 0


def test_log_of_a_killed_gateway_is_continued(
    broker, kafka, topics, start_gateway, payloads, publish, until, tmp_path: Path
) -> None:
    log = tmp_path / "received.events"
    config = {**place(broker, kafka, topics), "receive_log": str(log)}
    sent = [(mqtt_topic(vehicle_id(v)), p) for v, _, p in payloads(1, 6)]
    first = start_gateway(**config)
    publish(broker, sent[:3])
    until(first, lambda e: e["delivered"] == 3)
    kill(first)
    with log.open("ab") as file:
        file.write(b"torn")
    second = start_gateway(**config)
    publish(broker, sent[3:])
    until(second, lambda e: e["delivered"] == 3)
    second.stop()
    assert to_table(log)["sequence"].to_pylist() == [1, 2, 3, 4, 5, 6]
