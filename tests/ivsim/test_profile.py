"""Deployment profiles: each key is an option, refusals name the key and no value, and the check tries each connection."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from gateways.producer import settings as producer_configuration
from ivsim import cli
from ivsim.deployment import KEYS, NONE, read_profile
from ivsim.option_rules import run_options
from ivsim.options import OPTIONS
from ivsim.profile_check import checks, options_of
from ivsim.runs.preflight import check_producer
from ivsim.runs.processes import session_config
from ivsim.testbed.process import hold_port
from schemas.errors import Refusal
from schemas.settings import as_mapping, producer_settings, spark_settings
from twin.config import TwinConfig

WHOLE = """
[kafka]
bootstrap = "b1.example:9093,b2.example:9093"
login = "keys/login.properties"
topic_prefix = "fleet."
partitions = 4
replication = 2
min_insync = 2
[kafka.producer]
"linger.ms" = 5
"compression.type" = "lz4"
"socket.nagle.disable" = true
[spark]
master = "local[4]"
conf = { "spark.driver.memory" = "3g" }
checkpoint = "s3a://ivsim/twins"
[store]
endpoint = "https://store.example:9000"
[target]
url = "mqtts://broker.example"
consent = "broker.example"
accounts = "keys/accounts.json"
ca = "keys/ca.pem"
certificates = "keys"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "prod.toml"
    path.write_text(text)
    return path


def test_every_key_is_an_option() -> None:
    fields = [field for keys in KEYS.values() for field in keys.values()]
    assert set(fields) <= set(OPTIONS)
    assert all(OPTIONS[field].option.cli for field in fields)
    assert len(set(fields)) == len(fields)


def test_a_profile_says_the_options_of_a_run(tmp_path: Path) -> None:
    options = options_of(write(tmp_path, WHOLE))
    assert options.kafka == "b1.example:9093,b2.example:9093"
    assert options.kafka_login == str(tmp_path / "keys/login.properties")
    assert (options.kafka_topic_prefix, options.kafka_partitions) == ("fleet.", 4)
    assert options.kafka_producer == ("compression.type=lz4", "linger.ms=5", "socket.nagle.disable=true")
    assert options.spark_conf == ("spark.driver.memory=3g",)
    assert (options.spark_checkpoint, options.s3_endpoint) == (
        "s3a://ivsim/twins",
        "https://store.example:9000",
    )
    assert (options.target, options.target_ca) == ("mqtts://broker.example", str(tmp_path / "keys/ca.pem"))
    assert read_profile(None) is NONE


def test_the_profile_of_the_how_to_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/profile.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    options = options_of(write(tmp_path, block))
    assert (options.kafka_replication, options.spark_conf) == (3, ("spark.driver.memory=4g",))
    table = page.split("| key | option |")[1].split("\n\n")[0]
    assert all(key in table for keys in KEYS.values() for key in keys)


def test_the_profile_of_the_deploy_guide_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/deploy.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    options = options_of(write(tmp_path, block))
    slots = 2 * int(as_mapping(options.spark_conf)["spark.executor.cores"])
    # Two workers of the guide: in real time a slot for each partition, that of the warm-up, and two of the shuffle.
    assert slots >= options.kafka_partitions + 1 + 2


def test_a_run_that_ends_at_its_target_takes_what_is_said_of_the_target_alone(tmp_path: Path) -> None:
    """One profile is for the twins and for the generators of a load test."""
    profile = read_profile(write(tmp_path, WHOLE))
    assert profile.of_run({}) == profile.of_run({"topology": "gateway"}) == profile.fields
    peer = profile.of_run({"topology": "peer"})
    assert set(peer) == {"target", "target_consent", "target_accounts", "target_ca", "target_certificates"}
    stored = profile.of_run({"topology": "peer", "share_results": "s3a://ivsim/load"})
    assert set(stored) - set(peer) == {"s3_endpoint"}
    assert set(profile.of_run({"topology": "ingest"})) - set(peer) == set(KEYS["kafka"].values()) & set(
        profile.fields
    )
    assert set(profile.of_run({"topology": "ingest", "platform": "redis"})) == set(peer)
    assert profile.of_run({"topology": "nowhere"}) == profile.of_run({"topology": ["peer"]}) == profile.fields


