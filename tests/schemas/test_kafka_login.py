"""How clients are led to Kafka: what they are told, and what nobody else learns; without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateways.config import read_gateway_config
from schemas.errors import Refusal
from schemas.kafka_login import client_settings, java_settings, read_login
from twin.config import TwinConfig

PASSWORD = "not-to-be-seen"


@pytest.fixture
def login(tmp_path: Path) -> str:
    file = tmp_path / "login.properties"
    file.write_text(f"username=ivsim\npassword={PASSWORD}\nauthority={tmp_path}/authority.pem\n")
    return str(file)


def test_without_a_login_nothing_but_the_address_is_said() -> None:
    address = {"bootstrap.servers": "127.0.0.1:9092"}
    assert client_settings("127.0.0.1:9092", "") == java_settings("127.0.0.1:9092", "") == address


def test_librdkafka_logs_in_and_checks_the_broker(login: str, tmp_path: Path) -> None:
    assert client_settings("127.0.0.1:9092", login) == {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ivsim",
        "sasl.password": PASSWORD,
        "ssl.ca.location": f"{tmp_path}/authority.pem",
    }


def test_spark_learns_the_files_path_and_no_secret(login: str, tmp_path: Path) -> None:
    config = TwinConfig(run_dir=str(tmp_path), bootstrap="127.0.0.1:9092", kafka_login=login)
    options = config.spark_kafka()
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert f"${{file:{login}:password}}" in options["kafka.sasl.jaas.config"]
    assert PASSWORD not in str(options) + str(config)


def test_a_login_shows_no_password(login: str) -> None:
    assert PASSWORD not in repr(read_login(login))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "username"),
        (f"username=a\npassword={PASSWORD}\n", "authority"),
        (f"username=a\npassword={PASSWORD}\nauthority=\n", "authority"),
        (f"username=a\npassword={PASSWORD}\nauthority=b\nother={PASSWORD}\n", "other"),
    ],
)
def test_a_file_that_is_no_login_is_refused_by_key_without_its_values(
    tmp_path: Path, text: str, key: str
) -> None:
    file = tmp_path / "login.properties"
    file.write_text(text)
    with pytest.raises(Refusal) as refused:
        read_login(str(file))
    assert str(refused.value) == f"kafka_login {file}: {key}: one line each of username, password, authority"


def test_a_gateway_is_refused_a_login_that_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "gateway.json"
    config.write_text(
        '{"bootstrap": "127.0.0.1:9092", "host": "127.0.0.1", "port": 1, "mode": "qos1", "kafka_login": "/nowhere"}'
    )
    with pytest.raises(Refusal, match="kafka_login /nowhere: No such file or directory"):
        read_gateway_config(config)


@pytest.mark.parametrize("key", ["username", "password"])
@pytest.mark.parametrize("word", ['a"b', "a\\b", "\\", " a", "a ", "a\tb", "pässwort", "a\x0bb", "a\u2028b"])
def test_a_word_that_java_and_python_read_differently_is_refused(tmp_path: Path, key: str, word: str) -> None:
    words = {"username": "a", "password": "b"} | {key: word}
    file = tmp_path / "login.properties"
    text = "".join(f"{name}={value}\n" for name, value in words.items())
    file.write_text(f"{text}authority=b\n", encoding="utf-8")
    with pytest.raises(Refusal) as refused:
        read_login(str(file))
    assert str(refused.value) == (
        f'kafka_login {file}: {key}: only printable ASCII without " and \\, and without a space at either end, is the'
        " same word to Java and to Python"
    )


@pytest.mark.parametrize("word", ["a", "a b", "#!$%&'()*+,-./:;<=>?@[]^_`{|}~", "${file:x:y}"])
def test_every_other_word_is_taken(tmp_path: Path, word: str) -> None:
    file = tmp_path / "login.properties"
    file.write_text(f"username=a\npassword={word}\nauthority=b\n")
    assert read_login(str(file)).password == word
