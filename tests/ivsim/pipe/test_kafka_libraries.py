"""Kafka's other client libraries without a broker: their settings, frames, room and refusals; signals beside a JVM."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateways.sinks import kinds
from ivsim.study.engines.pipe.client_loops.options import SETTINGS, client_options, sender_settings, unobeyed
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full, Refused
from ivsim.study.engines.pipe.platforms.kafka_libraries import (
    by_aiokafka,
    by_kafka_python,
    ends,
    frames,
    jar,
    java,
)
from ivsim.testbed import java_client
from ivsim.testbed.paths import installed_jars
from schemas.errors import Refusal

LIBRARIES = [name for name in PLATFORMS if name.startswith("kafka-")]
OF_JAVA = [name for name in LIBRARIES if java.check_java in platform_named(name).needs]
PLACE = {"bootstrap": "127.0.0.1:1", "topic": "t", "partitions": 1, "origin_ms": 0}


def test_there_are_six_and_four_of_them_are_the_official_client():
    assert len(LIBRARIES) == 6
    assert set(LIBRARIES) - set(OF_JAVA) == {"kafka-aiokafka", "kafka-python"}


@pytest.mark.parametrize("settings", SETTINGS)
def test_named_settings_reach_the_official_client(settings):
    told = sender_settings(client_options({"client": "kafka-jpype", "settings": settings, "bytes": 100}))
    producer, consumer = java.producer_properties(PLACE, told), java.consumer_properties(PLACE, told)
    wanted = {
        "document": ("0", "100", "1000000", "1000000", "false", "100000"),
        "document-capped": ("0", "100", "1000000", "1000000", "false", "100000"),
        "defaults": ("all", "5", "16384", "5", "true", "1"),
        "neutral": ("1", "5", "1000000", "5", "false", "1"),
        "warm": ("1", "5", "1000000", "5", "false", "1"),
    }[settings]
    names = ("acks", "linger.ms", "batch.size", "max.in.flight.requests.per.connection", "enable.idempotence")
    assert (*(producer[name] for name in names), consumer["fetch.min.bytes"]) == wanted
    if settings == "document":
        assert producer["send.buffer.bytes"] == consumer["receive.buffer.bytes"] == str(32 << 20)
        assert producer["retries"] == "0"


@pytest.mark.parametrize("settings", SETTINGS)
def test_named_settings_reach_the_libraries_of_python(settings):
    acks, linger_ms, batch = {
        "document": (0, 100.0, 1_000_000),
        "document-capped": (0, 100.0, 1_000_000),
        "defaults": (None, 0.0, 16_384),
        "neutral": (1, 5.0, 1_000_000),
        "warm": (1, 5.0, 1_000_000),
    }[settings]
    told = sender_settings(client_options({"client": "kafka-aiokafka", "settings": settings}))
    found = by_aiokafka.producer_settings(PLACE, told)
    assert (found["linger_ms"], found["max_batch_size"]) == (linger_ms, batch)
    assert found["acks"] == (1 if acks is None else acks)
    assert found["enable_idempotence"] is False
    told = sender_settings(client_options({"client": "kafka-python", "settings": settings}))
    found = by_kafka_python.producer_settings(PLACE, told)
    assert (found["linger_ms"], found["batch_size"]) == (linger_ms, batch)
    assert found["acks"] == ("all" if acks is None else acks)
    assert found["enable_idempotence"] is (settings == "defaults")
    assert by_kafka_python.consumer_settings(PLACE, told)["fetch_min_bytes"] == (
        100_000 if settings.startswith("document") else 1
    )


def test_what_a_library_has_no_setting_for_is_named():
    def lacks(client):
        return set(unobeyed(client_options({"client": client, "settings": "document-capped"})))

    assert lacks("kafka-jpype") == lacks("kafka-python") == {"batch_messages", "message_max_bytes"}
    assert lacks("kafka-aiokafka") - lacks("kafka-python") == {"in_flight", "socket_buffer_bytes", "retries"}


def test_records_and_answers_cross_in_frames():
    records = frames.Records()
    records.add(7, 1, b"key", b"value")
    records.add(8, None, None, b"")
    assert (len(records), records.bytes) == (2, 8)
    whole = records.frame()
    assert len(whole) == 4 + 2 * (8 + 4 + 4 + 4) + 8
    assert whole.endswith(b"keyvalue")
    assert len(records) == records.bytes == 0
    reports = []
    answers = b"".join(
        (
            (2).to_bytes(4, "little"),
            *((100 + number).to_bytes(8, "little") for number in (1, 2)),
            *(length.to_bytes(4, "little") for length in (0, 5)),
            b"wrong",
        )
    )
    assert frames.hand_answers(answers, lambda *one: reports.append(one), 100) == 2
    assert reports == [(1, None), (2, "wrong")]
    assert frames.arrivals((0).to_bytes(4, "little"), 0) is NONE


def test_answers_are_handed_over_in_order_and_room_is_counted():
    reports, done = [], set()
    answers = ends.Answers(
        lambda *one: reports.append(one),
        3,
        lambda future: future in done,
        lambda f: "no" if f == "b" else None,
    )
    for number, future in enumerate("abc", 1):
        answers.check_room()
        answers.add(number, 10, future)
    with pytest.raises(Full):
        answers.check_room()
    done |= {"b", "c"}
    answers.hand_over()
    assert reports == []
    done.add("a")
    answers.hand_over()
    assert reports == [(1, None), (2, "no"), (3, None)]
    assert (len(answers), answers.first) == (0, None)
    with pytest.raises(Full):
        answers.check_room(3)


def test_records_that_are_large_fill_the_room_by_their_bytes(monkeypatch):
    monkeypatch.setattr(ends, "QUEUE_BYTES", 100)
    answers = ends.Answers(lambda *_: None, 1_000, lambda _future: False, lambda _future: None)
    answers.add(1, 100, "a")
    with pytest.raises(Full):
        answers.check_room()


def test_a_record_that_no_request_takes_is_refused():
    assert ends.checked_size(b"k", b"value") == 6
    with pytest.raises(Refused, match="more than a request takes"):
        ends.checked_size(None, bytes(ends.LARGEST_BYTES + 1))


def test_a_call_gives_no_more_than_it_is_asked_for_and_keeps_the_rest():
    polls = [list(range(7)), [], list(range(7, 9))]

    def fetch(_wait_s):
        found = polls.pop(0) if polls else []
        return Arrivals(found, [0] * len(found), found, [b""] * len(found))

    first = ends.Calls({"take": "first", "take_records": 5, "take_ms": 10.0}, fetch)
    assert [first.take().number for _ in range(4)] == [[0, 1, 2, 3, 4], [5, 6], [], [7, 8]]
    polls = [list(range(3)), list(range(3, 7)), list(range(7, 11))]
    full = ends.Calls({"take": "full", "take_records": 5, "take_ms": 1_000.0}, fetch)
    assert [full.take().number for _ in range(2)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "kafka-java"])
def test_a_library_that_is_not_installed_is_named_with_what_has_it(name, monkeypatch):
    monkeypatch.setattr(kinds, "find_spec", lambda _module: None)
    package = platform_named(name).packages[0]
    extra = "ivsim" if name == "kafka-py4j" else "ivsim[clients]"
    assert platform_named(name).missing() == f"no Python package {package}: run `pip install '{extra}'`"


@pytest.mark.parametrize("name", OF_JAVA)
def test_a_java_that_is_not_there_is_named(name, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert platform_named(name).missing().startswith("no Java found: run `make setup`")


def test_a_java_without_its_library_is_named(monkeypatch, tmp_path):
    java_there = tmp_path / "jre" / "bin" / "java"
    java_there.parent.mkdir(parents=True)
    java_there.touch(mode=0o755)
    monkeypatch.setattr(java_client, "java_command", lambda: str(java_there))
    with pytest.raises(Refusal, match=r"bin/java: its Java has no lib/server/libjvm\.so: run `make setup`"):
        java_client.libjvm()


def test_a_jar_that_is_not_built_or_old_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(jar, "PACKAGE", tmp_path)
    monkeypatch.setattr(jar, "built_jar", lambda: tmp_path / "clients" / jar.NAME)
    with pytest.raises(Refusal, match="not built: run `make setup`"):
        jar.frames_jar()
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / jar.NAME).touch()
    monkeypatch.setattr(jar.fold_jar, "built_from", lambda _jar: "0123")
    with pytest.raises(Refusal, match="built from other sources"):
        jar.frames_jar()
    (tmp_path / jar.NAME).touch()
    assert jar.frames_jar() == tmp_path / jar.NAME


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"platform": "kafka-aiokafka", "partitioner": "sticky"}, "partitioner"),
        ({"platform": "kafka-python", "partitioner": "sticky"}, "partitioner"),
        (
            {"platform": "kafka-jpype", "linger_ms": 2.5},
            "--linger 2.5: with --platform kafka-jpype it is a whole number",
        ),
        ({"platform": "kafka-java", "codec": "zstd"}, "codec"),
        ({"platform": "kafka-aiokafka", "security": "tls"}, "security"),
    ],
)
def test_what_a_library_cannot_obey_is_refused(asked, words):
    with pytest.raises(Refusal, match=words):
        pipe_options(asked)


SIGNALLED = """
import os, signal
from ivsim.study.engines.pipe.platforms.kafka_libraries.embedded import embedded
client = embedded().type("org.apache.kafka.common.utils.AppInfoParser").getVersion()
for number in (signal.SIGINT, signal.SIGTERM):
    said = []
    signal.signal(number, lambda *_: said.append(number))
    os.kill(os.getpid(), number)
    assert said == [number]
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("ours", client)
"""


@pytest.mark.kafka
def test_signals_stay_ours_beside_a_java_machine_and_the_client_is_the_brokers():
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True, check=False, timeout=60
    )
    broker = next(iter(installed_jars("kafka").glob("kafka-clients-*.jar"))).stem.rpartition("-")[2]
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["ours", broker], "")
