"""CoAP at both ends, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from pathlib import Path

import pytest
from aiocoap import Message
from aiocoap.numbers.codes import GET, POST
from aiocoap.numbers.types import ACK, CON, NON
from aiocoap.util.linkformat import parse

from gateways.protocols.base import Endpoint, IntakeSettings, Tls, VehicleSettings
from gateways.protocols.coap import intake as intake_module
from gateways.protocols.coap import transfer, udp, vehicle
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, decoded, family_of
from gateways.protocols.coap.parameters import PARAMETERS
from gateways.protocols.coap.protocol import Coap
from gateways.protocols.ends import ConnectError
from schemas.errors import Refusal
from schemas.topics import vehicle_address, vehicle_id, vehicle_of_address

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

    def __init__(self, port, host="127.0.0.1"):
        self._socket = socket.socket(family_of(host), socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect((host, port))

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
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port)
    client.send(1, b"held")
    await wire.until(lambda: wire.down)
    assert events.acked == []
    intake.acknowledge(sink.receipts.pop())
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), b"held")]
    # The empty ACK comes meanwhile; the answer then comes by itself, as a CON (RFC 7252, 5.2.2).
    empty, answer = (decoded(one, Remote(("127.0.0.1", 1))) for one in wire.down[:2])
    assert (empty.mtype, empty.code.dotted, answer.mtype, answer.code.dotted) == (ACK, "0.00", CON, "2.04")


async def test_no_more_is_held_than_receive_max_and_the_rest_comes_back_after_max_age(coap, monkeypatch):
    monkeypatch.setattr(vehicle.random, "uniform", lambda a, b: 0.01)
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
    later = [told for _, events in fleet for told in events.later]
    assert later
    assert set(later) == {(0, "5.03 Service Unavailable")}


async def test_a_non_message_that_the_gateway_turns_away_is_refused_and_not_just_unanswered(coap):
    intake, sink = await coap.gateway()
    intake.pause()
    client, events = await coap.vehicle(intake.endpoint()[1], mode="non")
    client.send(1, b"x")
    await events.until(lambda: bool(events.gone))
    assert events.gone == [(1, "5.03 Service Unavailable")]
    assert (events.silent, sink.taken) == ([], [])


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
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port)
    wire.lets_up = lambda datagram: len(wire.up) > 1
    client.send(1, b"late but here")
    await events.until(lambda: events.acked == [1])
    assert len(wire.up) >= 2
    assert len(set(wire.up)) == 1, "the same datagram, Message ID and all"
    assert sink.taken == [(vehicle_id(1), b"late but here")]


async def test_a_lost_answer_makes_a_counted_duplicate_and_no_second_message(coap, quick):
    intake, sink = await coap.gateway()
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port)
    wire.lets_down = lambda datagram: len(wire.down) > 1
    client.send(1, b"payload")
    await events.until(lambda: events.acked == [1])
    assert len(sink.taken) == 1
    assert intake.counters()["coap_same_message_id"] >= 1


async def test_a_con_that_nobody_acknowledges_is_refused_after_four_retransmissions(coap, quick):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client, events = await coap.vehicle(silent.getsockname()[1])
        client.send(5, b"into the void")
        await events.until(lambda: bool(events.silent))
        assert events.silent == [(5, "CON time-out: 4 retransmissions")]
        assert events.gone == [], "nobody has refused it"
        silent.setblocking(False)
        heard = [silent.recv(100) for _ in range(5)]
        assert len(silent.recv(100)) == 4, "a probe"
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
    monkeypatch.setattr(transfer.RoundTrip, "first_s", 0.02)
    intake, sink = await coap.gateway()
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, mode="non")
    wire.lets_down = lambda datagram: False
    payloads = [os.urandom(3000) for _ in range(3)]
    for token, payload in enumerate(payloads):
        await events.until(client.ready)
        client.send(token, payload)
    await events.until(client.ready)
    assert client.in_flight() == 3
    await wire.until(lambda: len(wire.down) == 3)
    wire.lets_down = lambda datagram: True
    for datagram in reversed(wire.down.copy()):
        wire.to_vehicle(datagram)
    await events.until(lambda: sorted(events.acked) == [0, 1, 2])
    assert sorted(payload for _, payload in sink.taken) == sorted(payloads)
    assert (events.gone, client.in_flight()) == ([], 0)


async def test_a_non_without_answer_is_given_up_and_holds_nothing_back(coap, monkeypatch):
    monkeypatch.setattr(transfer.RoundTrip, "first_s", 0.02)
    monkeypatch.setattr(vehicle, "LINGER_S", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client, events = await coap.vehicle(silent.getsockname()[1], mode="non")
        for token in range(4):
            client.send(token, b"x")
            await events.until(client.ready)
        await events.until(lambda: [token for token, _ in events.silent] == list(range(4)))
        assert client.in_flight() == 0


def test_probes_of_four_bytes_come_each_four_seconds():
    assert transfer.Responsiveness(PARAMETERS).probe_interval_s == 4.0


async def test_a_peer_that_does_not_respond_is_probed_at_one_byte_a_second(coap, monkeypatch, faster):
    """RFC 7252, 4.7: after as many requests as a CON has transmissions; a byte a second is eighty here."""
    monkeypatch.setattr(transfer.RoundTrip, "first_s", 0.02)
    faster(probing_rate_bytes_per_s=80.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.setblocking(False)
        client, events = await coap.vehicle(silent.getsockname()[1], mode="non")
        loop = asyncio.get_running_loop()
        heard = []
        for token in range(5):
            assert client.ready()
            client.send(token, bytes(500))
            heard.append(await loop.sock_recvfrom(silent, 2000))
            if token < 4:
                await events.until(client.ready)
        probes = []
        async with asyncio.timeout(10):
            while len(probes) < 3:
                probes.append(await loop.sock_recvfrom(silent, 2000))
        assert not client.ready(), "messages wait while the peer is silent"
        assert {len(datagram) for datagram, _ in probes} == {4}
        assert {datagram[:2] for datagram, _ in probes} == {b"\x40\x00"}, "Empty CON, answered by a Reset"
        assert len({datagram[2:] for datagram, _ in probes}) == 3
        # Any answer ends it.
        silent.sendto(b"\x70\x00" + probes[-1][0][2:], probes[-1][1])
        await events.until(client.ready)
        assert events.gone == []


async def test_a_con_that_was_given_up_is_followed_by_probes_too(coap, faster):
    faster(probing_rate_bytes_per_s=200.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client, events = await coap.vehicle(silent.getsockname()[1])
        client.send(1, b"x")
        await events.until(lambda: bool(events.silent))
        assert not client.ready()
        port = silent.getsockname()[1]
    _, sink = await coap.gateway(port=port)
    await events.until(client.ready)
    client.send(2, b"back")
    await events.until(lambda: events.acked == [2])
    assert sink.taken == [(vehicle_id(1), b"back")]


async def test_after_an_empty_acknowledgement_the_vehicle_asks_again_under_the_same_message_id(
    coap, monkeypatch
):
    """Kafka is slow: the gateway takes one message once, however often it is asked, and answers in the end."""
    monkeypatch.setattr(vehicle, "SEPARATE_RESPONSE_S", 0.03)
    intake, sink = await coap.gateway()
    sink.hold = True
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port)
    client.send(1, b"held")
    async with asyncio.timeout(20):
        while intake.counters()["coap_same_message_id"] < 3:
            await asyncio.sleep(0.005)
    assert len(set(wire.up)) == 1, "the same datagram, Message ID and all"
    assert len(sink.taken) == 1
    intake.acknowledge(sink.receipts.pop())
    await events.until(lambda: events.acked == [1])
    assert (events.gone, len(sink.taken)) == ([], 1)


async def test_a_gateway_started_anew_takes_what_its_predecessor_had_only_acknowledged(coap, monkeypatch):
    monkeypatch.setattr(vehicle, "SEPARATE_RESPONSE_S", 0.2)
    first, lost = await coap.gateway()
    lost.hold = True
    wire = coap.wire(first)
    client, events = await coap.vehicle(wire.port)
    client.send(1, b"twice")
    await wire.until(lambda: wire.down)
    await first.close()
    _, sink = await coap.gateway(port=first.endpoint()[1])
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), b"twice")]


async def test_a_response_that_never_comes_is_given_up_after_an_exchange_lifetime(coap, monkeypatch, faster):
    monkeypatch.setattr(vehicle, "SEPARATE_RESPONSE_S", 0.05)
    parameters = faster(max_latency_s=0.2)
    intake, sink = await coap.gateway()
    sink.hold = True
    client, events = await coap.vehicle(intake.endpoint()[1])
    client.send(1, b"never")
    await events.until(lambda: bool(events.silent))
    assert events.silent == [(1, f"acknowledged, but no response in {parameters.exchange_lifetime_s:g} s")]
    assert len(sink.taken) == 1


@pytest.mark.parametrize("mode", ["con", "non"])
@pytest.mark.parametrize(
    ("block_bytes", "size", "datagrams"),
    [(16, 10, 1), (16, 100, 7), (512, 1157, 3), (1024, 1157, 2), (None, 1157, 1), (None, 60_000, 1)],
)
async def test_block_bytes_decide_how_many_datagrams_a_message_takes(
    coap, mode, block_bytes, size, datagrams
):
    intake, sink = await coap.gateway()
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, mode=mode, coap_block_bytes=block_bytes)
    payload = os.urandom(size)
    client.send(1, payload)
    await events.until(lambda: events.acked == [1])
    assert sink.taken == [(vehicle_id(1), payload)]
    assert len(wire.up) == datagrams


async def test_without_blocks_a_message_beyond_the_paths_mtu_goes_in_blocks_of_1024(coap, monkeypatch):
    monkeypatch.setattr(vehicle, "path_mtu_bytes", lambda host, remote: 1500)
    intake, sink = await coap.gateway()
    wire = coap.wire(intake)
    client, events = await coap.vehicle(wire.port, coap_block_bytes=None)
    sizes, counts = (1400, 1430, 1431, 3000), []
    for token, size in enumerate(sizes):
        client.send(token, bytes(size))
        await events.until(lambda t=token: t in events.acked)
        counts.append(len(wire.up))
        assert max(map(len, wire.up)) + 28 <= 1500
        wire.up.clear()
    assert counts == [1, 1, 2, 3], "four bytes of header, two of token, 35 of path, one marker: 1,430 fit"
    assert [len(payload) for _, payload in sink.taken] == list(sizes)


def test_the_paths_mtu_is_the_systems():
    loopback = int(Path("/sys/class/net/lo/mtu").read_text())
    assert udp.path_mtu_bytes("127.0.0.1", Remote(("127.0.0.1", 5683))) == min(loopback, 65_535)
    with pytest.raises(ConnectError, match=r"192\.0\.2\.1"):
        udp.path_mtu_bytes("127.0.0.1", Remote(("192.0.2.1", 5683)))


async def test_blocks_lost_by_a_gateway_that_was_replaced_are_sent_again(coap, quick):
    first, _ = await coap.gateway()
    port = first.endpoint()[1]
    client, events = await coap.vehicle(port)
    payload = os.urandom(5000)
    client.send(1, payload)
    while not first.counters()["blocks"]:
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
        (post(1, b"x", proxy_uri="coap://elsewhere"), "5.05"),
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


@pytest.mark.parametrize(
    ("payload_format", "content_format", "code"),
    [
        ("protobuf", None, "2.04"), ("protobuf", 42, "2.04"), ("protobuf", 50, "2.04"), ("json", 50, "2.04"),
        ("json", 42, "2.04"), ("json", 60, "4.15"), ("protobuf", 0, "4.15"), ("small", 0, "2.04"),
        ("json", 65_001, "2.04"), ("json", 65_010, "4.15"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("blockwise", [False, True])
async def test_a_content_format_that_is_no_formats_is_refused_once_the_dead_letters_have_it(
    coap, payload_format, content_format, code, blockwise
):
    """RFC 7252, 5.10.3 and 5.9.2.10: octets are of the gateway's format, and so is what does not say."""
    intake, sink = await coap.gateway(format=payload_format)
    client = RawClient(intake.endpoint()[1])
    options = {} if content_format is None else {"content_format": content_format}
    if blockwise:
        options["block1"] = (0, False, 6)
    client.send(post(1, **options))
    assert (await client.answer()).code.dotted == code
    assert len(sink.taken) == 1
    said = {50: "application/json", 0: "text/plain", 65_001: "application/x-protobuf"}.get(content_format, "")
    unknown = f"CoAP Content-Format {content_format}"
    assert sink.content_types == [said if code == "2.04" else unknown]
    client.close()


