"""DTLS with a key of each vehicle's at both ends over loopback: who a message is from, who is refused, what comes back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
from pathlib import Path

import pytest

from gateways.protocols.coap import dtls, dtls_client, dtls_server, vehicle
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.dtls_client import DtlsClient
from gateways.protocols.coap.dtls_server import DtlsServer
from gateways.protocols.ends import AccessRefusedError, ConnectError
from gateways.protocols.shared_keys import shared_keys
from ivsim.testbed.credentials import make_shared_keys
from schemas.topics import vehicle_id

SIZES = (0, 1, 10, 1024, 1025, 1157, 12_187)
ONE, TWO = vehicle_id(1), vehicle_id(2)


@pytest.fixture
def keys(tmp_path):
    return make_shared_keys(tmp_path / "keys", 3, "dtls-psk").keys


def changed(keys, tmp_path, **digits):
    """Return other keys: as the vehicles' own, but for some."""
    own = json.loads(Path(keys.file).read_text())
    own |= digits
    file = tmp_path / "other.json"
    file.write_text(json.dumps({name: word for name, word in own.items() if word}))
    return type(keys)(str(file), keys.use)


def alert(sequence):
    """Return a record that is no application data and no handshake, as whoever knows no keys may send it."""
    return b"\x15\xfe\xfd" + sequence.to_bytes(8, "big") + b"\x00\x02\x02\x00"


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_payloads_of_every_size_arrive_unchanged(coap, keys, mode):
    intake, sink = await coap.gateway(keys=keys)
    client, events = await coap.vehicle(intake.endpoint()[1], mode=mode, number=2, keys=keys)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        client.send(token, payload)
        await events.until(lambda t=token: t in events.acked)
    assert sink.taken == [(TWO, payload) for payload in payloads]
    assert intake.counters()["dtls_handshakes"] == 1


async def test_nothing_of_a_message_is_readable(coap, keys):
    intake, _ = await coap.gateway(keys=keys)
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, keys=keys)
    assert any(ONE.encode() in datagram for datagram in wire.up), "the handshake names the key"
    wire.up.clear()
    client.send(1, b"nobody reads this")
    await events.until(lambda: events.acked)
    assert wire.up
    for datagram in wire.up:
        assert b"nobody" not in datagram
        assert ONE.encode() not in datagram


@pytest.mark.parametrize("seed", range(5))
async def test_handshakes_and_messages_survive_loss(coap, keys, seed, monkeypatch, faster):
    """Flights and CON messages are sent again, and each message is taken once."""
    monkeypatch.setattr(dtls, "FIRST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(dtls_client, "TICK_S", 0.01)
    monkeypatch.setattr(dtls_server, "TICK_S", 0.01)
    faster(ack_timeout_s=0.05)
    intake, sink = await coap.gateway(keys=keys)
    wire = coap.wire(intake)
    down, up = random.Random(seed), random.Random(seed + 100)
    wire.lets_down = lambda datagram: down.random() >= 0.1
    wire.lets_up = lambda datagram: up.random() >= 0.1
    client, events = await coap.vehicle(wire.port, keys=keys)
    for token in range(10):
        client.send(token, b"%d" % token)
        await events.until(lambda t=token: t in events.acked)
    assert sink.taken == [(ONE, b"%d" % token) for token in range(10)]


@pytest.mark.parametrize(
    ("digits", "count", "why"),
    [("", "dtls_unknown", "unknown identity"), ("ab" * 16, "dtls_failed", "wrong key")],
)
async def test_who_is_refused_is_named_and_nobody_else_notices(
    coap, keys, tmp_path, caplog, digits, count, why
):
    intake, sink = await coap.gateway(keys=changed(keys, tmp_path, **{ONE: digits}))
    port = intake.endpoint()[1]
    other, events = await coap.vehicle(port, number=2, keys=keys)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(AccessRefusedError, match=f"{ONE} is refused"):
                await coap.vehicle(port, keys=keys)
    assert intake.counters()[count] == 2
    assert [one.getMessage() for one in caplog.records] == [f"DTLS: 127.0.0.1 is refused: '{ONE}': {why}"]
    other.send(1, b"genuine")
    await events.until(lambda: events.acked)
    assert sink.taken == [(TWO, b"genuine")]


async def test_nobody_there_is_no_refusal(coap, keys):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError, match=r"no handshake within 0\.3 s") as raised:
            await coap.vehicle(silent.getsockname()[1], keys=keys, connect_timeout_s=0.3)
    assert not isinstance(raised.value, AccessRefusedError)


