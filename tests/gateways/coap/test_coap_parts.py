"""CoAP's pure parts: the reader of datagrams, block assembly, remembered Message IDs, the round trip."""

from __future__ import annotations

import socket

import hypothesis.strategies as st
import pytest
from aiocoap import Message
from aiocoap.numbers.codes import POST
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.numbers.types import CON
from hypothesis import given

from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.coap import blocks
from gateways.protocols.coap.blocks import MAX_PAYLOAD_BYTES, Assemblies, BlockError
from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.message_ids import SeenMessageIds
from gateways.protocols.coap.message_layer import Upper
from gateways.protocols.coap.oscore import _read_options
from gateways.protocols.coap.parameters import PARAMETERS
from gateways.protocols.coap.protocol import Coap
from gateways.protocols.coap.transfer import RoundTrip, Transfer
from gateways.protocols.coap.udp import UdpEndpoint

EXCHANGE_LIFETIME_S = PARAMETERS.exchange_lifetime_s
HERE = Remote(("127.0.0.1", 5683))
ENDPOINT = ("198.18.0.1", 40_000)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@given(
    st.binary(max_size=8),
    st.integers(0, 65_535),
    st.lists(st.text(max_size=300), max_size=4),
    st.none() | st.tuples(st.integers(0, 2**20 - 1), st.booleans(), st.integers(0, 6)),
    st.binary(max_size=1100),
)
def test_what_aiocoap_writes_is_read_the_same(token, mid, path, block, payload):
    message = Message(code=POST, payload=payload, _mtype=CON, _mid=mid, _token=token)
    message.opt.uri_path = path
    message.opt.content_format = 42
    message.opt.uri_host = "gateway"
    if block is not None:
        message.opt.block1 = block
    read = decoded(message.encode(), HERE)
    assert (read.mid, read.token, read.payload, read.code) == (mid, token, payload, POST)
    assert read.opt.uri_path == tuple(path)
    assert (None if read.opt.block1 is None else tuple(read.opt.block1)) == block
    assert read.bad_option is None


@given(st.binary(max_size=64))
def test_no_bytes_make_the_reader_fail(datagram):
    decoded(datagram, HERE)


@pytest.mark.parametrize(
    ("options", "bad"),
    [
        ({}, None),
        ({"uri_query": ["q"]}, OptionNumber.URI_QUERY),
        ({"if_match": [b"x"]}, OptionNumber.IF_MATCH),
        ({"if_match": [b"x"], "uri_query": ["q"]}, OptionNumber.IF_MATCH),
        ({"if_match": [b"x"], "proxy_uri": "coap://x"}, OptionNumber.PROXY_URI),
        ({"uri_query": ["q"], "proxy_uri": "coap://x"}, OptionNumber.PROXY_URI),
        ({"if_match": [b"x"], "uri_query": ["q"], "proxy_uri": "coap://x"}, OptionNumber.PROXY_URI),
    ],
)
def test_a_query_hides_no_other_critical_option(options, bad):
    """Discovery takes a query, and nothing else."""
    message = Message(code=POST, _mtype=CON, _mid=1, _token=b"t")
    for name, value in options.items():
        setattr(message.opt, name, value)
    assert decoded(message.encode(), HERE).bad_option == bad
    _read_options(message)
    assert message.bad_option == bad, "and within OSCORE"


def test_strange_options_leave_nothing_behind():
    """aiocoap's enumerations keep every member they meet: hostile numbers must not reach them."""
    before = len(OptionNumber._value2member_map_)
    for number in range(3000, 4000):
        datagram = b"\x40\x02\x00\x01" + b"\xe0" + (number - 269).to_bytes(2, "big")
        read = decoded(datagram, HERE)
        assert read.bad_option == (number if number % 2 else None)
    assert len(OptionNumber._value2member_map_) == before


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x40\x02\x00",
        b"\x80\x02\x00\x01",  # version 2
        b"\x49\x02\x00\x01" + bytes(9),  # token length 9
        b"\x44\x02\x00\x01ab",  # token cut short
        b"\x40\xe0\x00\x01",  # a reserved class
        b"\x40\x00\x00\x01\x00",  # an Empty message with something in it
        b"\x40\x02\x00\x01\xff",  # a payload marker without payload
        b"\x40\x02\x00\x01\xf0",  # reserved delta
        b"\x40\x02\x00\x01\xb5ab",  # option cut short
        b"\x40\x02\x00\x01\xb2\xff\xfe",  # a path that is no UTF-8
    ],
)
def test_malformed_datagrams_are_no_message(datagram):
    assert decoded(datagram, HERE) is None