async def test_a_payload_that_is_no_message_is_answered_4_00_once_the_dead_letters_have_it(raw):
    client, intake, sink = raw
    sink.invalid = {b"garbage"}
    sink.hold = True
    client.send(post(1, b"garbage", kind=NON))
    async with asyncio.timeout(10):
        while not sink.receipts:
            await asyncio.sleep(0.005)
    intake.acknowledge(sink.receipts.pop())
    assert (await client.answer()).code.dotted == "4.00"
    assert intake.counters()["rejected"] == 1


@pytest.fixture
def fleet_of_loopback(monkeypatch):
    """Vehicle 1 has 127.0.0.1, vehicle 2 has 127.0.0.2; other addresses are nobody's."""
    owners = {"127.0.0.1": vehicle_id(1), "127.0.0.2": vehicle_id(2)}
    monkeypatch.setattr(intake_module, "vehicle_of_address", owners.get)


@pytest.mark.parametrize("blockwise", [False, True])
async def test_a_vehicle_speaks_for_itself_alone(raw, fleet_of_loopback, blockwise):
    client, intake, sink = raw
    block = {"block1": (0, False, 6)} if blockwise else {}
    for message_id, (path, code) in enumerate(
        [
            (coap_path(vehicle_id(1)), "2.04"),
            (coap_path(vehicle_id(2)), "4.03"),
            (coap_path("somebody"), "4.03"),
            (("vehicles", "a b", "status"), "4.04"),
        ]
    ):
        client.send(post(message_id, path=path, **block))
        assert (await client.answer()).code.dotted == code
    assert sink.taken == [(vehicle_id(1), b"x")]
    assert intake.counters()["impersonations"] == 2


