"""Sinks without a server: what the table says of each, what each library is told, and the thread between them."""

from __future__ import annotations

import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaError

from gateways.config import read_gateway_config
from gateways.producer import settings as producer_configuration
from gateways.sinks import CONFLUENT, PLATFORM_SINKS, SINKS, kinds
from gateways.sinks.arguments import ProducerSettings
from gateways.sinks.kinds import ABILITIES, Java, SinkSettings
from gateways.sinks.threaded import BlockingSink, NotNow, Sending, batch_bytes, error_of, settings_of
from ivsim.runs import preflight, processes
from ivsim.testbed import java_client, pulsar
from schemas.errors import Refusal
from schemas.kafka_login import python_settings

OTHERS = [name for name in SINKS if name != CONFLUENT]
CONFIG = {"bootstrap": "127.0.0.1:1", "host": "127.0.0.1", "port": 1, "mode": "qos1"}
ASKED = {
    "kafka_producer": {"linger.ms": "5"},
    "batching": {"messages": 5, "wait_ms": 10},
    "in_flight_log": "in-flight.events",
}
JAVA = {"library": "/libjvm.so", "class_path": ["kafka-clients.jar"]}
WAIT_S = 10.0


def written(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "gateway.json"
    path.write_text(json.dumps({**CONFIG, **changes}))
    return path


def test_the_first_row_does_all_that_one_can() -> None:
    assert next(iter(SINKS)) == CONFLUENT
    assert SINKS[CONFLUENT].obeys == set(ABILITIES) == set(ASKED)


@pytest.mark.parametrize("key", ASKED)
@pytest.mark.parametrize("name", OTHERS)
def test_what_a_library_cannot_do_is_refused_with_who_can(tmp_path: Path, name: str, key: str) -> None:
    path = written(tmp_path, kafka_client=name, java=JAVA, **{key: ASKED[key]})
    with pytest.raises(Refusal) as refusal:
        read_gateway_config(path)
    assert str(refusal.value) == (
        f"{path}: {key}: needs kafka_client confluent, which alone {ABILITIES[key]}; it is {name}"
    )


@pytest.mark.parametrize("name", SINKS)
def test_a_library_that_is_not_installed_is_refused_with_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda _module: None)
    extra = "ivsim" if name == CONFLUENT else "ivsim[clients]"
    lack = f"no Python package {SINKS[name].package}: run `pip install '{extra}'`"
    with pytest.raises(Refusal, match=rf"kafka_client {name}: {lack}".replace("[", r"\[")):
        read_gateway_config(written(tmp_path, kafka_client=name, java=JAVA))
    with pytest.raises(Refusal) as refusal:
        preflight.check_client(name)
    assert str(refusal.value) == f"--kafka-client {name}: {lack}"


def test_unknown_ones_and_a_java_that_is_not_told_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="kafka_client 'rust': allowed confluent, aiokafka, python, jpype"):
        read_gateway_config(written(tmp_path, kafka_client="rust"))
    with pytest.raises(Refusal, match="java: kafka_client jpype needs it"):
        read_gateway_config(written(tmp_path, kafka_client="jpype"))
    assert read_gateway_config(written(tmp_path, kafka_client="jpype", java=JAVA)).java == Java(
        "/libjvm.so", ("kafka-clients.jar",)
    )


def test_a_run_tells_its_gateways_which_java_and_refuses_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [processes.java_of(name) for name in SINKS if not SINKS[name].java] == [None, None, None]
    (tmp_path / "jars" / "kafka").mkdir(parents=True)
    (tmp_path / "jars" / "kafka" / "kafka-clients.jar").touch()
    monkeypatch.setenv("IVSIM_JARS", str(tmp_path / "jars"))
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setattr(java_client, "java_command", lambda: str(java))
    with pytest.raises(
        Refusal, match=r"^--kafka-client jpype: .*bin/java: its Java has no lib/server/libjvm\.so"
    ):
        preflight.check_client("jpype")
    library = tmp_path / "home" / "lib" / "server" / "libjvm.so"
    library.parent.mkdir(parents=True)
    library.touch()
    preflight.check_client("jpype")
    told = processes.java_of("jpype")
    assert told == {
        "library": str(library),
        "class_path": [str(tmp_path / "jars" / "kafka" / "kafka-clients.jar")],
    }
    (tmp_path / "jars" / "kafka" / "kafka-clients.jar").unlink()
    with pytest.raises(Refusal, match=r"^--kafka-client jpype: no kafka jars in"):
        preflight.check_client("jpype")


