"""OSCORE at both ends over loopback: who a message is from, what blocks become, and what nobody may do."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from pathlib import Path

import pytest
from aiocoap import Message
from aiocoap.numbers.codes import BAD_OPTION, BAD_REQUEST, CHANGED, FORBIDDEN, POST, UNAUTHORIZED
from aiocoap.numbers.types import ACK, CON

from gateways.protocols.base import SharedKeys
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.oscore import ClientGuard, ServerGuard
from gateways.protocols.shared_keys import KEY_BYTES, shared_key, shared_keys
from ivsim.testbed.credentials import make_shared_keys
from schemas.errors import Refusal
from schemas.topics import vehicle_id

SIZES = (0, 1, 10, 1024, 1025, 1157, 3000, 12_187)
ONE, TWO, STRANGER = vehicle_id(1), vehicle_id(2), vehicle_id(9)
NUMBERS = {ONE: 1, TWO: 2, STRANGER: 9}


@pytest.fixture
def keys(tmp_path):
    return make_shared_keys(tmp_path / "keys", 3).keys


class ByHand:
    """A peer with a socket that may send anything."""

    def __init__(self, port):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect(("127.0.0.1", port))
        self.mid = 100

    def post(self, path=ONE, payload=b"x"):
        self.mid += 1
        message = Message(code=POST, payload=payload, _mtype=CON, _mid=self.mid, _token=b"%d" % self.mid)
        message.opt.uri_path = coap_path(path)
        message.remote = Remote(("127.0.0.1", 1))
        return message

    async def ask(self, message):
        """Send a message, protected or not, under the newest Message ID; return the answer as it came."""
        message.mtype, message.mid = CON, self.mid
        return await self.ask_bytes(message.encode())

    async def ask_bytes(self, datagram):
        self._socket.send(datagram)
        async with asyncio.timeout(10):
            answer = await asyncio.get_running_loop().sock_recv(self._socket, 65_535)
        return decoded(answer, Remote(("127.0.0.1", 1)))

    async def ask_protected(self, guard, message):
        """Return the answer, unprotected; the server's Echo is given where it asks for one."""
        answer = guard.unprotect(await self.ask(guard.protect(message)))
        if answer is not None and guard.challenged():
            self.mid += 1
            again = self.post(message.opt.uri_path[1], message.payload)
            answer = guard.unprotect(await self.ask(guard.protect(again)))
        return answer

    def close(self):
        self._socket.close()


@pytest.fixture
async def served(coap, keys):
    intake, sink = await coap.gateway(keys=keys)
    hand = ByHand(intake.endpoint()[1])
    yield hand, intake, sink
    hand.close()


def guard(keys, name=ONE, identity=None):
    """A client's end with the key of `name`, which says that it is `identity`."""
    return ClientGuard(NUMBERS[identity or name], shared_key(keys.file, name))


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_payloads_of_every_size_arrive_unchanged(coap, keys, mode):
    intake, sink = await coap.gateway(keys=keys)
    client, events = await coap.vehicle(intake.endpoint()[1], mode=mode, number=2, keys=keys)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        client.send(token, payload)
        await events.until(lambda t=token: t in events.acked)
    assert sink.taken == [(TWO, payload) for payload in payloads]
    assert events.gone == []
    counts = intake.counters()
    assert counts["oscore_echoed"] == 1, "the first request alone is asked for once more"
    assert counts["rejected"] == 0