async def test_an_address_outside_the_fleet_may_speak_for_any_vehicle(raw):
    client, _, sink = raw
    client.send(post(1, path=coap_path("foreign-client")))
    assert (await client.answer()).code.dotted == "2.04"
    assert sink.taken == [("foreign-client", b"x")]


def test_the_addresses_of_vehicles():
    assert [vehicle_of_address(vehicle_address(n)) for n in (1, 256, 65_000)] == [
        vehicle_id(n) for n in (1, 256, 65_000)
    ]
    mapped = [vehicle_of_address(f"::ffff:{vehicle_address(n)}") for n in (1, 65_000)]
    assert mapped == [vehicle_id(1), vehicle_id(65_000)]
    for address in (
        "::1",
        "fe80::1%eth0",
        "::ffff:127.0.0.1",
        "::c612:1",
        "198.18.0.0",
        "198.19.0.1",
        "127.0.0.1",
        "198.18.255.255",
        "0.0.0.0",
    ):
        assert vehicle_of_address(address) is None


CORE = (".well-known", "core")


async def test_the_server_lists_what_it_offers(raw, fleet_of_loopback, monkeypatch):
    client, _, _ = raw
    client.send(post(1, b"", code=GET, path=CORE))
    answer = await client.answer()
    assert (answer.code.dotted, answer.content_format) == ("2.05", 40)
    links = parse(answer.payload.decode()).links
    assert [(link.href, link.ct) for link in links] == [
        ("/.well-known/core", ["40"]),
        (f"/vehicles/{vehicle_id(1)}/status", ["42 50 65001 65002 65003 65004"]),
    ]
    assert links[1].rt == ["ivsim.current-status"]
    monkeypatch.setattr(intake_module, "vehicle_of_address", lambda host: None)
    client.send(post(2, b"", code=GET, path=CORE, accept=50))
    assert (await client.answer()).code.dotted == "4.06"
    client.send(post(3, b"", code=GET, path=CORE, uri_query=["rt=x"]))
    assert (await client.answer()).payload == b"</.well-known/core>;ct=40", "nobody has been named yet"


