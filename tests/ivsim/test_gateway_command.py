"""`ivsim gateway` without any server: what it refuses before it connects, and what a gateway would be told."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from gateways.health import STALLED_S, Health
from gateways.process import GatewayProcess
from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.connection_log import ConnectionLog
from gateways.protocols.ends import ConnectError
from ivsim import cli, gateway_alone
from ivsim.gateway_alone import Told, configured
from ivsim.gateway_options import PASSWORD, USERNAME, known
from ivsim.options import OPTIONS
from ivsim.testbed.credentials import make_credentials
from ivsim.testbed.process import hold_port

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "compose/systemd/ivsim-gateway.service"
KAFKA = "--kafka 127.0.0.1:9"
MQTT = f"mqtt --target mqtt://127.0.0.1:9 {KAFKA}"


def called(monkeypatch: pytest.MonkeyPatch, words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ivsim", "gateway", *shlex.split(words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Type a command that must not connect, and return the line of its refusal."""

    def connected(*_: object, **__: object) -> None:
        raise AssertionError("it connected before it refused")

    for name in ("probe", "missing_topics", "make_missing"):
        monkeypatch.setattr(gateway_alone, name, connected)
    monkeypatch.setattr(GatewayProcess, "run", connected)
    monkeypatch.chdir(tmp_path)

    def type_(words: str) -> str:
        assert called(monkeypatch, words) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        return line

    return type_


