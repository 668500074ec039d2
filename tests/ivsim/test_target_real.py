"""Runs against brokers that ivsim did not start: over TLS with accounts, through the relay, and nothing of it stays there."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pyarrow.parquet as pq
import pytest

from gateways.protocols.coap.ping import ping
from ivsim.audit import audit
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.directory import tag_of
from ivsim.runs.preflight import preflight
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed
from ivsim.testbed.credentials import Credentials, make_credentials
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]
VEHICLES = 5
TIMES = {"vehicles": VEHICLES, "interval_s": 1.0, "duration_s": 8.0, "loss_timeout_s": 15.0}


def fates(directory: Path) -> set[str]:
    return {row["fate"] for row in pq.read_table(directory / "ledger.parquet").to_pylist()}


@pytest.mark.full
def test_vehicles_reach_a_broker_over_tls_with_accounts_of_its_own(
    tmp_path: Path, testbed: Testbed, session_record: RunRecord
) -> None:
    made = make_credentials(tmp_path / "keys", VEHICLES, "tls", "localhost")
    with MosquittoServer(session_record, security=made.security, name="theirs") as theirs:
        options = run_options(
            **TIMES, target=f"mqtts://localhost:{theirs.port}", target_ca=str(made.authority),
            target_accounts=accounts_of(made, tmp_path),
        )  # fmt: skip
        outcome = testbed.run(options, tmp_path / "run")
        assert outcome.error is None
        assert fates(tmp_path / "run") == {"delivered"}
        assert theirs.process.running()
    manifest = (tmp_path / "run" / "manifest.json").read_text()
    assert f"mqtts://localhost:{theirs.port}" in manifest
    assert not [word for word in made.passwords.values() if word in manifest]


def accounts_of(made: Credentials, directory: Path) -> str:
    path = directory / "accounts.json"
    accounts = {name: {"username": name, "password": word} for name, word in made.passwords.items()}
    path.write_text(json.dumps(accounts))
    return str(path)


def test_a_broker_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, session_record: RunRecord, mosquitto_loopback: tuple[str, int]
) -> None:
    made = make_credentials(tmp_path / "keys", VEHICLES, "tls", "another.example")
    asked = {**TIMES, "target_ca": str(made.authority), "target_accounts": accounts_of(made, tmp_path)}
    with MosquittoServer(session_record, security=made.security, name="theirs-misnamed") as theirs:
        url = f"mqtts://localhost:{theirs.port}"
        refused = refusal_of(run_options(**asked, target=url))
        assert refused.startswith(f"--target {url}: its certificate: Hostname mismatch")
        other = make_credentials(tmp_path / "other", 1, "tls", "localhost")
        refused = refusal_of(run_options(**asked | {"target_ca": str(other.authority)}, target=url))
        assert refused.startswith(f"--target {url}: its certificate: ")
        none = tmp_path / "none.pem"
        none.write_text("none")
        refused = refusal_of(run_options(**asked | {"target_ca": str(none)}, target=url))
        assert refused.startswith(f"--target {url}: tls.ca_file {none}: no certificates in PEM form: ")
    url = f"mqtts://localhost:{mosquitto_loopback[1]}"
    assert refusal_of(run_options(**asked, target=url)).startswith(f"--target {url}: no TLS: ")


def refusal_of(options: RunOptions) -> str:
    with pytest.raises(Refusal) as refused:
        preflight(options)
    return str(refused.value)


@pytest.mark.full
def test_sessions_and_queues_on_a_target_go_with_the_run(
    tmp_path: Path, testbed: Testbed, mosquitto_loopback: tuple[str, int], rabbitmq_loopback: tuple[str, int]
) -> None:
    host, port = mosquitto_loopback
    asked = run_options(**TIMES, topology="echo", mode="qos1-v311", target=f"mqtt://{host}:{port}")
    outcome = testbed.run(asked, tmp_path / "mqtt")
    assert (outcome.error, fates(tmp_path / "mqtt")) == (None, {"delivered"})

    host, port = rabbitmq_loopback
    asked = run_options(
        **TIMES, protocol="amqp", mode="manual-confirms-persistent", target=f"amqp://{host}:{port}"
    )
    seen: list[bool] = []

    def look(run: StartedRun) -> None:
        if not seen:
            seen.append(has_queue(host, port, f"ivsim-{tag_of(run.plan.run_id)}-gateway-0"))

    outcome = testbed.run(asked, tmp_path / "amqp", disturb=look)
    assert (outcome.error, fates(tmp_path / "amqp")) == (None, {"delivered"})
    assert seen == [True]
    tag = tag_of(json.loads((tmp_path / "amqp" / "manifest.json").read_text())["run"])
    assert not has_queue(host, port, f"ivsim-{tag}-gateway-0")


def has_queue(host: str, port: int, name: str) -> bool:
    """Say whether a broker has a queue of this name (AMQP 0-9-1, 1.7.2.1: passive)."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    with contextlib.closing(connection), contextlib.suppress(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare(name, passive=True)
        return True
    return False


@contextlib.contextmanager
def libcoap_server(*options: str) -> Iterator[int]:
    """Yield the port of libcoap's server on loopback, which makes a resource of whatever is posted; DTLS one above."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = ["coap-server-openssl", "-A", "127.0.0.1", "-p", str(port), "-d", "100", "-v", "3", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(ConnectionRefusedError):
                ping("127.0.0.1", port, 10.0)
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.full
def test_vehicles_reach_a_coap_server_whose_word_is_all_that_is_seen(
    tmp_path: Path, testbed: Testbed
) -> None:
    with libcoap_server() as port:
        asked = run_options(
            **TIMES, protocol="coap", mode="con", topology="peer", target=f"coap://127.0.0.1:{port}"
        )
        outcome = testbed.run(asked, tmp_path / "run")
    assert outcome.error is None
    assert fates(tmp_path / "run") == {"delivered"}
    figures = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert figures["delivered"] == figures["due"] == VEHICLES * 8
    assert figures["delivery_ratio"] == 1
    assert figures["acknowledgement_time_p50_ms"] > 0
    assert figures["wire_bytes_uplink"] > 0
    unseen = (
        "end_to_end_latency_p50_ms",
        "one_way_delay_p50_ms",
        "processing_delay_p50_ms",
        "duplicates",
        "twin_updates",
    )
    assert {name: figures[name] for name in unseen} == dict.fromkeys(unseen)
    found = audit(tmp_path / "run")
    assert found.agrees
    assert found.compared > 500


@pytest.mark.full
def test_vehicles_reach_a_coap_server_over_dtls_with_keys_of_its_own(
    tmp_path: Path, testbed: Testbed
) -> None:
    words = {vehicle_id(number): f"key-of-vehicle-{number:02}"[:16] for number in range(1, VEHICLES + 1)}
    known = tmp_path / "identities"
    known.write_text("".join(f"ivsim,{name},{word}\n" for name, word in words.items()))
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({name: word.encode().hex() for name, word in words.items()}))
    with libcoap_server("-h", "ivsim", "-k", "no-vehicle-has-it", "-i", str(known)) as port:
        asked = run_options(
            **TIMES,
            protocol="coap",
            mode="con",
            topology="peer",
            target=f"coaps://127.0.0.1:{port + 1}",
            target_keys=str(keys),
        )
        outcome = testbed.run(asked, tmp_path / "run")
        assert outcome.error is None
        assert fates(tmp_path / "run") == {"delivered"}