@pytest.mark.parametrize("option", [{"proxy_uri": "coap://elsewhere/x"}, {"proxy_scheme": "http"}])
@pytest.mark.parametrize("kind", [CON, NON])
async def test_it_is_no_proxy(raw, option, kind):
    """RFC 7252, 5.10.2."""
    client, _, sink = raw
    client.send(post(1, kind=kind, **option))
    assert (await client.answer()).code.dotted == "5.05"
    client.send(post(2, b"", code=GET, path=CORE, kind=kind, **option))
    assert (await client.answer()).code.dotted == "5.05"
    assert sink.taken == []


async def test_an_unknown_critical_option_is_refused_in_a_con_and_rejected_in_a_non(raw):
    """RFC 7252, 5.4.1 and 4.3."""
    client, intake, sink = raw
    unknown = (
        b"\xe1" + (65_001 - 11 - 269).to_bytes(2, "big") + b"x"
    )  # behind the options of a vehicle's path

    def with_unknown(mid, kind):
        plain = post(mid, b"", kind=kind)
        return plain + unknown + b"\xffx"

    client.send(with_unknown(1, CON))
    assert (await client.answer()).code.dotted == "4.02"
    client.send(with_unknown(2, NON))
    client.send(post(3, b"good"))
    answer = await client.answer()
    assert (answer.mid, answer.code.dotted) == (3, "2.04")
    assert [payload for _, payload in sink.taken] == [b"good"]
    assert intake.counters()["rejected"] == 2


