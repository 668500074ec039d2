"""TLS, accounts and topic permissions of MQTT on a real mosquitto: what an intruder can do is nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings, Tls, VehicleSettings
from gateways.protocols.ends import ConnectError
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.connection import LoopClient
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import Account, Security, TlsFiles
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

MQTT = PROTOCOLS["mqtt"]
MODE = MQTT.modes["qos1"]
VICTIM, INTRUDER = vehicle_id(1), vehicle_id(2)
SETTINGS = VehicleSettings(connect_timeout_s=5.0)


@pytest.fixture
def endpoint(run_record: RunRecord, tmp_path: Path) -> Iterator[Endpoint]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    paths = {name: tmp_path / f"{name}.pem" for name in ("ca", "certificate", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.private_key_pem.write_to_path(paths["key"])
    paths["certificate"].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    accounts = (
        Account(VICTIM, "victim-word"),
        Account(INTRUDER, "intruder-word"),
        Account("gateway", "gateway-word", "gateway"),
    )
    files = TlsFiles(paths["ca"], paths["certificate"], paths["key"])
    with MosquittoServer(run_record, security=Security(files, accounts)) as server:
        yield Endpoint(server.host, server.port, Tls(str(paths["ca"])))


def as_user(endpoint: Endpoint, name: str, word: str) -> Endpoint:
    return dataclasses.replace(endpoint, username=name, password=word)


class Seen:
    """Notes whatever any end reports."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.tokens: list[int] = []
        self.refusals: list[str] = []
        self.intake: Any = None
        self.happened = asyncio.Event()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.tokens.append(token)
        self.happened.set()

    def refused(self, token: int, reason: str) -> None:
        self.refusals.append(reason)
        self.happened.set()

    def connected(self, at_ns: int, session_present: bool) -> None: ...
    def disconnected(self, at_ns: int, reason: str) -> None: ...
    def writable(self) -> None: ...
    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...
    def opened(self, session_present: bool) -> None: ...
    def lost(self, reason: str) -> None: ...
    def drained(self) -> None: ...

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any
    ) -> None:
        self.taken.append((vehicle_id, payload))
        self.intake.acknowledge(receipt)
        self.intake.flush()
        self.happened.set()


async def gateway(endpoint: Endpoint, seen: Seen, *, shared: bool = False, name: str = "gateway") -> Any:
    user = as_user(endpoint, "gateway", "gateway-word")
    seen.intake = MQTT.intake(user, MODE, seen, IntakeSettings(shared=shared, name=name))
    await seen.intake.open()
    return seen.intake


@pytest.mark.parametrize("shared", [False, True])
async def test_a_vehicle_with_its_password_is_served(endpoint: Endpoint, shared: bool) -> None:
    seen = Seen()
    intake = await gateway(endpoint, seen, shared=shared)
    client = MQTT.vehicle_client(as_user(endpoint, VICTIM, "victim-word"), 1, MODE, seen, SETTINGS)
    await client.connect()
    payload = bytes(50_000)  # several TLS records
    client.send(1, payload)
    async with asyncio.timeout(10):
        while not (seen.taken and seen.tokens):
            seen.happened.clear()
            await seen.happened.wait()
    assert seen.taken == [(VICTIM, payload)]
    await client.close()
    await intake.close()


async def test_members_of_a_group_may_ask_for_each_other(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = [await gateway(endpoint, Seen(), shared=True, name=name) for name in ("one", "two")]
    await first.close()
    assert "no other gateway" not in caplog.text
    await last.close()
    assert "for the session 'two' for 3600 s: no other gateway of its group answers" in caplog.text


@pytest.mark.parametrize(("name", "word"), [(VICTIM, "wrong"), ("nobody", "x")])
async def test_a_wrong_password_is_refused(endpoint: Endpoint, name: str, word: str) -> None:
    client = MQTT.vehicle_client(as_user(endpoint, name, word), 1, MODE, Seen(), SETTINGS)
    with pytest.raises(ConnectError, match="refuses"):
        await client.connect()
    await client.close()


async def test_an_unknown_authority_is_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    other = dataclasses.replace(
        as_user(endpoint, VICTIM, "victim-word"), tls=Tls(str(tmp_path / "other.pem"))
    )
    client = MQTT.vehicle_client(other, 1, MODE, Seen(), SETTINGS)
    with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        await client.connect()
    await client.close()


async def test_plain_bytes_on_the_tls_port_are_refused(endpoint: Endpoint) -> None:
    plain = dataclasses.replace(as_user(endpoint, VICTIM, "victim-word"), tls=None)
    client = MQTT.vehicle_client(plain, 1, MODE, Seen(), SETTINGS)
    with pytest.raises(ConnectError):
        await client.connect()
    await client.close()


async def test_an_intruder_cannot_publish_for_another_vehicle(endpoint: Endpoint) -> None:
    """Its own name and password, another vehicle's topic: refused at PUBACK, and nothing arrives."""
    seen, intruder, victim = Seen(), Seen(), Seen()
    intake = await gateway(endpoint, seen)
    client = MQTT.vehicle_client(as_user(endpoint, INTRUDER, "intruder-word"), 1, MODE, intruder, SETTINGS)
    await client.connect()
    client.send(1, b"forged")
    await asyncio.wait_for(intruder.happened.wait(), 10)
    assert intruder.tokens == []
    assert "Not authorized" in intruder.refusals[0]
    await client.close()
    # A genuine message, later than the forged one: when it is there the forged one would be too.
    genuine = MQTT.vehicle_client(as_user(endpoint, VICTIM, "victim-word"), 1, MODE, victim, SETTINGS)
    await genuine.connect()
    genuine.send(1, b"genuine")
    await asyncio.wait_for(seen.happened.wait(), 10)
    assert seen.taken == [(VICTIM, b"genuine")]
    await genuine.close()
    await intake.close()


@pytest.mark.parametrize("topic_filter", [mqtt_topic(VICTIM), "vehicles/#", "#", "$share/ivsim/vehicles/#"])
async def test_an_intruder_cannot_read(endpoint: Endpoint, topic_filter: str) -> None:
    seen, victim = Seen(), Seen()
    intake = await gateway(endpoint, seen)
    stolen: list[bytes] = []
    intruder = LoopClient(
        Seen(),
        as_user(endpoint, INTRUDER, "intruder-word"),
        "intruder",
        "5",
        VehicleSettings(session_expiry_s=0),
    )
    intruder.on_message = lambda _client, _data, message: stolen.append(message.payload)
    await intruder.dial(5.0)
    try:
        await intruder.subscribe_to(topic_filter, 1, 5.0)
    except ConnectError as error:
        assert "Not authorized" in str(error)  # noqa: PT017 - either answer keeps the intruder out
    client = MQTT.vehicle_client(as_user(endpoint, VICTIM, "victim-word"), 1, MODE, victim, SETTINGS)
    await client.connect()
    client.send(1, b"secret")
    await asyncio.wait_for(seen.happened.wait(), 10)
    if intruder.up:
        # The broker has handed the secret out: whatever it owed the intruder comes before this answer.
        answered = asyncio.Event()
        intruder.on_publish = lambda *_: answered.set()
        intruder.publish(mqtt_topic(INTRUDER), b"mine", 1)
        intruder.write_soon()
        await asyncio.wait_for(answered.wait(), 10)
        await intruder.leave(end_session=True)
    assert stolen == []
    await client.close()
    await intake.close()
