"""A target that takes a connection and refuses the client is refused before a run starts anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from fake_mqtt_broker import CONNACK, CONNECT, DISCONNECT, Connection, FakeBroker, packet

from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs import target_trial
from ivsim.runs.target_credentials import target_credentials
from ivsim.runs.target_trial import try_target
from ivsim.target import parse
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from tests.gateways.amqp.fake_broker import FakeBroker as AmqpBroker

Answer = Callable[[Connection, int, bytes], list[bytes] | None]


@contextlib.contextmanager
def brokers(answer: Answer = lambda *_: None, *, five: bool = True) -> Iterator[FakeBroker]:
    """An MQTT broker of paper."""
    with served(FakeBroker(five=five, answer=answer)) as broker:
        yield broker


@contextlib.contextmanager
def served(broker: Any) -> Iterator[Any]:
    """A broker of paper on an event loop of its own."""
    loop, up, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with broker:
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert up.wait(30)
    try:
        yield broker
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def tried(port: int, scheme: str = "mqtt", **fields: Any) -> RunOptions:
    options = run_options(target=f"{scheme}://127.0.0.1:{port}", **fields)
    assert options.target is not None
    target = parse(options.target)
    try_target(options, target, target_credentials(options, target))
    return options


def connack(said: bytes) -> Answer:
    return lambda _connection, kind, _body: [packet(CONNACK << 4, said)] if kind == CONNECT else None


@pytest.mark.parametrize("fields", [{}, {"mode": "qos0"}, {"mode": "qos2"}, {"mode": "qos1-v311"}])
def test_a_target_that_takes_the_client_is_left_in_order(fields: dict[str, Any]) -> None:
    with brokers(five="v311" not in fields.get("mode", "")) as broker:
        tried(broker.port, **fields)
        # A session that 3.1.1 would keep is begun anew, and so ended.
        count = 2 if fields.get("mode") == "qos1-v311" else 1
        deadline_s = time.monotonic() + 30
        while (found := kinds_of(broker)) != [[CONNECT, DISCONNECT]] * count:
            assert time.monotonic() < deadline_s, found
            time.sleep(0.01)


def kinds_of(broker: FakeBroker) -> list[list[int]]:
    return [[kind for kind, _, _ in connection.received] for connection in broker.connections]


def test_amqp_and_coap_are_tried_as_well() -> None:
    with served(AmqpBroker()) as broker:
        tried(broker.port, "amqp", protocol="amqp", mode="manual-confirms-persistent")
        assert broker.connections == 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        # Without DTLS a client of CoAP's says nothing before its first message.
        tried(server.getsockname()[1], "coap", protocol="coap", mode="con", topology="peer")


def test_a_coap_server_that_does_not_know_the_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_trial, "TRIAL_S", 0.3)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({vehicle_id(number): "ab" * 16 for number in range(1, 11)}))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        asked = {"protocol": "coap", "mode": "con", "topology": "peer", "target_keys": str(keys)}
        with pytest.raises(Refusal, match=rf"^--target coaps://127.0.0.1:{port}: .*--target-keys {keys}"):
            tried(port, "coaps", vehicles=10, **asked)


def test_who_is_refused_is_named_with_the_file_of_the_account(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.json"
    accounts.write_text(json.dumps({"*": {"username": "fleet", "password": "wrong"}}))
    with (
        brokers(connack(b"\x00\x86\x00")) as broker,
        pytest.raises(Refusal) as refused,
    ):
        tried(broker.port, target_accounts=str(accounts))
    at = f"127.0.0.1:{broker.port}"
    assert str(refused.value) == (
        f"--target mqtt://{at}: MQTT broker {at} refuses: Bad user name or password"
        f" (vehicle {vehicle_id(1)}, by --target-accounts {accounts})"
    )


def test_a_gateway_whose_account_alone_is_refused_is_named(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.json"
    accounts.write_text(
        json.dumps(
            {"*": {"username": "fleet", "password": "a"}, "gateway": {"username": "g", "password": "b"}}
        )
    )

    def answer(_connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        code = b"\x87" if b"\x00\x01g" in body else b"\x00"
        return [packet(CONNACK << 4, b"\x00" + code + b"\x00")] if kind == CONNECT else None

    with (
        brokers(answer) as broker,
        pytest.raises(Refusal, match=r"Not authorized \(gateway, by --target-acc"),
    ):
        tried(broker.port, target_accounts=str(accounts))


def test_a_server_of_a_lower_qos_is_refused() -> None:
    with brokers(connack(b"\x00\x00\x02\x24\x01")) as broker:
        tried(broker.port, mode="qos1")
        with pytest.raises(Refusal, match="its Maximum QoS is 1, and QoS 2 is to be published"):
            tried(broker.port, mode="qos2")


def test_a_port_that_speaks_tls_is_named_as_one() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(Refusal, match="this port speaks TLS, as mqtts:// does"):
            tried(port)
        thread.join(30)


def test_a_server_that_says_nothing_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_trial.TRIAL_S == 5.0
    monkeypatch.setattr(target_trial, "TRIAL_S", 0.3)
    with brokers(lambda *_: []) as broker, pytest.raises(Refusal, match=r"no answer within 0\.3 s"):
        tried(broker.port)