def test_how_long_a_record_waits_for_others_gets_to_each_library(tmp_path: Path) -> None:
    assert read_gateway_config(written(tmp_path)).linger_ms == kinds.LINGER_MS
    with pytest.raises(Refusal, match="linger_ms"):
        read_gateway_config(written(tmp_path, linger_ms=-1))
    asked = SinkSettings("127.0.0.1:1", 1, linger_ms=70)
    assert settings_of(asked).linger_ms == 70
    confluent = producer_configuration("127.0.0.1:1", 1, linger_ms=70)
    assert confluent["linger.ms"] == 70
    own = producer_configuration("127.0.0.1:1", 1, linger_ms=70, more={"linger.ms": "5"})
    assert own["linger.ms"] == "5"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_library_is_told_the_same_by_its_own_names(acks: str) -> None:
    asked = ProducerSettings(acks, acks == "all", 2, 1_000, 9_000)
    number = acks if acks == "all" else int(acks)
    aiokafka, python, java = asked.for_aiokafka(), asked.for_kafka_python(), asked.for_java()
    assert aiokafka == {
        "acks": number,
        "enable_idempotence": acks == "all",
        "linger_ms": 2,
        "max_batch_size": 1_000,
        "max_request_size": 9_000,
    }
    assert {**python, "max_batch_size": python["batch_size"]} == {**aiokafka, "batch_size": 1_000}
    assert (java["acks"], java["enable.idempotence"]) == (acks, str(acks == "all").lower())
    assert (java["linger.ms"], java["batch.size"], java["max.request.size"]) == ("2", "1000", "9000")


def test_a_login_reaches_the_libraries_of_python(tmp_path: Path) -> None:
    assert python_settings("a:1,b:2", "") == {"bootstrap_servers": "a:1,b:2"}
    authority, login = tmp_path / "ca.pem", tmp_path / "login.properties"
    trustme.CA().cert_pem.write_to_path(authority)
    login.write_text(f"username=me\npassword=word\nauthority={authority}\n")
    found = python_settings("a:1", str(login))
    context = found.pop("ssl_context")
    assert found == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "word",
    }
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509_ca"] == 1


def test_what_a_library_gives_up_is_poison_or_the_end() -> None:
    large, unknown = error_of(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), error_of(None, "gone")
    assert (large.code(), large.fatal(), large.str()) == (KafkaError.MSG_SIZE_TOO_LARGE, False, "too large")
    assert (unknown.code(), unknown.fatal(), unknown.str()) == (KafkaError.UNKNOWN, True, "gone")


class Listing(BlockingSink):
    """Its library is a list, which takes a record at the third attempt and none of topic `never`."""

    def __init__(self) -> None:
        super().__init__("listing", SinkSettings("127.0.0.1:1", 1))
        self.taken: list[Sending] = []
        self.refusals = 0
        self.shut = False
        self.done = threading.Event()
        self._limits = {"t": 1_000, "never": 1_000, "broken": 1_000}
        self._start()

    def _open(self) -> None:
        pass

    def _send(self, sending: Sending) -> None:
        if sending.topic == "broken":
            raise ValueError("no such thing")
        if self.refusals < 2 or sending.topic == "never":
            self.refusals += 1
            raise NotNow
        self.refusals = 0
        self.taken.append(sending)
        self._report(sending, None)
        if sending.value == b"last":
            self.done.set()

    def _shut(self) -> None:
        self.shut = True


def give(sink: Listing, values: list[bytes], reported: list[Any], topic: str = "t") -> None:
    for value in values:
        sink.produce(topic, value, b"key", on_delivery=lambda *report: reported.append(report), headers=[])