@pytest.mark.parametrize("command", ["run", "load"])
def test_a_share_is_asked_for_with_the_profile_of_the_twins(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a start that is over, that is all there is to refuse."""
    profile = write(
        tmp_path, WHOLE.replace("accounts = ", "# ").replace("certificates = ", "# ").replace("ca = ", "# ")
    )
    words = f"--profile {profile} --topology peer --link direct --share 1/2 --start-at 2026-01-01T00:00:00Z"
    assert ended(monkeypatch, command, *words.split(), "--share-results", "s3a://ivsim/load") == 2
    assert capsys.readouterr().err.startswith("ivsim: --start-at 2026-01-01T00:00:00Z: is ")


def test_the_targets_protocol_is_the_urls(tmp_path: Path) -> None:
    assert options_of(write(tmp_path, '[target]\nurl = "amqp://127.0.0.1"\n')).protocol == "amqp"
    coap = options_of(write(tmp_path, '[target]\nurl = "coap://127.0.0.1"\n'))
    assert (coap.protocol, coap.topology) == ("coap", "peer")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[kafka]\nbrokers = 3\n", "prod.toml: kafka.brokers: no such key; keys are bootstrap, login, topic_prefix,"),
        ("[kafka]\npassword = 'hunter2'\n", "prod.toml: kafka.password: no such key"),
        ("[cloud]\n", "prod.toml: cloud: no such section; sections are kafka, spark, store, target"),
        ("kafka = 'hunter2'\n", "prod.toml: kafka: no such section"),
        ("[kafka]\nbootstrap = ['hunter2']\n", "prod.toml: kafka.bootstrap: expected a text or a number"),
        ("[kafka]\nproducer = 'hunter2'\n", "prod.toml: kafka.producer: expected a table"),
        ("[kafka.producer]\nlinger.ms = 5\n", "prod.toml: kafka.producer: expected a table of texts and numbers; a key with dots"),
        ("[kafka.producer]\n'sasl.password' = 'hunter2'\n", "prod.toml: kafka.producer sasl.password: a secret has no place"),
        ("[kafka.producer]\n'acks' = 'hunter2'\n", "prod.toml: kafka.producer acks: ivsim decides it itself"),
        ("[spark]\nconf = { 'spark.hadoop.fs.s3a.secret.key' = 'hunter2' }\n", "fs.s3a.secret.key: a secret"),
        ("[spark]\nconf = { 'spark.master' = 'x' }\n", "spark.conf spark.master: ivsim decides it itself"),
        ("[kafka]\npartitions = 0\n", "prod.toml: kafka.partitions 0: input should be greater than or equal to 1"),
        ("[kafka]\nlogin = 'l'\n", "kafka.login"),
        ("[kafka]\nbootstrap = 'b:1'\nreplication = 1\nmin_insync = 2\n", "kafka.min_insync 2: at most"),
        ("[kafka\n", "--profile"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_key_and_without_its_value(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        options_of(write(tmp_path, text))
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ivsim", *words])
    with pytest.raises(SystemExit) as found:
        cli.main()
    return int(str(found.value.code))


def test_what_is_typed_and_a_config_file_go_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal of a run that nobody can make shows which word it took, and from where."""
    profile = write(tmp_path, "[kafka]\npartitions = 99\n")
    assert ended(monkeypatch, "run", "--profile", str(profile)) == 2
    assert f"{profile}: kafka.partitions 99: " in capsys.readouterr().err
    config = tmp_path / "config.toml"
    config.write_text("kafka_partitions = 98\n")
    monkeypatch.setenv("IVSIM_PROFILE", str(profile))
    assert ended(monkeypatch, "run", "--config", str(config)) == 2
    assert f"{config}: kafka_partitions 98: " in capsys.readouterr().err
    assert ended(monkeypatch, "load", "--config", str(config), "--kafka-partitions", "97") == 2
    assert "--kafka-partitions 97: " in capsys.readouterr().err


def test_each_connection_is_tried_whatever_became_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody, hold_port() as held:
        nobody = held.getsockname()[1]
        text = (
            f'[kafka]\nbootstrap = "127.0.0.1:{nobody}"\nproducer = {{ "lingering.ms" = 5 }}\n'
            f'[spark]\nmaster = "spark://127.0.0.1:{somebody.getsockname()[1]}"\ncheckpoint = "s3a://bucket/twins"\n'
            f'[store]\nendpoint = "http://127.0.0.1:{nobody}"\n'
            f'[target]\nurl = "mqtt://127.0.0.1:{nobody}"\n'
        )
        assert ended(monkeypatch, "profile", "check", str(write(tmp_path, text))) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["Kafka", "no"], ["Kafka", "producer"], ["Spark", "yes"], ["object", "store"], ["target", "no"],
    ]  # fmt: skip
    assert "no Kafka broker answered: Connection refused" in lines[0]
    assert 'No such configuration property: "lingering.ms"' in lines[1]
    assert f"s3a://bucket/twins: no answer from http://127.0.0.1:{nobody}: Connection refused" in lines[3]
    assert "no answer: Connection refused" in lines[4]


def test_a_profile_that_names_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "profile", "check", str(write(tmp_path, ""))) == 0
    assert "names nothing: all is the run's own" in capsys.readouterr().out
    assert list(checks(run_options())) == []


def test_settings_get_to_the_producer_and_to_spark() -> None:
    options = run_options(
        kafka_producer=["linger.ms=7", "compression.type=zstd"], spark_conf=["spark.driver.memory=3g"]
    )
    found = producer_configuration("b:1", 1, more=as_mapping(options.kafka_producer))
    assert (found["linger.ms"], found["compression.type"], found["acks"]) == ("7", "zstd", "all")
    check_producer(options)
    with pytest.raises(Refusal, match='--kafka-producer: librdkafka: Invalid value "zip"'):
        check_producer(run_options(kafka_producer=["compression.type=zip"]))
    assert session_config(options)["spark_conf"] == {"spark.driver.memory": "3g"}
    config = TwinConfig(run_dir=".", topology="echo", spark_conf={"spark.driver.memory": "3g"})
    from twin.session import settings  # noqa: PLC0415 - Spark's own package, for this test alone

    assert settings(config)["spark.driver.memory"] == "3g"
    assert settings(TwinConfig(run_dir=".", topology="echo"))["spark.driver.memory"] == "2g"


@pytest.mark.parametrize(
    "words", [["x"], ["=1"], ["a b=1"], ["linger.ms=5", "linger.ms=6"], ["a=\n"], ["a=" + "x" * 501]]
)
def test_settings_have_a_form(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"write KEY=VALUE|stands twice"):
        producer_settings(words)


def test_no_setting_may_undo_what_the_gateway_promises() -> None:
    free = {"linger.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "socket.keepalive.enable"}
    own: dict[str, Any] = producer_configuration("b:1", 1)
    for key in set(own) - free:
        with pytest.raises(ValueError, match=r"ivsim decides it itself|a secret"):
            producer_settings([f"{key}=1"])
    for key in free:
        assert producer_settings([f"{key}=1"]) == (f"{key}=1",)
    with pytest.raises(ValueError, match="ivsim decides it itself"):
        spark_settings(["hadoop.x=1"])
