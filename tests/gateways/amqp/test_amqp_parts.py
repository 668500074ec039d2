"""AMQP's pure parts: the reader of deliveries, the window of acknowledgements, modes and words."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gateways.protocols.amqp import reader as reader_module
from gateways.protocols.amqp.intake import AckWindow
from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.amqp.reader import BEGINNING_BYTES, DeliveryReader, FrameError, Takers
from gateways.protocols.amqp.reader import MAX_BODY_BYTES as MOST
from schemas.errors import Refusal

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
QOS_OK = b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x0b\xce"


def frame(kind, payload):
    return struct.pack("!BHL", kind, 1, len(payload)) + payload + b"\xce"


def delivery(tag, key, payload, *, redelivered=False, frame_max=1000, said=b""):
    method = b"\x00\x3c\x00\x3c\x05ctag1" + struct.pack("!QB", tag, redelivered) + b"\x09amq.topic"
    out = frame(1, method + bytes((len(key),)) + key)
    properties = b"\x90\x00" + bytes((len(said),)) + said + b"\x02" if said else b"\x10\x00\x02"
    out += frame(2, b"\x00\x3c\x00\x00" + struct.pack("!Q", len(payload)) + properties)
    for start in range(0, len(payload), frame_max):
        out += frame(3, payload[start : start + frame_max])
    return out


others = st.sampled_from([b"", HEARTBEAT, QOS_OK])
content_types = st.sampled_from([b"", b"application/json", b"x" * 255])
messages = st.lists(
    st.tuples(st.binary(max_size=40), st.binary(max_size=3000), st.booleans(), content_types, others),
    max_size=6,
)


def noting(taken):
    """Whoever notes all deliveries, those over the limit with their length in place of a content type."""
    note = lambda *message: taken.append(message)  # noqa: E731
    return Takers(note, note)


@given(messages, st.lists(st.integers(1, 5000), max_size=20))
def test_deliveries_are_read_however_the_bytes_are_cut(expected, cuts):
    stream = b"".join(
        delivery(tag, key, payload, redelivered=again, said=said) + other
        for tag, (key, payload, again, said, other) in enumerate(expected, 1)
    )
    taken, rest = [], b""
    reader = DeliveryReader(noting(taken))
    at = 0
    for cut in [*cuts, len(stream)]:
        rest += reader.feed(stream[at : at + cut])
        at += cut
    assert taken == [(tag, again, key, p, said) for tag, (key, p, again, said, _) in enumerate(expected, 1)]
    assert rest == b"".join(other for *_, other in expected)


@given(st.binary(max_size=300))
def test_noise_is_read_or_refused_and_nothing_else(data):
    reader = DeliveryReader(noting([]))
    with contextlib.suppress(FrameError, IndexError):  # the stream ends the connection for both
        reader.feed(delivery(1, b"k", b"payload")[:40] + data)


def test_a_hundred_thousand_mutated_frames_never_pass_for_a_good_one_that_was_not_sent():
    rng = random.Random(5)
    good = delivery(7, b"vehicles.x.status", b"payload" * 20)
    refused = 0
    for number in range(100_000):
        taken = []
        reader = DeliveryReader(noting(taken))
        noise = bytearray(good)
        noise[rng.randrange(len(noise))] = rng.randrange(256)
        payload = number.to_bytes(4, "big")
        try:
            reader.feed(delivery(1, b"k", payload) + noise)
        except (FrameError, IndexError):
            refused += 1
        assert taken[0] == (1, False, b"k", payload, b""), "what came before the noise is kept"
    assert refused > 5_000


def test_a_frame_without_its_end_octet_is_refused():
    with pytest.raises(FrameError, match="end octet"):
        DeliveryReader(noting([])).feed(HEARTBEAT[:-1] + b"\x00")


def test_a_body_longer_than_announced_is_refused():
    stream = delivery(1, b"k", b"four")
    with pytest.raises(FrameError, match="longer"):
        DeliveryReader(noting([])).feed(stream[: -len(frame(3, b"four"))] + frame(3, b"fourteen"))


@pytest.mark.parametrize(
    ("size", "said"),
    [(MOST - 1, None), (MOST, None), (MOST + 1, MOST + 1), (100 * MOST, 100 * MOST)],
)
def test_of_a_body_over_the_limit_its_beginning_is_kept_and_what_follows_is_whole(size, said):
    taken = []
    reader = DeliveryReader(noting(taken))
    head = delivery(1, b"k", b"", said=b"application/json")
    reader.feed(head.replace(bytes(8) + b"\x90", size.to_bytes(8, "big") + b"\x90"))
    whole, rest = divmod(size - 9, 131_064)
    full = frame(3, bytes(131_064))
    tracemalloc.start()
    try:
        reader.feed(frame(3, b"beginning"))
        for _ in range(whole):
            reader.feed(full)
        assert taken == []
        reader.feed(frame(3, bytes(rest)) + delivery(2, b"k", b"next"))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    long, good = taken
    kept = size if said is None else BEGINNING_BYTES
    assert (long[:3], long[4]) == ((1, False, b"k"), said or b"application/json")
    assert long[3] == b"beginning" + bytes(kept - 9)
    assert good == (2, False, b"k", b"next", b"")
    assert peak_bytes < 2 * kept + 1_000_000


def test_a_body_is_no_longer_than_announced_where_it_is_over_the_limit(monkeypatch):
    monkeypatch.setattr(reader_module, "MAX_BODY_BYTES", 3)
    stream = delivery(1, b"k", b"four")
    with pytest.raises(FrameError, match="longer"):
        DeliveryReader(noting([])).feed(stream[: -len(frame(3, b"four"))] + frame(3, b"fourteen"))


@given(st.permutations(range(1, 30)), st.sets(st.integers(0, 28)))
def test_one_acknowledgement_never_covers_what_is_not_settled(order, flushes):
    window, settled, acknowledged = AckWindow(), set(), 0
    for step, tag in enumerate(order):
        window.settle(tag)
        settled.add(tag)
        if step in flushes:
            newest = window.take()
            if newest is not None:
                assert newest > acknowledged
                assert set(range(1, newest + 1)) <= settled
                acknowledged = newest
    newest = window.take()
    assert (acknowledged if newest is None else newest) == 29, "all that was settled is acknowledged"


def test_every_combination_of_words_is_a_mode():
    protocol = Amqp()
    assert protocol.mode({}).name == protocol.default_mode == "manual-confirms-persistent"
    assert protocol.mode({"ack": "auto", "confirms": False, "persistent": False}).name == "auto"
    assert protocol.mode({"confirms": False}).name == "manual-persistent"
    assert len(protocol.modes) == 8
    safe = [mode.name for mode in protocol.modes.values() if mode.guarantee != "at_most_once"]
    assert safe == [protocol.default_mode]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"qos": 1}, "--qos does not belong to amqp"),
        ({"ack": "late"}, "--ack late: allowed with amqp auto, manual"),
    ],
)
def test_foreign_words_are_refused(words, reason):
    with pytest.raises(Refusal, match=reason):
        Amqp().mode(words)
