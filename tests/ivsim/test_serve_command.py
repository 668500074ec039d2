"""`ivsim serve` without any server: what it refuses before it starts a part, and what its parts would be told."""

from __future__ import annotations

import fcntl
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gateways.protocols import PROTOCOLS
from ivsim import cli, serving
from ivsim.gateway_options import known
from ivsim.options import OPTIONS
from ivsim.runs.children import ChildSpec
from ivsim.serve_options import SERVE
from ivsim.testbed.process import ProcessDied
from twin.kafka_topics import wanted
from twin.service.config import ServiceConfig

KAFKA = "--kafka b1:9093,b2:9093 --kafka-topic-prefix fleet."
COAP = f"coap {KAFKA} --state twins"


class Parts:
    """Stands for the processes: all are ready at once."""

    READY = MappingProxyType({"topics_made": [], "host": "h", "port": 1, "metrics_port": None, "url": "u"})

    def __init__(self, _record: object, _work: Path, _stack: ExitStack) -> None:
        pass

    def start(self, _spec: ChildSpec) -> Parts:
        return self

    def wait_for(self, _event: str, _timeout_s: float) -> Mapping[str, Any]:
        return self.READY


@pytest.fixture
def type_(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Type a command whose Kafka is of paper: it answers, and has the topics that `there` names."""
    there: list[str] = []

    def never(*_: object) -> None:
        raise AssertionError("it started something")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "probe", lambda *_, **__: None)
    monkeypatch.setattr(
        serving, "missing_topics", lambda _, names, __: [one for one in names if one not in there]
    )
    monkeypatch.setattr(serving, "Children", never)

    def call(words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["ivsim", "serve", *shlex.split(words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code)

    call.there = there
    return call


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (f"coap {KAFKA}", "--state: which directory?"),
        ("coap --state twins", "--kafka: which Kafka?"),
        (f"mqtt {KAFKA} --state twins", "--target: which broker?"),
        (f"mqtt --target amqp://h {KAFKA}", "--target amqp://h: ivsim serve mqtt needs one of mqtt://, mqtts://"),
        (f"{COAP} --trigger never", "--trigger 'never': "),
        (f"{COAP} --spark-master here", "--spark-master 'here': write local[N]"),
        (f"{COAP} --spark-conf spark.jars=x", "--spark-conf spark.jars: ivsim decides it itself"),
        (f"{COAP} --spark-master spark://127.0.0.1:9", "--spark-master spark://127.0.0.1:9: needs --spark-checkpoint"),
        (
            f"{COAP} --spark-master spark://127.0.0.1:9 --spark-checkpoint s3a://b/twins",
            "--spark-master spark://127.0.0.1:9: no answer",
        ),
        (f"{COAP} --spark-master cluster[2]", "--spark-master cluster[2]: is a run's own and ends with it"),
        (f"{COAP} --kafka-replication 2", "--kafka-replication 2: needs --make-topics"),
        (f"{COAP} --page-port {{taken}}", "--page-port {taken}: Address already in use"),
        (f"{COAP} --metrics-port {{taken}}", "--metrics-port {taken}: Address already in use"),
        (f"mqtt --target mqtt://127.0.0.1:9 {KAFKA} --state twins", "--target mqtt://127.0.0.1:9: no answer"),
        (COAP, "--kafka b1:9093,b2:9093: no topic fleet.vehicle.status, fleet.twin.state, "),
        (f"coap {KAFKA} --state a-file --make-topics", "--state a-file: File exists"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_before_anything_is_started(type_, tmp_path, capsys, words, line) -> None:
    (tmp_path / "a-file").touch()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = str(listening.getsockname()[1])
        assert (
            type_(words.replace("{taken}", taken) + (" --page-port 0" if "page-port" not in words else ""))
            == 2
        )
    captured = capsys.readouterr()
    (said,) = captured.err.splitlines()
    assert said.startswith(f"ivsim: {line.replace('{taken}', taken)}"), said
    assert captured.out == ""
    assert not (tmp_path / "twins").exists()


def test_one_state_is_for_one_of_them(type_, tmp_path, capsys) -> None:
    state = tmp_path / "twins"
    state.mkdir()
    with (state / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert type_(f"{COAP} --make-topics --page-port 0") == 2
    assert capsys.readouterr().err == "ivsim: --state twins: another ivsim serve has it\n"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, type_, tmp_path: Path):
    found = {}

    class Told(Parts):
        def __init__(self, _record: object, work: Path, _stack: ExitStack) -> None:
            found["state"] = work.parent

        def start(self, spec: ChildSpec) -> Told:
            found[spec.name] = spec.config
            return self

        def wait_for(self, _event: str, _timeout_s: float) -> Mapping[str, Any]:
            if "page" in found:
                raise serving.Interrupted(15)
            return self.READY

    monkeypatch.setattr(serving, "Children", Told)

    def call(words: str):
        found.clear()
        assert type_(f"{words} --page-port 0") == 0
        return found

    return call


def test_the_parts_are_told_the_same_kafka_and_topics(told, type_, tmp_path, capsys) -> None:
    (tmp_path / "prod.toml").write_text(
        '[kafka]\nbootstrap = "b1:9093,b2:9093"\ntopic_prefix = "fleet."\npartitions = 4\n'
        '[spark]\nmaster = "local[3]"\n[spark.conf]\n"spark.driver.memory" = "3g"\n'
    )
    found = told("coap --profile prod.toml --state twins --make-topics --format json --future-tolerance 9")
    assert {
        (one.bootstrap, one.topics_prefix) for one in (found["gateway"], found["twin"], found["page"])
    } == {("b1:9093,b2:9093", "fleet.")}
    twin = found["twin"]
    assert (twin.spark_master, twin.spark_conf) == ("local[3]", {"spark.driver.memory": "3g"})
    assert (twin.topic_partitions, twin.shuffle_partitions, twin.future_tolerance_s) == (4, 4, 9.0)
    assert twin.run_dir == str(tmp_path / "twins") == str(found["state"])
    assert twin.checkpoint == str(tmp_path / "twins/checkpoint")
    assert (found["gateway"].format, found["page"].future_tolerance_s) == ("json", 9.0)
    assert (tmp_path / "twins").stat().st_mode & 0o077 == 0
    assert capsys.readouterr().err == "ivsim: starting the twins\nivsim: stopped; topics and state stay\n"
    type_.there.extend(topic.topic for topic in wanted(twin))
    assert told("coap --profile prod.toml --state twins")["twin"].topic_partitions == 4


@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "coap"])
def test_its_words_are_those_of_a_run_and_of_a_gateway(protocol: str) -> None:
    there = known(PROTOCOLS[protocol], SERVE)
    assert set(known(PROTOCOLS[protocol])) < set(there)
    shared = {field: one for field, one in there.items() if field in OPTIONS and field != "name"}
    assert {field: (one.word, one.limits) for field, one in shared.items()} == {
        field: (OPTIONS[field].word, OPTIONS[field].limits) for field in shared
    }


@pytest.mark.parametrize("bootstrap", ["h:1", "h:1,i:2", "nowhere", "h:1,", "h:1,i", "http://h:1"])
def test_the_service_takes_several_brokers(bootstrap: str) -> None:
    if bootstrap in {"h:1", "h:1,i:2"}:
        assert ServiceConfig(bootstrap=bootstrap).bootstrap == bootstrap
    else:
        with pytest.raises(ValueError, match="bootstrap"):
            ServiceConfig(bootstrap=bootstrap)


def test_a_part_that_dies_ends_all_with_its_reason(type_, monkeypatch, capsys) -> None:
    closed: list[str] = []

    class Dead(Parts):
        def __init__(self, _record: object, _work: Path, stack: ExitStack) -> None:
            stack.callback(closed.append, "closed")

        def check(self) -> None:
            raise ProcessDied("gateway", 1, "the producer cannot go on: fenced")

    monkeypatch.setattr(serving, "Children", Dead)
    assert type_(f"{COAP} --make-topics --page-port 0") == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "ivsim: gateway ended with exit code 1: the producer cannot go on: fenced"
    )
    assert closed == ["closed"]