async def test_discovery_takes_a_query_and_no_other_critical_option(raw):
    client, intake, _ = raw
    client.send(post(1, b"", code=GET, path=CORE, uri_query=["rt=x"]))
    assert (await client.answer()).code.dotted == "2.05"
    for mid, more in ((2, {}), (3, {"uri_query": ["rt=x"]})):
        client.send(post(mid, b"", code=GET, path=CORE, if_match=[b"x"], **more))
        assert (await client.answer()).code.dotted == "4.02"
    assert intake.counters()["rejected"] == 2


async def test_discovery_lists_what_was_taken_once_and_nothing_that_was_refused(
    coap, fleet_of_loopback, monkeypatch
):
    intake, sink = await coap.gateway()
    sink.invalid = (b"garbage",)
    client = RawClient(intake.endpoint()[1])
    client.send(post(1, path=coap_path(vehicle_id(2))))  # it is vehicle 1
    assert (await client.answer()).code.dotted == "4.03"
    client.send(post(2, path=("vehicles/astray", "status")))
    assert (await client.answer()).code.dotted == "4.04"
    for mid in (3, 4):
        client.send(post(mid))
        assert (await client.answer()).code.dotted == "2.04"
    monkeypatch.setattr(intake_module, "vehicle_of_address", lambda host: None)
    intake._owners.clear()
    client.send(post(5, b"garbage", path=coap_path(vehicle_id(5))))
    assert (await client.answer()).code.dotted == "4.00"
    client.send(post(6, path=coap_path(vehicle_id(6)), content_format=41))
    assert (await client.answer()).code.dotted == "4.15"
    intake.pause()
    client.send(post(7, path=coap_path(vehicle_id(7))))
    assert (await client.answer()).code.dotted == "5.03"
    client.send(post(8, b"", code=GET, path=CORE))
    hrefs = [link.href for link in parse((await client.answer()).payload.decode()).links]
    assert hrefs == ["/.well-known/core", f"/vehicles/{vehicle_id(1)}/status"]
    client.close()