@pytest.mark.parametrize("block_bytes", [16, 64, 1024, None])
async def test_blocks_are_inner_ones(coap, keys, block_bytes):
    intake, sink = await coap.gateway(keys=keys)
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, keys=keys, coap_block_bytes=block_bytes)
    payload = os.urandom(1500)
    client.send(1, payload)
    await events.until(lambda: events.acked)
    assert sink.taken == [(ONE, payload)]
    assert len(wire.up) == 1 + (1 if block_bytes is None else -(-1500 // block_bytes)), "and one for the Echo"
    for datagram in wire.up:
        message = decoded(datagram, Remote(("127.0.0.1", 1)))
        assert message.opt.oscore is not None
        assert message.opt.block1 is None
        assert message.opt.uri_path == ()
        assert payload[:16] not in datagram
        assert ONE.encode() not in datagram


async def test_uploads_of_several_vehicles_do_not_mix(coap, keys):
    intake, sink = await coap.gateway(keys=keys)
    ends = [
        await coap.vehicle(intake.endpoint()[1], number=n, keys=keys, coap_block_bytes=16) for n in (1, 2, 3)
    ]
    payloads = {vehicle_id(n): os.urandom(700) for n in (1, 2, 3)}
    for (client, _), payload in zip(ends, payloads.values(), strict=True):
        client.send(1, payload)
    for _, events in ends:
        await events.until(lambda e=events: e.acked)
    assert dict(sink.taken) == payloads
    assert len(sink.taken) == 3


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_a_gateway_that_starts_again_asks_anew_and_takes_no_recorded_request(coap, keys, mode):
    first, sink = await coap.gateway(keys=keys)
    port = first.endpoint()[1]
    wire = coap.wire(first)
    client, events = await coap.vehicle(wire.port, mode=mode, keys=keys, coap_block_bytes=64)
    client.send(1, os.urandom(300))
    await events.until(lambda: events.acked == [1])
    await first.close()
    second, later = await coap.gateway(port=port, keys=keys)
    hand = ByHand(port)
    before = len(wire.up)
    for datagram in wire.up.copy():
        answer = await hand.ask_bytes(bytes([datagram[0] & 0xCF]) + datagram[1:])
        assert answer.code != CHANGED or answer.opt.oscore is not None
    hand.close()
    assert later.taken == [], "what was recorded is no message"
    client.send(2, b"after")
    await events.until(lambda: 2 in events.acked)
    assert later.taken == [(ONE, b"after")]
    assert second.counters()["oscore_echoed"] == before + 1
    # And from now on by the numbers alone.
    hand = ByHand(port)
    await hand.ask_bytes(bytes([wire.up[-1][0] & 0xCF]) + wire.up[-1][1:])
    hand.close()
    assert second.counters()["oscore_replayed"] + second.counters()["oscore_echoed"] == before + 2
    assert len(later.taken) == 1
    assert sink.taken[0][0] == ONE


async def test_a_request_that_comes_twice_is_taken_once(served, keys):
    hand, intake, sink = served
    own = guard(keys)
    assert (await hand.ask_protected(own, hand.post())).code == CHANGED
    message = own.protect(hand.post(payload=b"once"))
    assert own.unprotect(await hand.ask(message)).code == CHANGED
    hand.mid += 1
    answer = await hand.ask(message)
    assert (answer.code, answer.opt.oscore) == (UNAUTHORIZED, None)
    assert intake.counters()["oscore_replayed"] == 1
    assert [payload for _, payload in sink.taken] == [b"x", b"once"]


async def test_whoever_is_no_vehicle_is_refused_by_name_and_counted(served, keys, tmp_path, caplog):
    hand, intake, sink = served
    caplog.set_level(logging.WARNING)
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({ONE: os.urandom(KEY_BYTES).hex()}))
    refusals = {
        "oscore_missing": hand.ask(hand.post()),
        "oscore_unknown": hand.ask(ClientGuard(9, bytes(KEY_BYTES)).protect(hand.post())),
    }
    for count, asked in refusals.items():
        answer = await asked
        assert (count, answer.code, answer.opt.oscore) == (count, UNAUTHORIZED, None)
        hand.mid += 1
    answer = await hand.ask(guard(SharedKeys(str(wrong))).protect(hand.post()))
    assert (answer.code, answer.opt.oscore) == (BAD_REQUEST, None)
    said = "\n".join(record.getMessage() for record in caplog.records)
    for words in ("an unprotected request", "Security context not found", f"{ONE}: Decryption failed"):
        assert f"127.0.0.1 is refused: {words}" in said or words in said
    assert sink.taken == []
    counts = intake.counters()
    assert [counts[f"oscore_{why}"] for why in ("missing", "unknown", "failed")] == [1, 1, 1]
    hand.mid += 1
    assert (await hand.ask_protected(guard(keys), hand.post())).code == CHANGED, "and nobody else notices"


async def test_a_vehicle_speaks_for_itself_alone(served, keys):
    hand, intake, sink = served
    answer = await hand.ask_protected(guard(keys, TWO), hand.post(ONE, b"forged"))
    assert answer.code == FORBIDDEN
    assert answer.proven
    hand.mid += 1
    # With its own key under another's name it is nobody.
    assert (await hand.ask(guard(keys, TWO, ONE).protect(hand.post(ONE, b"forged")))).code == BAD_REQUEST
    assert sink.taken == []
    assert intake.counters()["impersonations"] == 1


@pytest.mark.parametrize(
    "option", [b"", b"\x08", b"\x09\x01", b"\x19\x01\xff\x00\x01", b"\xff\x00\x01", b"\x0f"]
)
async def test_no_option_however_odd_stops_the_gateway(served, keys, option):
    hand, _intake, sink = served
    message = hand.post(payload=os.urandom(30))
    message.opt.uri_path = ()
    message.opt.oscore = option
    answer = await hand.ask(message)
    assert answer.code in (UNAUTHORIZED, BAD_REQUEST, BAD_OPTION)
    hand.mid += 1
    assert (await hand.ask_protected(guard(keys), hand.post())).code == CHANGED
    assert len(sink.taken) == 1


async def test_a_gateway_without_keys_has_no_use_for_the_option(coap, keys):
    intake, sink = await coap.gateway()
    hand = ByHand(intake.endpoint()[1])
    try:
        assert (await hand.ask(guard(keys).protect(hand.post()))).code == BAD_OPTION
    finally:
        hand.close()
    assert sink.taken == []


async def test_an_acknowledgement_in_the_open_is_none(coap, keys, quick, monkeypatch):
    """Somebody on the way answers 2.04 without the key: the vehicle asks again, and the gateway's word counts."""
    from gateways.protocols.coap import vehicle as module  # noqa: PLC0415

    monkeypatch.setattr(module, "SEPARATE_RESPONSE_S", 0.05)
    intake, sink = await coap.gateway(keys=keys)
    sink.hold = True
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, keys=keys)
    client.send(1, b"message")
    async with asyncio.timeout(10):
        while not sink.taken:
            await asyncio.sleep(0.01)
    request = decoded(wire.up[-1], Remote(("127.0.0.1", 1)))
    forged = Message(code=CHANGED, _mtype=ACK, _mid=request.mid, _token=request.token)
    wire.to_vehicle(forged.encode())
    asked = len(wire.up)
    await wire.until(lambda: len(wire.up) > asked + 1)
    assert events.acked == []
    intake.acknowledge(sink.receipts[0])
    await events.until(lambda: events.acked == [1])


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_an_unknown_critical_option_inside_is_no_acknowledgement(coap, keys, monkeypatch, mode):
    """RFC 7252, 5.4.1, and RFC 8613, 8.4."""
    real = ServerGuard.protect

    def protect(guard, request, response):
        if response.code == CHANGED:
            response.opt.if_match = [b"x"]
        return real(guard, request, response)

    monkeypatch.setattr(ServerGuard, "protect", protect)
    intake, sink = await coap.gateway(keys=keys)
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, mode=mode, keys=keys)
    client.send(1, b"hello")
    await wire.until(lambda: sink.taken and len(wire.down) >= 2)
    await asyncio.sleep(0.2)  # nothing may happen, and nothing says that it has not
    assert (events.acked, events.gone) == ([], [])