async def test_a_vehicle_speaks_for_itself_alone(coap, keys, monkeypatch):
    intake, sink = await coap.gateway(keys=keys)
    monkeypatch.setattr(vehicle, "coap_path", lambda own: coap_path(ONE))
    client, events = await coap.vehicle(intake.endpoint()[1], number=2, keys=keys)
    client.send(1, b"forged")
    await events.until(lambda: events.gone)
    assert (events.gone[0][1], sink.taken) == ("4.03 Forbidden", [])
    assert intake.counters()["impersonations"] == 1


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_a_gateway_that_starts_again_is_found_and_asked_anew(coap, keys, mode, monkeypatch, faster):
    monkeypatch.setattr(dtls_client, "SILENT_S", 0.1)
    faster(ack_timeout_s=0.1)
    first, _ = await coap.gateway(keys=keys)
    port = first.endpoint()[1]
    client, events = await coap.vehicle(port, mode=mode, keys=keys)
    client.send(1, b"before")
    await events.until(lambda: 1 in events.acked)
    await first.close()
    second, sink = await coap.gateway(port=port, keys=keys)
    token = 1
    while len(events.acked) < 2:  # a NON message that meets no session is lost, as by any link
        await events.until(lambda: client.ready() or len(events.acked) > 1)
        if client.ready():
            token += 1
            client.send(token, b"after")
    assert sink.taken[-1] == (ONE, b"after")
    assert second.counters()["dtls_handshakes"] == 1
    assert second.counters()["dtls_stray"] > 0


async def test_noise_and_forged_goodbyes_end_no_association(coap, keys):
    intake, sink = await coap.gateway(keys=keys)
    wire, stranger = coap.wire(intake), coap.wire(intake)
    client, events = await coap.vehicle(wire.port, keys=keys)
    dice = random.Random(1)
    for _ in range(2_000):
        noise = dice.randbytes(dice.randrange(80))
        wire.to_gateway(noise)
        wire.to_gateway(bytes((dice.randrange(20, 24),)) + b"\xfe\xfd" + noise)
        wire.to_vehicle(bytes((dice.randrange(20, 24),)) + b"\xfe\xfd" + noise)
        await asyncio.sleep(0)  # both ends read, or their buffers are full
    for size in (1_500, 16_028, 16_029, 16_400, 40_000, 65_507):
        for kind in range(20, 24):
            long = (
                b"%c\xfe\xfd" % kind
                + bytes(8)
                + min(size - 13, 16_384).to_bytes(2, "big")
                + b"\x01"
                + bytes(size)
            )[:size]
            wire.to_gateway(long)
            stranger.to_gateway(long)
            wire.to_vehicle(long)
            await asyncio.sleep(0)
    wire.to_gateway(alert(0))
    client.send(1, b"still there")
    await events.until(lambda: events.acked)
    assert sink.taken == [(ONE, b"still there")]
    assert intake.counters()["dtls_handshakes"] == 1
    assert intake.counters()["datagrams_dropped"] == 0, "all of them were read"


async def test_who_says_goodbye_behind_a_message_is_forgotten(coap, keys):
    intake, sink = await coap.gateway(keys=keys)
    wire = coap.wire(intake)
    client, _ = await coap.vehicle(wire.port, keys=keys)
    wire.up.clear()
    wire.lets_up = lambda datagram: False
    client.send(1, b"last words")
    await client.close()
    await wire.until(lambda: len(wire.up) == 2)
    message, goodbye = wire.up
    stray = intake.counters()["dtls_stray"]
    wire.to_gateway(message + goodbye)
    wire.to_gateway(message)  # by now it is of no association
    async with asyncio.timeout(10):
        while intake.counters()["dtls_stray"] == stray:
            await asyncio.sleep(0.005)
    assert sink.taken == [], "nobody is left to be answered"
    assert intake.counters()["dtls_handshakes"] == 1


async def test_a_hello_without_its_cookie_leaves_nothing(keys):
    server = DtlsServer(shared_keys(keys.file))
    sent = []
    server.transmit = lambda datagram, remote: sent.append(datagram)
    client = DtlsClient(ONE, bytes(16))
    hellos = []
    client.transmit = lambda datagram, remote: hellos.append(datagram)
    task = asyncio.ensure_future(client.connect(Remote(("10.0.0.1", 1)), 5.0))
    await asyncio.sleep(0)
    remotes = [Remote(("10.0.0.1", 1 + number)) for number in range(100)]
    for remote in remotes:
        server.incoming(hellos[0], remote)
    assert len(sent) == 100
    assert sum(map(len, sent)) <= 100 * len(hellos[0]), "no more goes out than came in"
    # Where a handshake is remembered, what comes next is of it; of nobody known it is astray.
    for remote in remotes:
        server.incoming(alert(1), remote)
    assert server.counts["dtls_stray"] == 100
    task.cancel()
    client.close()
    server.close()