async def test_a_vehicle_is_shown_its_own_resource_of_whatever_scheme(coap, fleet_of_loopback):
    intake, _ = await coap.gateway(address="fleet/*/{id}/state")
    client = RawClient(intake.endpoint()[1])
    path = ("fleet", "north", vehicle_id(1), "state")
    hrefs = []
    for mid in (1, 3):
        client.send(post(mid, b"", code=GET, path=CORE))
        hrefs.append([link.href for link in parse((await client.answer()).payload.decode()).links])
        client.send(post(mid + 1, path=path))
        assert (await client.answer()).code.dotted == "2.04"
    assert hrefs == [["/.well-known/core"], ["/.well-known/core", "/" + "/".join(path)]]
    client.close()


async def test_a_long_list_comes_in_blocks(coap):
    intake, _ = await coap.gateway(format="json")
    client = RawClient(intake.endpoint()[1])
    for number in range(1, 61):
        client.send(post(number, path=coap_path(vehicle_id(number))))
        await client.answer()
    text, number, tags = b"", 0, set()
    while True:
        client.send(post(1000 + number, b"", code=GET, path=CORE, block2=(number, False, 4)))
        answer = await client.answer()
        text += answer.payload
        tags.add(answer.opt.etag)
        number += 1
        if not answer.opt.block2.more:
            break
    hrefs = [link.href for link in parse(text.decode()).links]
    assert hrefs[1:] == ["/" + "/".join(coap_path(vehicle_id(n))) for n in range(1, 61)]
    assert b';ct="42 50 65001 65002 65003 65004"' in text
    assert len(tags) == 1
    client.send(post(2000, b"", code=GET, path=CORE, block2=(number, False, 4)))
    assert (await client.answer()).code.dotted == "4.00"
    client.close()


async def test_a_path_that_names_no_vehicle_goes_to_the_dead_letters(raw):
    client, _, sink = raw
    client.send(post(1, b"astray", path=("vehicles", "a b", "status")))
    assert (await client.answer()).code.dotted == "4.04"
    assert sink.strays[0][:2] == ("vehicles/a b/status", b"astray")


@pytest.mark.parametrize("client_host", ["::1", "127.0.0.1"])
async def test_an_ipv6_gateway_takes_ipv6_and_ipv4(coap, client_host):
    intake, sink = await coap.gateway(host="::")
    client = RawClient(intake.endpoint()[1], client_host)
    for number, paths in ((1, None), (2, ("vehicles", "b", "status"))):
        client.send(post(number, b"x", path=paths))
        assert (await client.answer()).code.dotted == "2.04"
    client.send(post(3, b"", code=GET, path=CORE))
    assert (await client.answer()).code.dotted == "2.05"
    assert [vehicle for vehicle, _ in sink.taken] == [vehicle_id(1), "b"]
    client.close()


async def test_paths_may_be_of_a_scheme_of_somebody_elses(coap):
    intake, sink = await coap.gateway(address="fleet/*/{id}/state")
    client = RawClient(intake.endpoint()[1])
    answers = {}
    for number, path in enumerate(
        [
            ("fleet", "north", "truck-7", "state"),
            ("vehicles", "truck-7", "status"),
            ("fleet", "north/truck-7", "state"),
        ]
    ):
        client.send(post(number, b"x", path=path))
        answers[path] = (await client.answer()).code.dotted
    assert list(answers.values()) == ["2.04", "4.04", "4.04"]
    assert sink.taken == [("truck-7", b"x")]
    client.close()


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
    stranger = RawClient(intake.endpoint()[1])
    for number in range(100_000):
        stranger.send(_mutated(rng, good))
        if number % 100 == 0:
            await asyncio.sleep(0)
        if number % 1000 == 0:
            client.send(number, number.to_bytes(4, "big"))
            await events.until(lambda n=number: n in events.acked)
    expected = [number.to_bytes(4, "big") for number in range(0, 100_000, 1000)]
    assert set(expected) <= {payload for _, payload in sink.taken}
    assert events.gone == []
    assert intake.counters()["malformed"] > 10_000
    assert intake.counters()["datagrams_dropped"] == 0, "all of them were read"
    stranger.close()


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
