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

from gateways.protocols.coap import dtls, dtls_client, dtls_server
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.dtls_client import DtlsClient
from gateways.protocols.ends import AccessRefusedError, ConnectError
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


def lossy(endpoint, ratio, seed):
    """Lose datagrams that leave an endpoint, handshakes too."""
    dice, send = random.Random(seed), endpoint._socket.sendto
    guard = endpoint._dtls

    def transmit(datagram, remote):
        if dice.random() >= ratio:
            send(datagram, remote)

    guard.transmit = transmit


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
    seen = []
    vehicle, events = await coap.vehicle(intake.endpoint()[1], keys=keys)
    send = vehicle._dtls.transmit

    def spied(datagram, remote):
        seen.append(datagram)
        send(datagram, remote)

    vehicle._dtls.transmit = spied
    vehicle.send(1, b"nobody reads this")
    await events.until(lambda: events.acked)
    await vehicle.close()
    assert b"nobody" not in seen[0]
    assert ONE.encode() not in seen[0]


@pytest.mark.parametrize("seed", range(5))
async def test_handshakes_and_messages_survive_loss(coap, keys, seed, monkeypatch, faster):
    """Flights and CON messages are sent again, and each message is taken once."""
    monkeypatch.setattr(dtls, "FIRST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(dtls_client, "TICK_S", 0.01)
    monkeypatch.setattr(dtls_server, "TICK_S", 0.01)
    faster(ack_timeout_s=0.05)
    intake, sink = await coap.gateway(keys=keys)
    lossy(intake._udp, 0.1, seed)
    opened = DtlsClient.connect

    async def through_loss(client, remote, timeout_s):
        dice, send = random.Random(seed + 100), client.transmit
        client.transmit = lambda datagram, to: send(datagram, to) if dice.random() >= 0.1 else None
        await opened(client, remote, timeout_s)

    monkeypatch.setattr(DtlsClient, "connect", through_loss)
    client, events = await coap.vehicle(intake.endpoint()[1], keys=keys)
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


async def test_a_vehicle_speaks_for_itself_alone(coap, keys):
    intake, sink = await coap.gateway(keys=keys)
    client, events = await coap.vehicle(intake.endpoint()[1], number=2, keys=keys)
    client._path = coap_path(ONE)
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
    client, events = await coap.vehicle(intake.endpoint()[1], keys=keys)
    remote = next(iter(intake._dtls._peers))
    dice = random.Random(1)
    for _ in range(2_000):
        noise = dice.randbytes(dice.randrange(80))
        intake._dtls.incoming(noise, remote)
        intake._dtls.incoming(bytes((dice.randrange(20, 24),)) + b"\xfe\xfd" + noise, remote)
        client._dtls.incoming(bytes((dice.randrange(20, 24),)) + b"\xfe\xfd" + noise, client._remote)
    for size in (1_500, 16_028, 16_029, 16_400, 40_000, 65_507):
        for kind in range(20, 24):
            long = (
                b"%c\xfe\xfd" % kind
                + bytes(8)
                + min(size - 13, 16_384).to_bytes(2, "big")
                + b"\x01"
                + bytes(size)
            )[:size]
            intake._dtls.incoming(long, remote)
            intake._dtls.incoming(long, Remote(("10.0.0.1", size)))
            client._dtls.incoming(long, client._remote)
    goodbye = b"\x15\xfe\xfd" + bytes(8) + b"\x00\x02\x02\x00"
    intake._dtls.incoming(goodbye, remote)
    client.send(1, b"still there")
    await events.until(lambda: events.acked)
    assert sink.taken == [(ONE, b"still there")]
    assert intake.counters()["dtls_handshakes"] == 1


async def test_who_says_goodbye_behind_a_message_is_forgotten(coap, keys):
    intake, _ = await coap.gateway(keys=keys)
    client, _ = await coap.vehicle(intake.endpoint()[1], keys=keys)
    (remote,) = intake._dtls._peers
    sent = []
    client._dtls.transmit = lambda datagram, to: sent.append(datagram)
    client.send(1, b"last words")
    client._dtls.close()
    assert intake._dtls.incoming(b"".join(sent), remote) == []
    assert intake._dtls._peers == {}
    intake._dtls.outgoing(b"an answer", remote)
    assert intake.counters()["dtls_handshakes"] == 1


async def test_a_hello_without_its_cookie_leaves_nothing(coap, keys):
    intake, _ = await coap.gateway(keys=keys)
    server = intake._dtls
    sent = []
    server.transmit = lambda datagram, remote: sent.append(datagram)
    client = DtlsClient(ONE, bytes(16))
    hellos = []
    client.transmit = lambda datagram, remote: hellos.append(datagram)
    task = asyncio.ensure_future(client.connect(Remote(("10.0.0.1", 1)), 5.0))
    await asyncio.sleep(0)
    for number in range(100):
        server.incoming(hellos[0], Remote(("10.0.0.1", 1 + number)))
    assert (len(sent), server._pending, server._peers) == (100, {}, {})
    assert sum(map(len, sent)) <= 100 * len(hellos[0]), "no more goes out than came in"
    task.cancel()
    client.close()
