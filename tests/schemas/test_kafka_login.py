"""How clients are led to Kafka: what they are told, and what nobody else learns; without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from gateways.config import read_gateway_config
from schemas.errors import Refusal
from schemas.kafka_login import check_files, client_settings, java_settings, read_login
from schemas.settings import spark_settings
from twin.config import TwinConfig
from twin.session import launch_settings, secret_settings

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


ACCOUNT = f"username=a\npassword={PASSWORD}\n"
CLIENT = f"mechanism=OAUTHBEARER\nclient_id=a\nclient_secret={PASSWORD}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "username: SCRAM-SHA-512 needs it"),
        ("username=a\n", "password: SCRAM-SHA-512 needs it"),
        (f"mechanism=PLAIN\npassword={PASSWORD}\n", "username: PLAIN needs it"),
        (f"{ACCOUNT}authority=\n", "authority: empty"),
        (f"{ACCOUNT}authority=b\nother={PASSWORD}\n", "line 4: expected KEY=VALUE; keys are mechanism, username, password,"),
        (f"password: {PASSWORD}==\n", "line 1: expected KEY=VALUE"),
        (f"username=a\npassword:{PASSWORD}\n", "line 2: expected KEY=VALUE"),
        (f"{ACCOUNT}mechanism=GSSAPI\n", "mechanism: allowed are SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER, mTLS"),
        (f"{ACCOUNT}scope=b\n", "scope: SCRAM-SHA-512 has none"),
        (f"{ACCOUNT}mechanism=mTLS\n", "certificate: mTLS needs it"),
        (f"{ACCOUNT}mechanism=mTLS\ncertificate=/a\nkey=/b\n", "username: mTLS has none"),
        (f"{ACCOUNT}certificate=/a\n", "certificate and key: one needs the other"),
        (CLIENT, "token_endpoint: OAUTHBEARER needs it"),
        (f"{CLIENT}token_endpoint=host/token\n", "token_endpoint: expected https://..."),
        (f"{CLIENT}token_endpoint=https://\n", "token_endpoint: expected https://..."),
        (f"{CLIENT}token_endpoint=http://[::1/token\n", "token_endpoint: expected https://..."),
        (f"{CLIENT}token_endpoint=https://a:b@host/\n", "token_endpoint: an account has no place in it"),
        (f"{CLIENT}token_endpoint=http://idp.example/token\n", "token_endpoint: expected https://...: the client"),
        (f'{ACCOUNT}authority=/a"b\n', 'authority: " and \\ are not the same to Java and to Python'),
    ],
)  # fmt: skip
def test_a_file_that_is_no_login_is_refused_by_key_without_its_values(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "login.properties"
    file.write_text(text)
    with pytest.raises(Refusal) as refused:
        read_login(str(file))
    assert str(refused.value).startswith(f"kafka_login {file}: {problem}")
    assert PASSWORD not in str(refused.value)


def test_a_comment_is_none_of_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "login.properties"
    file.write_text(f"# of=the fleet\n{ACCOUNT}! password=old\n")
    assert read_login(str(file)).password == PASSWORD


def test_without_an_authority_the_systems_are_trusted(tmp_path: Path) -> None:
    file = tmp_path / "login.properties"
    file.write_text(ACCOUNT)
    assert client_settings("a:1", str(file))["ssl.ca.location"] == "probe"
    assert not [name for name in java_settings("a:1", str(file)) if "truststore" in name]


@pytest.mark.parametrize(
    ("key", "content", "problem"),
    [
        ("authority", None, "No such file or directory"),
        ("certificate", "-----BEGIN PRIVATE KEY-----", "no PEM of a CERTIFICATE"),
        ("key", "-----BEGIN EC PRIVATE KEY-----", "no PEM of a PRIVATE KEY: PKCS#8 without a password (openssl pkcs8"),
        ("key", "-----BEGIN PRIVATE KEY-----" + "x" * 100_000, "longer than 100,000 bytes"),
    ],
)  # fmt: skip
def test_a_file_that_a_login_names_is_refused_before_anybody_reads_it(
    tmp_path: Path, key: str, content: str | None, problem: str
) -> None:
    files = {name: tmp_path / name for name in ("authority", "certificate", "key")}
    for name, path in files.items():
        kind = {"key": "PRIVATE KEY"}.get(name, "CERTIFICATE")
        path.write_text(f"-----BEGIN {kind}-----")
    if content is None:
        files[key].unlink()
    else:
        files[key].write_text(content)
    login = tmp_path / "login.properties"
    login.write_text("mechanism=mTLS\n" + "".join(f"{name}={path}\n" for name, path in files.items()))
    with pytest.raises(Refusal) as refused:
        check_files(str(login))
    assert str(refused.value).startswith(f"kafka_login {login}: {key} {files[key]}: {problem}")


def test_a_pem_that_is_none_and_a_key_of_another_certificate_are_refused(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    pair, broken, strange = tmp_path / "pair.pem", tmp_path / "broken.pem", tmp_path / "strange.pem"
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(pair)
    other.issue_cert("client").private_key_pem.write_to_path(strange)
    strange.write_text(strange.read_text().replace("EC PRIVATE", "PRIVATE"))
    broken.write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    for lines, problem in (
        (f"{ACCOUNT}authority={broken}\n", "authority: "),
        (f"mechanism=mTLS\ncertificate={pair}\nkey={strange}\n", "certificate and key: "),
    ):
        login = tmp_path / "login.properties"
        login.write_text(lines)
        with pytest.raises(Refusal) as refused:
            check_files(str(login))
        assert str(refused.value).startswith(f"kafka_login {login}: {problem}")


def test_a_path_that_depends_on_where_one_stands_is_refused(tmp_path: Path) -> None:
    login = tmp_path / "login.properties"
    login.write_text(f"{ACCOUNT}authority=ca.pem\n")
    with pytest.raises(Refusal, match=r"authority ca\.pem: write its whole path"):
        check_files(str(login))


def test_executors_learn_secrets_by_their_environment_alone(login: str, tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_text("-----BEGIN CERTIFICATE-----")
    config = TwinConfig(
        run_dir=str(tmp_path),
        bootstrap="127.0.0.1:9092",
        kafka_login=login,
        spark_master="spark://host:7077",
        checkpoint_dir="hdfs://h/t",
    )
    options = config.spark_kafka()
    assert options["kafka.ssl.truststore.certificates"] == "-----BEGIN CERTIFICATE-----"
    assert str(tmp_path) not in str(options)
    assert PASSWORD not in str(options) + str(launch_settings(config, tmp_path))
    assert secret_settings(config)["spark.executorEnv.IVSIM_KAFKA_SECRET_PASSWORD"] == PASSWORD
    by_kubernetes = {"spark.kubernetes.executor.secretKeyRef.IVSIM_KAFKA_SECRET_PASSWORD": "kafka:password"}
    assert PASSWORD not in str(secret_settings(config.model_copy(update={"spark_conf": by_kubernetes})))
    (said,) = by_kubernetes.items()
    assert spark_settings(["=".join(said)]) == ("=".join(said),)


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
