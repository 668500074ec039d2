"""CoAP at both ends, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import os
import random
import socket

import pytest
from aiocoap import Message
from aiocoap.numbers.codes import GET, POST
from aiocoap.numbers.types import ACK, CON, NON

from gateways.protocols import coap_transfer, coap_vehicle
from gateways.protocols.base import ConnectError, Endpoint, IntakeSettings, Tls, VehicleSettings
from gateways.protocols.coap import Coap
from gateways.protocols.coap_wire import Remote, decoded
from schemas.errors import Refusal
from schemas.topics import coap_path, vehicle_id

pytestmark = pytest.mark.filterwarnings("error")
SIZES = (0, 1, 10, 1024, 1025, 1157, 2048, 12_187)


def post(mid, payload=b"x", *, kind=CON, path=None, code=POST, **options):
    message = Message(code=code, payload=payload, _mtype=kind, _mid=mid, _token=mid.to_bytes(2, "big"))
    message.opt.uri_path = coap_path(vehicle_id(1)) if path is None else path
    for name, value in options.items():
        setattr(message.opt, name, value)
    return message.encode()


class RawClient:
    """A peer that may send anything."""

    def __init__(self, port):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect(("127.0.0.1", port))

    def send(self, datagram):
        self._socket.send(datagram)

    async def answer(self):
        async with asyncio.timeout(10):
            datagram = await asyncio.get_running_loop().sock_recv(self._socket, 65_535)
        return decoded(datagram, Remote(("127.0.0.1", 1)))

    def close(self):
        self._socket.close()


@pytest.fixture
async def raw(coap):
    intake, sink = await coap.gateway()
    client = RawClient(intake.endpoint()[1])
    yield client, intake, sink
    client.close()


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_payloads_of_every_size_arrive_unchanged(coap, mode):
    intake, sink = await coap.gateway()
    client, events = await coap.vehicle(intake.endpoint()[1], mode=mode, number=7)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        assert client.ready()
        client.send(token, payload)
        assert not client.ready(), "NSTART = 1"
        assert client.in_flight() == 1
        await events.until(lambda t=token: t in events.acked)
    assert sink.taken == [(vehicle_id(7), payload) for payload in payloads]
    assert events.gone == []
    assert client.in_flight() == 0


async def test_the_answer_waits_for_the_bridge(coap):
    intake, sink = await coap.gateway()
    sink.hold = True
    client, events = await coap.vehicle(intake.endpoint()[1])
    client.send(1, b"held")
    async with asyncio.timeout(10):
        while not intake.counters()["message_ids_remembered"]:
            await asyncio.sleep(0.005)
        # Long enough for the empty ACK (aiocoap: 0.1 s); the answer then comes by itself, as a CON.
        while not client._timer:
            await asyncio.sleep(0.005)
    assert events.acked == []
    intake.acknowledge(sink.receipts.pop())
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), b"held")]


async def test_no_more_is_held_than_receive_max_and_the_rest_comes_back_after_max_age(coap, monkeypatch):
    monkeypatch.setattr(coap_vehicle.random, "uniform", lambda a, b: 0.01)
    intake, sink = await coap.gateway(receive_max=2)
    sink.hold = True
    fleet = [await coap.vehicle(intake.endpoint()[1], number=k) for k in (1, 2, 3)]
    for client, _ in fleet:
        client.send(0, b"payload")
    async with asyncio.timeout(10):
        while intake.counters()["unavailable"] < 3:
            await asyncio.sleep(0.005)
    assert len(sink.taken) == 2
    sink.hold = False
    for receipt in sink.receipts:
        intake.acknowledge(receipt)
    for _, events in fleet:
        await events.until(lambda e=events: e.acked == [0])
    assert len(sink.taken) == 3
    assert all(events.gone == [] for _, events in fleet)


async def test_a_paused_gateway_says_5_03_with_max_age(raw):
    client, intake, sink = raw
    intake.pause()
    client.send(post(1))
    answer = await client.answer()
    assert (answer.code.dotted, answer.opt.max_age, sink.taken) == ("5.03", 1, [])
    client.send(post(2, bytes(1024), block1=(0, True, 6)))
    assert (await client.answer()).code.dotted == "5.03"
    intake.resume()
    client.send(post(3))
    assert (await client.answer()).code.dotted == "2.04"


@pytest.mark.parametrize("kind", [CON, NON])
async def test_the_same_message_id_is_taken_once_and_counted(raw, kind):
    client, intake, sink = raw
    for _ in range(3):
        client.send(post(77, b"once", kind=kind))
    answers = [await client.answer() for _ in range(3 if kind is CON else 1)]
    assert sink.taken == [(vehicle_id(1), b"once")]
    assert {a.code.dotted for a in answers} == {"2.04"}
    assert all(a.mtype is (ACK if kind is CON else NON) for a in answers)
    client.send(post(78, b"end", kind=CON))
    await client.answer()
    assert intake.counters()["coap_same_message_id"] == 2


async def test_a_lost_datagram_is_repaired_under_the_same_message_id(coap, quick):
    intake, sink = await coap.gateway()
    client, events = await coap.vehicle(intake.endpoint()[1])
    lost = []
    transmit = client._layer._transmit
    client._layer._transmit = lambda datagram, remote: lost.append(datagram)
    client.send(1, b"late but here")
    assert len(lost) == 1
    client._layer._transmit = transmit
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), b"late but here")]


async def test_a_lost_answer_makes_a_counted_duplicate_and_no_second_message(coap, quick):
    intake, sink = await coap.gateway()
    client, events = await coap.vehicle(intake.endpoint()[1])
    transmit, dropped = intake._layer._transmit, []

    def lossy(datagram, remote):
        if dropped:
            transmit(datagram, remote)
        dropped.append(datagram)

    intake._layer._transmit = lossy
    client.send(1, b"payload")
    await events.until(lambda: events.acked == [1])
    assert len(sink.taken) == 1
    assert intake.counters()["coap_same_message_id"] >= 1


async def test_a_con_that_nobody_acknowledges_is_refused_after_four_retransmissions(coap, quick):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client, events = await coap.vehicle(silent.getsockname()[1])
        client.send(5, b"into the void")
        await events.until(lambda: events.gone)
        assert events.gone[0][0] == 5
        assert "CON time-out" in events.gone[0][1]
        assert client.ready()
        silent.setblocking(False)
        heard = []
        while len(heard) < 5:
            heard.append(silent.recv(100))
        with pytest.raises(BlockingIOError):
            silent.recv(100)
    assert len(set(heard)) == 1, "every transmission is the same datagram"


async def test_a_closed_port_does_not_end_a_con(coap, quick):
    """The gateway is being started again: an ICMP error must not lose what retransmission will deliver."""
    intake, _ = await coap.gateway()
    port = intake.endpoint()[1]
    client, events = await coap.vehicle(port)  # before the port is free, which its own socket might be given
    await intake.close()
    client.send(1, b"patience")
    _, sink = await coap.gateway(port=port)
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), b"patience")]


async def test_a_late_answer_to_a_non_still_counts_and_its_blocks_go_on_beside_the_next(coap, monkeypatch):
    monkeypatch.setattr(coap_transfer.RoundTrip, "first_s", 0.02)
    intake, sink = await coap.gateway()
    client, events = await coap.vehicle(intake.endpoint()[1], mode="non")
    transmit, delayed = intake._layer._transmit, []
    intake._layer._transmit = lambda datagram, remote: delayed.append((datagram, remote))
    payloads = [os.urandom(3000) for _ in range(3)]
    for token, payload in enumerate(payloads):
        await events.until(client.ready)
        client.send(token, payload)
    await events.until(client.ready)
    assert client.in_flight() == 3
    async with asyncio.timeout(10):
        while len(delayed) < 3:
            await asyncio.sleep(0.005)
    intake._layer._transmit = transmit
    for datagram, remote in reversed(delayed):
        transmit(datagram, remote)
    await events.until(lambda: sorted(events.acked) == [0, 1, 2])
    assert sorted(payload for _, payload in sink.taken) == sorted(payloads)
    assert (events.gone, client.in_flight()) == ([], 0)


async def test_a_non_without_answer_is_given_up_and_holds_nothing_back(coap, monkeypatch):
    monkeypatch.setattr(coap_transfer.RoundTrip, "first_s", 0.02)
    monkeypatch.setattr(coap_vehicle, "LINGER_S", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client, events = await coap.vehicle(silent.getsockname()[1], mode="non")
        for token in range(30):
            client.send(token, b"x")
            await events.until(client.ready)
        await events.until(lambda: [token for token, _ in events.gone] == list(range(30)))
        assert client.in_flight() == 0


async def test_blocks_lost_by_a_gateway_that_was_replaced_are_sent_again(coap, quick):
    first, _ = await coap.gateway()
    port = first.endpoint()[1]
    client, events = await coap.vehicle(port)
    payload = os.urandom(5000)
    client.send(1, payload)
    while not len(first._blocks):
        await asyncio.sleep(0)
    await first.close()
    _, sink = await coap.gateway(port=port)
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), payload)]


async def test_two_uploads_at_once_from_one_endpoint_do_not_mix(raw):
    client, _, sink = raw
    path = coap_path(vehicle_id(2))
    client.send(post(1, b"a" * 16, block1=(0, True, 0)))
    client.send(post(2, b"b" * 16, block1=(0, True, 0), path=path))
    client.send(post(3, b"A", block1=(1, False, 0)))
    client.send(post(4, b"B", block1=(1, False, 0), path=path))
    codes = [(await client.answer()).code.dotted for _ in range(4)]
    assert codes == ["2.31", "2.31", "2.04", "2.04"]
    assert sink.taken == [(vehicle_id(1), b"a" * 16 + b"A"), (vehicle_id(2), b"b" * 16 + b"B")]


@pytest.mark.parametrize(
    ("datagram", "code"),
    [
        (post(1, b"second", block1=(1, False, 6)), "4.08"),
        (post(1, b"short", block1=(0, True, 6)), "4.00"),
        (post(1, b"", code=GET), "4.05"),
        (post(1, b"x", if_none_match=True), "4.02"),
        (post(1, b"x", proxy_uri="coap://elsewhere"), "4.02"),
    ],
)
async def test_what_is_wrong_is_answered_and_not_taken(raw, datagram, code):
    client, intake, sink = raw
    client.send(datagram)
    assert (await client.answer()).code.dotted == code
    assert sink.taken == []
    assert intake.counters()["rejected"] == 1


async def test_a_payload_without_end_is_refused(raw):
    client, _, sink = raw
    for number in range(65):
        client.send(post(number, bytes(1024), block1=(number, True, 6)))
        answer = await client.answer()
    assert answer.code.dotted == "4.13"
    assert sink.taken == []


async def test_a_path_that_names_no_vehicle_goes_to_the_dead_letters(raw):
    client, _, sink = raw
    client.send(post(1, b"astray", path=("vehicles", "a b", "status")))
    assert (await client.answer()).code.dotted == "4.04"
    assert sink.strays[0][:2] == ("vehicles/a b/status", b"astray")


async def test_a_ping_is_answered_with_reset(raw):
    client, _, _ = raw
    client.send(b"\x40\x00\x12\x34")
    answer = await client.answer()
    assert (answer.mtype.name, answer.mid) == ("RST", 0x1234)


async def test_one_process_serves_a_thousand_vehicles_each_on_its_own_address(coap):
    intake, sink = await coap.gateway(receive_max=2000)
    fleet = [
        await coap.vehicle(
            intake.endpoint()[1], number=k, source_address=f"127.18.{k >> 8}.{k & 255}", mode="con"
        )
        for k in range(1, 1001)
    ]
    payloads = {vehicle_id(k): random.Random(k).randbytes(1157) for k in range(1, 1001)}
    for k, (client, _) in enumerate(fleet, 1):
        client.send(k, payloads[vehicle_id(k)])
        if k % 50 == 0:
            await asyncio.sleep(0)
    for k, (_, events) in enumerate(fleet, 1):
        await events.until(lambda e=events, k=k: e.acked == [k])
    assert dict(sink.taken) == payloads
    assert len(sink.taken) == 1000


async def test_processes_that_share_a_port_share_the_vehicles(coap):
    first, one = await coap.gateway(shared=True)
    _, other = await coap.gateway(shared=True, port=first.endpoint()[1])
    for number in range(1, 41):
        client, events = await coap.vehicle(first.endpoint()[1], number=number)
        client.send(number, bytes(1157))
        await events.until(lambda e=events: e.acked)
    assert len(one.taken) + len(other.taken) == 40
    assert one.taken
    assert other.taken


async def test_an_address_in_use_is_a_connect_error(coap):
    first, _ = await coap.gateway()
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1"):
        await coap.gateway(port=first.endpoint()[1])


def test_tls_and_passwords_are_refused():
    protocol = Coap()
    mode = protocol.modes["con"]
    for endpoint in (Endpoint("h", 1, tls=Tls("ca")), Endpoint("h", 1, username="u", password="p")):
        with pytest.raises(Refusal, match="--security tls"):
            protocol.intake(endpoint, mode, None, IntakeSettings())
        with pytest.raises(Refusal, match="--security tls"):
            protocol.vehicle_client(endpoint, 1, mode, None, VehicleSettings())


def test_the_words_of_the_command_line_choose_the_mode():
    protocol = Coap()
    assert protocol.mode({}).name == "con"
    assert protocol.mode({"con": False}).name == "non"
    with pytest.raises(Refusal, match="--qos does not belong to coap"):
        protocol.mode({"qos": 1})


async def test_the_fuzzer_neither_stops_the_gateway_nor_loses_a_good_message(coap):
    intake, sink = await coap.gateway()
    client, events = await coap.vehicle(intake.endpoint()[1])
    rng = random.Random(5)
    good = [post(9), post(10, bytes(1024), block1=(0, True, 6)), post(11, observe=0, code=GET)]
    garbage = Remote(("127.0.0.1", 9))
    for number in range(100_000):
        intake._layer.receive(_mutated(rng, good), garbage)
        if number % 1000 == 0:
            client.send(number, number.to_bytes(4, "big"))
            await events.until(lambda n=number: n in events.acked)
    expected = [number.to_bytes(4, "big") for number in range(0, 100_000, 1000)]
    assert set(expected) <= {payload for _, payload in sink.taken}
    assert events.gone == []
    assert intake.counters()["malformed"] > 10_000


def _mutated(rng, good):
    choice = rng.random()
    if choice < 0.3:
        return rng.randbytes(rng.randrange(60))
    datagram = bytearray(rng.choice(good))
    if choice < 0.5:
        return bytes(datagram[: rng.randrange(len(datagram))])
    for _ in range(rng.randrange(1, 4)):
        datagram[rng.randrange(min(len(datagram), 40))] = rng.randrange(256)
    return bytes(datagram)
