"""The service over a real Kafka: rebuilt from the compacted topic, live, unmoved by bad records, gone when told."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from bench.twin_load import Load, state_headers
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = pytest.mark.kafka
WAIT_S = 30.0


def until(true: Callable[[], Any], what: str) -> Any:
    """Return what `true` gives once it is true."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {WAIT_S:g} s: {what}")


@dataclass
class Served:
    kafka: str
    topics: KafkaTopics
    record: RunRecord
    load: Load
    child: Child
    client: httpx.Client

    def get(self, path: str, **parameters: Any) -> Any:
        return self.client.get(path, params=parameters).json()

    def up(self) -> None:
        until(lambda: self.client.get("/health").status_code == 200, "health")


def start(kafka: str, topics: KafkaTopics, record: RunRecord, **settings: Any) -> tuple[Child, httpx.Client]:
    path = record.directory / f"service-{uuid.uuid4().hex[:6]}.json"
    path.write_text(json.dumps({"bootstrap": kafka, "topics_prefix": topics.prefix, **settings}))
    child = Child(f"twin-service-{path.stem}", ["twin.service", str(path)], record)
    try:
        ready = child.wait_for("ready", WAIT_S)
    except BaseException:
        child.stop()
        raise
    return child, httpx.Client(base_url=ready["url"], timeout=WAIT_S, trust_env=False)


@pytest.fixture
def served(kafka: str, run_record: RunRecord) -> Iterator[Served]:
    """Ten vehicles' topics and a service that follows them."""
    topics = KafkaTopics(f"svc{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    child, client = start(kafka, topics, run_record)
    yield Served(kafka, topics, run_record, Load(kafka, topics, 10), child, client)
    client.close()
    child.stop()


def test_the_fleet_is_followed_and_rebuilt_by_a_new_service(served: Served) -> None:
    for _ in range(3):
        served.load.all()
    until(lambda: served.get("/api/fleet")["messages"] == 30, "30 messages")
    child, client = start(served.kafka, served.topics, served.record)
    with client:
        until(lambda: client.get("/health").status_code == 200, "the fleet rebuilt")
        mine = [row["sequence"] for row in served.get("/api/vehicles")["items"]]
        theirs = [row["sequence"] for row in client.get("/api/vehicles").json()["items"]]
    assert mine == theirs == [3] * 10
    assert child.stop() == 0


def test_bad_records_are_counted_and_good_ones_still_come(served: Served) -> None:
    load = served.load
    load.all()
    headers = state_headers(1, time.time_ns())
    load.send(vehicle_id(1), b"no headers", None)
    load.send(vehicle_id(1), b"x" * 10_000_000, headers)
    load.send(vehicle_id(1), b"not of the format", headers)
    # Kafka itself refuses a record without a key on a compacted topic.
    load.send("no vehicle's name", b"payload", headers)
    load.send(vehicle_id(1), b"", [*headers[1:], ("format", b"xml")])
    for topic in (served.topics.metrics, served.topics.link, served.topics.emissions):
        load.producer.produce(topic, b"{", vehicle_id(1))
    load.all()
    health = until(lambda: (h := served.get("/health"))["stateRecords"] == 25 and h, "all records read")
    until(lambda: served.get("/health")["badRecords"].get("bad_figure") == 3, "bad figures counted")
    counted = {name: count for name, count in health["badRecords"].items() if name != "bad_figure"}
    assert counted == dict.fromkeys(
        ("header_missing", "payload_too_large", "bad_payload", "no_key", "unknown_format"), 1
    )
    rows = served.get("/api/vehicles")["items"]
    assert [row["sequence"] for row in rows] == [2] * 10
    last = {found["reason"]: found["lastKey"] for found in served.get("/api/rejected")["badRecords"]}
    assert last["payload_too_large"] == vehicle_id(1)
    served.child.check()


def test_a_service_before_its_topics_finds_them(kafka: str, run_record: RunRecord) -> None:
    topics = KafkaTopics(f"late{uuid.uuid4().hex[:8]}.")
    child, client = start(kafka, topics, run_record, wait_for_topics=True)
    with client:
        assert client.get("/health").status_code == 503
        create_topics(kafka, topics)
        Load(kafka, topics, 2).all()
        until(lambda: client.get("/api/fleet").json()["vehicles"] == 2, "the new topics")
    child.stop()


def test_a_mistyped_prefix_is_refused_with_those_that_there_are(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ivsim import cli  # noqa: PLC0415

    wrong = served.topics.prefix.replace(".", "x.")
    for words in (["serve", "--port", "0"], ["get", "1"], ["watch", "--once"]):
        monkeypatch.setattr("sys.argv", ["ivsim", "twin", *words, "--kafka", served.kafka, "--prefix", wrong])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        assert f"no topic {wrong}twin.state" in said.err
        assert repr(served.topics.prefix) in said.err


def test_dead_letters_are_counted_by_reason(served: Served) -> None:
    for reason in (b"stamp_in_future", b"the payload names vehicle 'Y'"):
        served.load.producer.produce(
            served.topics.dead_letter, b"beginning", vehicle_id(1), headers=[("reason", reason)]
        )
    served.load.all()
    wanted = {"stamp_in_future": 1, "at the gateway": 1}
    until(lambda: served.get("/api/fleet")["deadLetters"] == wanted, "dead letters counted")


def test_no_consumer_group_is_left_behind(served: Served) -> None:
    served.load.all()
    until(lambda: served.get("/api/fleet")["vehicles"] == 10, "the fleet")
    served.child.stop()
    admin = AdminClient({"bootstrap.servers": served.kafka})
    groups = admin.list_consumer_groups(request_timeout=WAIT_S).result()
    assert "ivsim-twin-service" not in {group.group_id for group in groups.valid}


def test_changes_reach_the_stream_and_a_stuck_reader_stops_nobody(served: Served) -> None:
    served.load.all()
    served.up()
    url = served.client.base_url
    stuck = socket.create_connection((url.host, url.port))
    stuck.sendall(f"GET /api/events HTTP/1.1\r\nhost: {url.host}:{url.port}\r\n\r\n".encode())
    names: set[str] = set()
    seen = threading.Event()

    def read() -> None:
        with served.client.stream("GET", "/api/events") as answer:
            for line in answer.iter_lines():
                if line.startswith("data:") and '"rows"' in line:
                    names.update(row[0] for row in json.loads(line[5:])["rows"] if row[5] == 4)
                    if len(names) == 10:
                        seen.set()
                        return

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: _streams(served) == 2, "two streams")
    for _ in range(3):
        served.load.all()
    assert seen.wait(WAIT_S)
    reader.join()
    stuck.close()
    until(lambda: _streams(served) == 0, "both streams closed")


def _streams(served: Served) -> int:
    lines = served.client.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("ivsim_twin_streams ")).split()[1]))


