"""Every way to log in at Kafka, by each client library of ours, and by Java on a machine that has none of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from gateways.sinks import SINKS
from gateways.sinks.kinds import Java, SinkSettings
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import class_path
from ivsim.testbed.java_client import libjvm
from ivsim.testbed.kafka_admin import ANSWER_S, create_topics, delete_topics, probe
from ivsim.testbed.paths import jars_dir
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.kafka_login import OAUTH, java_settings, shipped_secrets
from schemas.topics import KafkaTopics
from tests.kafka_logins import MECHANISMS, SECRET, Logins, every_login

pytestmark = pytest.mark.kafka

# Spark's own client, with nothing but properties and its environment.
_SHIPPED = """
import json, sys, jpype
library, jars, topic = sys.argv[1:4]
jpype.startJVM(library, "-Xmx256m", "-XX:TieredStopAtLevel=1", classpath=jars.split(":"), convertStrings=False)
properties = jpype.JClass("java.util.Properties")()
for name, value in json.load(sys.stdin).items():
    properties.setProperty(name, value)
with jpype.JClass("org.apache.kafka.clients.admin.Admin").create(properties) as admin:
    listed = admin.listTopics().names().get(20, jpype.JClass("java.util.concurrent.TimeUnit").SECONDS)
    print(listed.contains(topic))
"""


@pytest.fixture(scope="module")
def logins(session_record: RunRecord, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    directory = tmp_path_factory.mktemp("logins")
    with (
        RunRecord(f"l{uuid.uuid4().hex[:8]}", directory) as record,
        every_login(record, directory / "keys") as found,
    ):
        yield found


@pytest.fixture
def topics(logins: Logins, mechanism: str) -> Iterator[KafkaTopics]:
    """Topics that a client of this mechanism has made."""
    found = KafkaTopics(f"l{uuid.uuid4().hex[:8]}.")
    where, login = logins.bootstrap(mechanism), logins.files[mechanism]
    create_topics(where, found, login=login)
    yield found
    assert delete_topics(where, found.prefix, login) == {}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_client_logs_in_by_the_file(logins: Logins, topics: KafkaTopics, mechanism: str) -> None:
    where, login = logins.bootstrap(mechanism), logins.files[mechanism]
    probe(where, login=login)
    for name, kind in SINKS.items():
        if mechanism in kind.without:
            with pytest.raises(Refusal, match=rf"mechanism {mechanism}: kafka_client {name} has none"):
                kind.check_login(login)
            continue
        kind.check_login(login)
        java = Java(str(libjvm()), tuple(class_path())) if kind.java else None
        sink = kind.open(SinkSettings(where, 1 << 20, login, java=java))
        try:
            sink.require_topics((topics.status, topics.dead_letter))
        finally:
            sink.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_logs_in_with_no_file_and_no_secret_in_its_settings(
    logins: Logins, topics: KafkaTopics, mechanism: str, tmp_path: Path
) -> None:
    where, login = logins.bootstrap(mechanism), logins.files[mechanism]
    settings, secrets = java_settings(where, login, shipped=True), shipped_secrets(login)
    keys = Path(login).parent
    assert secrets
    hidden = [str(keys), SECRET, *(secret for name, secret in secrets.items() if name.endswith("_KEY"))]
    assert [name for name, value in settings.items() if any(word in value for word in hidden)] == []
    jars = [*Path(pyspark.__file__).parent.glob("jars/*.jar"), *jars_dir("spark").glob("*.jar")]
    told = [str(libjvm()), ":".join(map(str, jars)), topics.status]
    elsewhere = tmp_path / "elsewhere"
    keys.rename(elsewhere)  # Kafka has read them, and this client must not
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SHIPPED, *told],
            input=json.dumps(settings), env={**os.environ, **secrets}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        elsewhere.rename(keys)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr[-2_000:]
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whom_kafka_does_not_know_is_refused_at_once(logins: Logins, mechanism: str, tmp_path: Path) -> None:
    wrong, began_s = logins.wrong(mechanism, tmp_path), time.monotonic()
    with pytest.raises(Refusal, match=rf"answered to --kafka-login {wrong}: ") as refused:
        probe(logins.bootstrap(mechanism), login=wrong)
    assert time.monotonic() - began_s < ANSWER_S, "a refusal is told at once"
    assert "another" not in str(refused.value)


def test_a_token_is_asked_for_with_the_secret_alone(logins: Logins) -> None:
    given = logins.tokens.given
    probe(logins.bootstrap(OAUTH), login=logins.files[OAUTH])
    assert logins.tokens.given > given