def test_an_unprotected_refusal_counts_as_one_and_an_acceptance_never(keys):
    own = guard(keys)
    request = Message(code=POST, _token=b"t")
    request.opt.uri_path, request.remote = coap_path(ONE), Remote(("127.0.0.1", 1))
    own.protect(request)
    refusal = decoded(Message(code=UNAUTHORIZED, _mtype=ACK, _mid=1, _token=b"t").encode(), request.remote)
    assert own.unprotect(refusal).proven is False
    accepted = decoded(Message(code=CHANGED, _mtype=ACK, _mid=1, _token=b"t").encode(), request.remote)
    assert own.unprotect(accepted) is None
    other = decoded(Message(code=UNAUTHORIZED, _mtype=ACK, _mid=1, _token=b"u").encode(), request.remote)
    assert own.unprotect(other) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "no JSON"),
        ("[]", "an object of vehicle ids"),
        (json.dumps({ONE: "abc"}), f"{ONE}: write 32 hexadecimal digits"),
        (json.dumps({ONE: 7}), f"{ONE}: write 32 hexadecimal digits"),
    ],
)
def test_keys_that_are_none_are_refused_with_file_and_vehicle(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(Refusal, match=named) as refused:
        shared_keys(str(file))
    assert str(file) in str(refused.value)


def test_a_vehicle_without_a_key_and_a_file_that_is_not_there(keys, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=f"no key for {STRANGER}"):
        shared_key(keys.file, STRANGER)
    with pytest.raises(Refusal, match="No such file"):
        shared_keys(str(tmp_path / "gone.json"))