def test_what_is_not_taken_now_is_offered_again_before_the_next_and_reports_come_by_polling() -> None:
    sink, reported = Listing(), []
    values = [b"first", b"second", b"last"]
    give(sink, values, reported)
    assert sink.done.wait(WAIT_S)
    assert [one.value for one in sink.taken] == values
    assert reported == []
    sink.poll(0)
    assert reported == [(None, value) for value in values]
    sink.poll(0)
    assert len(reported) == len(values)
    assert (sink.close(), sink.shut, sink.fatal) == (0, True, None)


def test_what_its_topic_is_too_small_for_is_never_given_to_the_library() -> None:
    sink, reported = Listing(), []
    most = 1_000 - batch_bytes(Sending("t", b"", b"key", [], print))
    give(sink, [b"x" * (most + 1), b"x" * most, b"last"], reported)
    assert sink.done.wait(WAIT_S)
    sink.poll(0)
    errors = {len(value): error for error, value in reported}
    assert errors[most] is errors[4] is None
    assert (errors[most + 1].code(), errors[most + 1].str()) == (
        KafkaError.MSG_SIZE_TOO_LARGE,
        "a record of 1001 bytes: the topic takes 1000",
    )
    assert [len(one.value) for one in sink.taken] == [most, 4]
    assert sink.close() == 0


def test_closing_waits_for_nothing_and_counts_what_was_left() -> None:
    sink, reported = Listing(), []
    give(sink, [b"a", b"b"], reported, "never")
    assert (sink.close(), sink.fatal) == (2, None)
    assert "sink-listing" not in {thread.name for thread in threading.enumerate()}
    assert reported == []


def test_a_thread_that_breaks_says_why() -> None:
    sink = Listing()
    give(sink, [b"a"], [], "broken")
    end_s = time.monotonic() + WAIT_S
    while sink.fatal is None and time.monotonic() < end_s:
        time.sleep(0.01)
    assert sink.fatal == "ValueError: no such thing"
    assert sink.close() == 1


@pytest.mark.parametrize("name", OTHERS)
def test_a_kafka_that_is_not_there_is_refused_before_a_library_is_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateways.sinks import threaded  # noqa: PLC0415 - its one name is changed

    monkeypatch.setattr(threaded, "require_topics", quickly(threaded.require_topics))
    sink = SINKS[name].open(SinkSettings("127.0.0.1:1", 1, java=Java("/nowhere", ())))
    with pytest.raises(Refusal, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
        sink.require_topics(("t",))
    assert sink.close() == 0


def quickly(function: Any) -> Any:
    return lambda asked, bootstrap, topics: function(asked, bootstrap, topics, 0.2)


REDIS = {"platform": "redis"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"platform": "rabbit"}, "platform 'rabbit': allowed kafka, redis, pulsar"),
        (REDIS | {"kafka_login": "login.conf"}, "kafka_login: needs platform kafka; it is redis"),
        *(
            (REDIS | {key: value}, f"{key}: needs platform kafka; it is redis")
            for key, value in ASKED.items()
        ),
        (REDIS | {"format": "small"}, "format small: its sequences wrap, which needs platform kafka"),
    ],
)
def test_what_another_platform_cannot_do_is_refused(tmp_path: Path, words: dict[str, Any], says: str) -> None:
    path = written(tmp_path, **words)
    with pytest.raises(Refusal) as refusal:
        read_gateway_config(path)
    assert str(refusal.value) == f"{path}: {says}"


@pytest.mark.parametrize("name", PLATFORM_SINKS)
def test_a_platform_whose_library_is_not_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda _module: None)
    remedy = {"redis": "pip install 'ivsim'", "pulsar": pulsar.REMEDY}[name]
    lack = f"platform {name}: no Python package {PLATFORM_SINKS[name].package}: run `{remedy}`"
    with pytest.raises(Refusal, match=f"{lack}$"):
        read_gateway_config(written(tmp_path, platform=name))