@pytest.mark.parametrize("way", ["stop", "end of file", "SIGTERM"])
def test_the_service_ends_in_order_with_streams_open(served: Served, way: str) -> None:
    with served.client.stream("GET", "/api/events") as answer:
        lines = answer.iter_lines()
        next(lines)
        if way == "stop":
            served.child.send("stop")
        elif way == "SIGTERM":
            served.child.popen.send_signal(signal.SIGTERM)
        else:
            assert served.child.popen.stdin is not None
            served.child.popen.stdin.close()
        assert served.child.popen.wait(WAIT_S) == 0
        assert list(lines)
    assert served.child.log_path.read_text() == ""


def test_a_service_for_others_without_a_token_does_not_start(kafka: str, run_record: RunRecord) -> None:
    with pytest.raises((ProcessDied, NotReady), match="token"):
        start(kafka, KafkaTopics("none."), run_record, host="0.0.0.0")


def test_the_commands_ask_a_service_or_kafka_itself(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ivsim import cli  # noqa: PLC0415

    def ivsim(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["ivsim", "twin", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().out

    served.load.all()
    served.up()
    until(lambda: served.get("/api/fleet")["vehicles"] == 10, "the fleet")
    places = (
        ["--url", str(served.client.base_url)],
        ["--kafka", served.kafka, "--prefix", served.topics.prefix],
    )
    answers = []
    for place in places:
        code, text = ivsim("get", "3", "--fields", "thingId,features(position)", *place)
        assert code == 0
        answers.append(json.loads(text))
        assert ivsim("get", "999", *place)[0] == 1
        code, text = ivsim("watch", "--once", "--rows", "3", *place)
        assert code == 0
        assert "7 more" in text
        assert ivsim("get", "3", "--fields", "a(", *place)[0] == 2
    assert answers[0] == answers[1]
    assert answers[0]["thingId"] == f"ivsim:{vehicle_id(3)}"
    assert ivsim("get", "3", "--url", "http://127.0.0.1:1")[0] == 2


def test_kafka_away_is_said_and_the_fleet_stays(run_record: RunRecord, tmp_path: Path) -> None:
    from ivsim.testbed.kafka import KafkaServer  # noqa: PLC0415

    topics = KafkaTopics("away.")
    with KafkaServer(run_record, name="kafka-away") as server:
        create_topics(server.bootstrap, topics)
        Load(server.bootstrap, topics, 3).all()
        child, client = start(server.bootstrap, topics, run_record)
        until(lambda: client.get("/health").status_code == 200, "health")
    with contextlib.closing(client):
        until(lambda: client.get("/health").json()["status"] == "KAFKA_AWAY", "Kafka away")
        assert client.get("/api/fleet").json()["vehicles"] == 3
    assert child.stop() == 0