@given(st.binary(min_size=1025, max_size=9000), st.integers(0, 6))
def test_blocks_make_the_payload_again(payload, exponent):
    assemblies = Assemblies()
    transfer = Transfer(1, payload, size_exponent=exponent)
    whole = None
    while transfer.offset < len(payload):
        part = payload[transfer.offset : transfer.offset + transfer.block_bytes]
        number, more, size = transfer.block()
        whole = assemblies.add((ENDPOINT, ("p",), ()), number, more, size, part)
        assert (whole is None) == more
        transfer.offset += transfer.block_bytes
    assert whole == payload
    assert len(assemblies) == 0


def test_a_first_block_starts_anew():
    assemblies = Assemblies()
    key = (ENDPOINT, ("p",), ())
    assert assemblies.add(key, 0, True, 0, b"old" * 5 + b"!") is None
    assert assemblies.add(key, 0, True, 0, b"new" * 5 + b"!") is None
    assert assemblies.add(key, 1, False, 0, b".") == b"new" * 5 + b"!."


@pytest.mark.parametrize(
    ("number", "more", "exponent", "size", "code"),
    [
        (1, False, 6, 3, "4.08"),
        (0, True, 6, 3, "4.00"),
        (0, False, 0, 17, "4.00"),
        (0, True, 7, 1024, "4.00"),
    ],
)
def test_blocks_that_do_not_fit_say_why(number, more, exponent, size, code):
    with pytest.raises(BlockError, match=code):
        Assemblies().add((ENDPOINT, ("p",), ()), number, more, exponent, bytes(size))