@pytest.fixture
def files(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("none")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "empty").mkdir()
    (tmp_path / "accounts.json").write_text(
        '{"YV2RT40A8KB000001": {"username": "a", "password": "secret-1"}}'
    )
    (tmp_path / "keys.json").write_text('{"YV2RT40A8KB000001": "00"}')
    (tmp_path / "login.properties").write_text("password=secret-2\n")
    (tmp_path / "spark.toml").write_text('[spark]\nmaster = "local[2]"\n')
    (tmp_path / "wrong.toml").write_text(
        '[kafka]\nbootstrap = "nowhere"\n[target]\nurl = "mqtt://127.0.0.1"\n'
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("mqtt", "--target: which broker?"),
        ("mqtt --target mqtt://127.0.0.1", "--kafka: which Kafka?"),
        ("coap", "--kafka: which Kafka?"),
        ("mqtt --profile spark.toml", "--target: which broker?"),
        ("mqtt --profile wrong.toml", "wrong.toml: kafka.bootstrap 'nowhere': write HOST:PORT"),
        ("mqtt --profile none.toml", "--profile none.toml: No such file"),
        (f"mqtt --target amqp://h {KAFKA}", "--target amqp://h: ivsim gateway mqtt needs one of mqtt://, mqtts://"),
        (f"mqtt --target mqtt://u:p@h {KAFKA}", "--target no user and no password in the URL"),
        (f"{MQTT} --format xml", "--format 'xml': allowed are json"),
        (f"{MQTT} --qos 3", "--qos 3: allowed with mqtt 0, 1, 2"),
        (f"{MQTT} --ack auto", "No such option: --ack"),
        (f"{MQTT} --listen :5683", "No such option: --listen"),
        (f"amqp --target amqp://h {KAFKA} --confirms", "No such option: --confirms"),
        (f"{MQTT} --qos 0 --early-ack", "--early-ack: has no effect with mqtt qos0"),
        (f"{MQTT} --name 'a b'", "--name 'a b': 1 to 64 of A-Z a-z 0-9 . _ -"),
        (f"{MQTT} --kafka-topic-prefix 'a b'", "--kafka-topic-prefix 'a b': 1 to 100"),
        (f"{MQTT} --kafka-partitions 4", "--kafka-partitions 4: needs --make-topics"),
        (f"{MQTT} --make-topics --kafka-min-insync 2", "--kafka-min-insync 2: at most --kafka-replication 1"),
        (f"{MQTT} --kafka-producer acks=0", "--kafka-producer acks: ivsim decides it itself"),
        (f"{MQTT} --kafka-producer no.such=0", "--kafka-producer: librdkafka: "),
        (f"{MQTT} --kafka-login login.properties", "kafka_login {folder}/login.properties: username: SCRAM-SHA-512 needs it"),
        (f"{MQTT} --metrics-port 70000", "--metrics-port 70000: "),
        (f"{MQTT} --target-ca ca.pem", "--target-ca ca.pem: has no effect with --target mqtt://127.0.0.1:9"),
        (f"mqtt --target mqtts://h --target-ca no.pem {KAFKA}", "--target-ca no.pem: no such file"),
        (f"mqtt --target mqtts://h --target-ca none.pem {KAFKA}", "--target mqtts://h: tls.ca_file"),
        (
            f"mqtt --target mqtts://h --target-ca ca.pem --target-certificates empty {KAFKA}",
            "--target-certificates {folder}/empty: gateway.pem is missing",
        ),
        (f"{MQTT} --target-accounts accounts.json", "--target-accounts accounts.json: none for gateway"),
        (f"{MQTT} --vhost fleet", "No such option: --vhost"),
        (f"amqp --target amqp://h {KAFKA} --vhost ''", "--vhost '': 1 to 255 bytes"),
        (f"amqp --target amqp://h {KAFKA} --exchange {'x' * 256}", "--exchange 'xxx"),
        (f"{MQTT} --address fleet/status", "--address 'fleet/status': write up to 16 levels"),
        (f"{MQTT} --address fleet/{{id}}/{{id}}", "--address 'fleet/{id}/{id}': write up to 16 levels"),
        (f"{MQTT} --address fleet/#/{{id}}", "--address 'fleet/#/{id}': write up to 16 levels"),
        (f"amqp --target amqp://h {KAFKA} --address fleet/{{id}}", "--address 'fleet/{id}': write up to 16 levels"),
        (f"coap --listen 5683 {KAFKA}", "--listen '5683': write HOST:PORT"),
        (f"coap --listen :::5683 {KAFKA}", "--listen ':::5683': write HOST:PORT"),
        (f"coap --listen [h]:5683 {KAFKA}", "--listen '[h]:5683': write HOST:PORT"),
        (f"coap --security tls {KAFKA}", "--security 'tls': allowed are plain, oscore, dtls-psk"),
        (f"coap --security oscore {KAFKA}", "--security oscore: needs --keys"),
        (f"coap --keys keys.json {KAFKA}", "--keys keys.json: needs --security oscore or dtls-psk"),
        (f"coap --security oscore --keys keys.json {KAFKA}", "--keys: keys.file {folder}/keys.json: YV2RT40A8KB000001"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("files")
def test_what_is_wrong_is_refused_before_anything_is_connected_to(refused, tmp_path, words, line) -> None:
    found = refused(words)
    assert found.startswith(f"ivsim: {line.replace('{folder}', str(tmp_path))}"), found
    assert "secret-" not in found


@pytest.mark.parametrize(
    ("words", "given", "line"),
    [
        (MQTT, {USERNAME: "fleet"}, f"{USERNAME}: needs {PASSWORD} beside it"),
        (MQTT, {PASSWORD: "secret-3"}, f"{PASSWORD}: needs {USERNAME} beside it"),
        (f"coap {KAFKA}", {USERNAME: "fleet"}, f"{USERNAME}: coap has no broker to log in at"),
        (
            f"{MQTT} --target-accounts accounts.json",
            {USERNAME: "fleet", PASSWORD: "secret-3"},
            f"{USERNAME}: not beside --target-accounts accounts.json",
        ),
        (MQTT, {"IVSIM_GATEWAY_KAFFKA": "h:1"}, "IVSIM_GATEWAY_KAFFKA: no such option; there are IVSIM_GATEWAY_"),
        ("mqtt", {"IVSIM_GATEWAY_TARGET": "http://h", "IVSIM_GATEWAY_KAFKA": "h:1"}, "--target 'http://h': expected"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("files")
def test_so_is_what_is_wrong_in_the_environment(refused, monkeypatch, words, given, line) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = refused(words)
    assert found.startswith(f"ivsim: {line}"), found
    assert "secret-" not in found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Type a command and return the configuration of the gateway that it would run; no server is asked."""
    found = []

    def run(protocol, asked, environment) -> int:
        found.append(configured(protocol, asked, environment))
        return 0

    monkeypatch.setattr(gateway_alone, "run_gateway", run)
    monkeypatch.chdir(tmp_path)

    def type_(words: str):
        assert called(monkeypatch, words) == 0
        return found[-1]

    return type_


def test_a_profile_the_environment_and_what_is_typed_go_before_one_another(
    told, tmp_path, monkeypatch
) -> None:
    made = make_credentials(tmp_path / "keys", 1, "tls", "broker.example")
    accounts = {"gateway": {"username": "bridge", "password": made.passwords["gateway"]}}
    (tmp_path / "accounts.json").write_text(json.dumps(accounts))
    (tmp_path / "prod.toml").write_text(
        '[kafka]\nbootstrap = "b1:9093,b2:9093"\ntopic_prefix = "fleet."\n'
        '[kafka.producer]\n"linger.ms" = 5\n'
        '[spark]\nmaster = "local[2]"\n'
        '[target]\nurl = "mqtts://broker.example"\naccounts = "accounts.json"\nca = "keys/authority.pem"\n'
        'consent = "broker.example"\n'
    )
    config = told("mqtt --profile prod.toml --qos 2 --format json --metrics-port 0 --group north")
    assert (config.bootstrap, config.topics_prefix) == ("b1:9093,b2:9093", "fleet.")
    assert config.kafka_producer == {"linger.ms": "5"}
    assert (config.host, config.port, config.mode, config.format) == ("broker.example", 8883, "qos2", "json")
    assert (config.username, config.password) == ("bridge", made.passwords["gateway"])
    assert config.tls.ca_file == str(tmp_path / "keys/authority.pem")
    assert (config.shared, config.group, config.metrics_port) == (True, "north", 0)
    assert made.passwords["gateway"] not in repr(config)
    monkeypatch.setenv("IVSIM_GATEWAY_PROFILE", "prod.toml")
    monkeypatch.setenv("IVSIM_GATEWAY_KAFKA", "other:9092")
    assert told("mqtt").bootstrap == "other:9092"
    assert told("mqtt --kafka typed:9092").bootstrap == "typed:9092"


def test_an_account_may_come_from_the_environment(told, monkeypatch) -> None:
    monkeypatch.setenv(USERNAME, "bridge")
    monkeypatch.setenv(PASSWORD, "word")
    config = told(f"amqp --target amqp://127.0.0.1 {KAFKA} --ack auto --vhost fleet --exchange telemetry")
    assert (config.endpoint().virtual_host, config.intake_settings().exchange) == ("fleet", "telemetry")
    assert (config.username, config.password, config.port) == ("bridge", "word", 5672)
    assert PROTOCOLS["amqp"].modes[config.mode].gateway_acknowledges is False
    assert (config.shared, config.metrics_port) == (False, None)


def test_coap_listens_where_it_is_told_and_with_keys_at_the_secured_port(told, tmp_path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"YV2RT40A8KB000001": "0" * 32}))
    keys = "--keys keys.json --security"
    expected = {
        "": ("127.0.0.1", 5683, False, None),
        "--listen 0.0.0.0:0 --reuse-port": ("0.0.0.0", 0, True, None),
        "--listen [::1]:5683": ("::1", 5683, False, None),
        f"{keys} oscore": ("127.0.0.1", 5683, False, "oscore"),
        f"{keys} dtls-psk": ("127.0.0.1", 5684, False, "dtls-psk"),
    }
    for words, where in expected.items():
        config = told(f"coap {KAFKA} {words}")
        assert (config.host, config.port, config.shared, config.keys and config.keys.use) == where


@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "coap"])
def test_shared_words_are_those_of_a_run(protocol: str) -> None:
    there = known(PROTOCOLS[protocol])
    shared = {field: one for field, one in there.items() if field in OPTIONS and field != "name"}
    assert len(shared) >= 10
    assert {field: (one.word, one.limits) for field, one in shared.items()} == {
        field: (OPTIONS[field].word, OPTIONS[field].limits) for field in shared
    }
    assert not [one for one in there.values() if re.search(r"\bruns?\b", one.option.help)]


def test_what_is_said_of_a_gateway_is_said_in_words(capsys: pytest.CaptureFixture[str], told) -> None:
    config = told(f"{MQTT} --metrics-port 0")
    said = Told(PROTOCOLS["mqtt"], config)
    said.event("ready", host="127.0.0.1", port=1883, metrics_port=9465)
    said.event("progress", received=1)
    said.event("done", received=7, delivered=6, dead_letters=2, drained=False, held=1)
    said.event("error", message="the producer cannot go on: fenced")
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        (
            "MQTT gateway ivsim-gateway of the broker at 127.0.0.1:1883: into ivsim.vehicle.status of Kafka 127.0.0.1:9"
            " (Ctrl-C ends)"
        ),
        "metrics and health: http://127.0.0.1:9465/metrics, /health",
        "stopped: 7 messages taken, 4 in Kafka, 2 dead letters; 1 not acknowledged, which come again",
    ]
    assert captured.err == "ivsim: the producer cannot go on: fenced\n"


def test_each_lost_connection_is_logged_with_its_reason_and_attempts_do_not_flood(caplog) -> None:
    log = ConnectionLog("MQTT broker h:1")
    with caplog.at_level(logging.INFO, "gateways"):
        log.up()
        log.lost("session taken over")
        for _ in range(3):
            log.failed("MQTT broker h:1: Connection refused")
        log.failed("MQTT broker h:1 refuses: not authorized")
        log.up()
        log.lost("closed")
        log.failed("MQTT broker h:1: Connection refused")
    assert [record.getMessage() for record in caplog.records] == [
        "MQTT broker h:1: connected",
        "MQTT broker h:1: connection lost: session taken over",
        "MQTT broker h:1: Connection refused; trying again",
        "MQTT broker h:1 refuses: not authorized; trying again",
        "MQTT broker h:1: connected",
        "MQTT broker h:1: connection lost: closed",
        "MQTT broker h:1: Connection refused; trying again",
    ]


def test_health_knows_the_connection_and_a_kafka_that_confirms_nothing() -> None:
    health = Health(0.0)
    assert health.verdict(True, "", 0, 1e6).healthy
    assert health.verdict(False, "", 0, 1.0).problems == ("no connection: not yet",)
    assert health.verdict(False, "gone", 0, 1.0).problems == ("no connection: gone",)
    health.note(held=3, delivered=0, now_s=1.0)
    assert health.verdict(True, "", 3, STALLED_S - 1).healthy
    assert health.verdict(True, "", 3, STALLED_S).problems == (
        "Kafka has confirmed nothing for 30 s: 3 records wait",
    )
    health.note(held=3, delivered=1, now_s=STALLED_S)
    assert health.verdict(True, "", 3, STALLED_S + 1).healthy


def lines_of(unit: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in unit.read_text().splitlines() if "=" in line and line[0] != "#")
    return {key: value for key, _, value in pairs}


def test_the_units_line_is_one_that_the_command_takes(told, tmp_path) -> None:
    (tmp_path / "profile.toml").write_text(
        '[kafka]\nbootstrap = "b1:9092"\n[target]\nurl = "mqtt://127.0.0.1"\n'
    )
    program, command, *words = shlex.split(lines_of(UNIT)["ExecStart"])
    assert (Path(program).name, command) == ("ivsim", "gateway")
    typed = " ".join(words).replace("/etc/ivsim/profile.toml", str(tmp_path / "profile.toml"))
    assert typed != " ".join(words)
    config = told(typed)
    assert (config.bootstrap, config.host, config.metrics_port) == ("b1:9092", "127.0.0.1", 9465)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text()
    program = shlex.split(lines_of(UNIT)["ExecStart"])[0]
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace(program, sys.executable))  # of a program that is here
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(("protocol", "mode"), [("mqtt", "qos1"), ("amqp", "manual")])
async def test_a_broker_that_is_not_there_is_named_with_the_systems_reason(
    protocol: str, mode: str, host: str
) -> None:
    row = PROTOCOLS[protocol]
    with hold_port() as closed:
        port = closed.getsockname()[1]
        intake = row.intake(Endpoint(host, port), row.modes[mode], None, IntakeSettings())
        with pytest.raises(ConnectError, match=rf"{re.escape(host)}:{port}: Connection refused$"):
            await intake.open()
    await intake.close()