def test_assemblies_are_bounded_in_size_and_age(monkeypatch):
    """What is given up is not counted any more: the last two would have no room together beside it."""
    monkeypatch.setattr(blocks, "MAX_HELD_BYTES", MAX_PAYLOAD_BYTES)
    clock = Clock()
    assemblies = Assemblies(clock)
    for number in range(MAX_PAYLOAD_BYTES // 1024):
        assemblies.add((ENDPOINT, ("p",), ()), number, True, 6, bytes(1024))
    with pytest.raises(BlockError, match=r"4\.13"):
        assemblies.add((ENDPOINT, ("p",), ()), 64, True, 6, bytes(1024))
    assert len(assemblies) == 0
    for number in range(MAX_PAYLOAD_BYTES // 1024):
        assemblies.add((ENDPOINT, (f"old {number}",), ()), 0, True, 6, bytes(1024))
        assert len(assemblies) == 1
        clock.now_s += EXCHANGE_LIFETIME_S + 1
    assemblies.add((ENDPOINT, ("new",), ()), 0, True, 6, bytes(1024))
    assert len(assemblies) == 1
    assemblies.add((ENDPOINT, ("newer",), ()), 0, True, 6, bytes(1024))
    assert len(assemblies) == 2


def test_message_ids_are_remembered_for_an_exchange_lifetime_and_no_slice_longer():
    clock = Clock()
    recent = SeenMessageIds(EXCHANGE_LIFETIME_S, slices=8, clock=clock)
    recent.keep(ENDPOINT, 1, b"")
    recent.answer(ENDPOINT, 1, b"answer")
    later = 2
    while clock.now_s < EXCHANGE_LIFETIME_S:
        assert recent.find(ENDPOINT, 1) == b"answer"
        clock.now_s += 10
        recent.keep(ENDPOINT, later, b"")
        later += 1
    clock.now_s = 0.0
    while recent.find(ENDPOINT, 1) is not None:
        clock.now_s += 10
        recent.keep(ENDPOINT, later, b"")
        later += 1
        assert clock.now_s < 3 * EXCHANGE_LIFETIME_S


@pytest.mark.parametrize("count", [9, 10, 11, 1_000])
def test_assemblies_are_bounded_in_number(monkeypatch, count):
    monkeypatch.setattr(blocks, "MAX_ASSEMBLIES", 10)
    assemblies = Assemblies(Clock())
    keys = [(ENDPOINT, (f"{number}",), ()) for number in range(count)]
    for key in keys:
        assert assemblies.add(key, 0, True, 0, bytes(16)) is None
        assert len(assemblies) <= 10
    for key in keys[-10:]:
        assert assemblies.add(key, 1, False, 0, b"end") == bytes(16) + b"end"
    for key in keys[:-10]:
        with pytest.raises(BlockError, match=r"4\.08"):
            assemblies.add(key, 1, False, 0, b"end")


@pytest.mark.parametrize("count", [999, 1_000, 1_001, 100_000])
def test_message_ids_are_bounded_in_number(count):
    """Of messages that come one after another within the lifetime, the oldest slice is forgotten."""
    clock = Clock()
    recent = SeenMessageIds(EXCHANGE_LIFETIME_S, slices=8, limit=1_000, clock=clock)
    for number in range(count):
        recent.keep(number, 1, b"")
        assert len(recent) <= 1_000
        clock.now_s += EXCHANGE_LIFETIME_S / 1_200
    forgotten = [number for number in range(count) if recent.find(number, 1) is None]
    assert forgotten == list(range(len(forgotten)))
    assert (len(forgotten) == 0) == (count <= 1_000)
    assert count - len(forgotten) >= min(count, 750)


def test_a_flood_forgets_the_oldest_message_ids_first():
    recent = SeenMessageIds(EXCHANGE_LIFETIME_S, slices=4, limit=1000, clock=Clock())
    for mid in range(10_000):
        recent.keep(ENDPOINT, mid, b"")
        assert recent.find(ENDPOINT, mid) == b""
        assert len(recent) <= 1001
    assert recent.find(ENDPOINT, 0) is None


def test_the_round_trip_estimate_follows_the_link():
    estimate = RoundTrip()
    assert estimate.timeout_s() == RoundTrip.first_s
    for _ in range(50):
        estimate.sample(0.07)
    assert estimate.timeout_s() == RoundTrip.least_s
    for _ in range(50):
        estimate.sample(0.9)
    assert 0.9 < estimate.timeout_s() < RoundTrip.most_s
    estimate.sample(60.0)
    assert estimate.timeout_s() == RoundTrip.most_s


class Sending:
    """A vehicle's events: how often the system did not take a datagram."""

    def __init__(self):
        self.unsent = 0

    def connected(self, at_ns, session_present): ...

    def datagram_unsent(self):
        self.unsent += 1


async def test_a_vehicle_says_which_datagrams_its_system_did_not_take():
    protocol, events = Coap(), Sending()
    nowhere = Endpoint("255.255.255.255", 9)  # a broadcast, which a socket may not send unless it asks to
    settings = VehicleSettings(coap_block_bytes=16)
    client = protocol.vehicle_client(nowhere, 1, protocol.modes["non"], events, settings)
    await client.connect()
    client.send(1, b"one datagram")
    await client.close()
    assert events.unsent == 1


async def test_datagrams_that_find_the_socket_full_are_counted():
    endpoint = UdpEndpoint(Upper(), server=True)
    bound = endpoint.open("127.0.0.1", 0)
    assert endpoint.dropped() == 0
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while not endpoint.dropped():  # nobody reads: the loop does not get to it
            for _ in range(1_000):
                sender.sendto(bytes(1_000), bound)
            sent += 1_000
            assert sent < 100_000
    dropped = endpoint.dropped()
    assert 0 < dropped < sent
    endpoint.close()
    assert endpoint.dropped() == dropped
