"""Kafka's requests and responses between a gateway at the edge and Kafka, as the capture books them."""

from __future__ import annotations

import struct

import frame_factory as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.topics import FIRST_GATEWAY
from simulator.capture import kafka
from simulator.capture.attribution import Attributor
from simulator.capture.byte_totals import CELL_SIZE, LAYERS, PURPOSES
from simulator.capture.fields import DOWNLINK, UPLINK

SYN, ACK, PSH = 2, 16, 8


def request(kind, number, body=b"", version=3):
    return struct.pack(">ihhi", 8 + len(body), kind, version, number) + body


def response(number, body=b""):
    return struct.pack(">ii", 4 + len(body), number) + body


FIRST = request(kafka.API_VERSIONS, 1, b"\x00\x07rdkafka")


def scanner():
    return kafka.KafkaScanner(None)


def attributed(*turns):
    """Return bytes by purpose and direction of one connection in which both sides said so."""
    sent, frames = {True: 1, False: 1}, []

    def frame(up, sequence, flags, payload=b"", reached=None):
        reached = sent[not up] if reached is None else reached
        frames.append(make.tcp_frame(FIRST_GATEWAY, up, sequence, reached, flags, payload, port=40_000))

    frame(True, 0, SYN, reached=0)
    frame(False, 0, SYN | ACK)
    frame(True, 1, ACK)
    for up, payload in turns:
        frame(up, sent[up], ACK | PSH, payload)
        sent[up] += len(payload)
    attributor = Attributor(start_at_ns=0)
    attributor.add(make.batch(frames))
    notes = attributor.finish()
    found = {}
    for (_phase, number, direction), cell in attributor.totals.cells.items():
        assert number == FIRST_GATEWAY
        for index, amount in enumerate(cell[:CELL_SIZE]):
            key = PURPOSES[index // len(LAYERS)], LAYERS[index % len(LAYERS)], direction
            found[key] = found.get(key, 0) + amount
    assert sum(found.values()) == sum(map(len, frames))
    return found, notes, attributor.totals


def test_records_their_answers_and_the_rest_are_told_apart():
    produced, answered = request(kafka.PRODUCE, 7, b"r" * 900), response(7, b"ok")
    found, notes, totals = attributed(
        (True, FIRST), (False, response(1, b"versions")), (True, request(3, 2)), (False, response(2, b"m")),
        (True, produced), (False, answered),
    )  # fmt: skip
    assert found["message", "protocol", UPLINK] == len(produced)
    assert found["acknowledgement", "protocol", DOWNLINK] == len(answered)
    assert found["connection", "protocol", UPLINK] == len(FIRST) + 12
    assert found["connection", "protocol", DOWNLINK] == len(response(1, b"versions")) + len(response(2, b"m"))
    assert notes["unreadable_connections"] == 1, "no message of a vehicle is told apart"
    assert len(totals.messages) == 0


def test_a_request_over_several_segments_is_one():
    whole = request(kafka.PRODUCE, 9, b"r" * 4_000)
    found, _, _ = attributed(
        (True, FIRST), (True, whole[:1_400]), (True, whole[1_400:2_800]), (True, whole[2_800:])
    )
    assert found["message", "protocol", UPLINK] == len(whole)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (FIRST, True),
        (FIRST[:3], None),
        (b"\x00", None),
        (request(kafka.PRODUCE, 1), False),
        (b"\x10\x20", False),
        (b"\x00" * 12, False),
        (struct.pack(">ihhi", 1 << 20, kafka.API_VERSIONS, 3, 1), False),
        (request(kafka.API_VERSIONS, 1, version=-1), False),
    ],
)
def test_a_client_that_asks_for_the_versions_first_speaks_kafka(head, said):
    assert kafka.begins(head) is said


@given(
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 2**31 - 1), st.binary(max_size=30)), max_size=8),
    st.data(),
)
def test_units_cover_the_stream_however_it_is_cut(requests, data):
    stream = b"".join(request(*one) for one in requests)
    one, at, units, held = scanner(), 0, [], bytearray()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        held += stream[begin:end]
        found, taken = one.scan(UPLINK, held, at, 0)
        units += found
        at += taken
        del held[:taken]
    assert at == len(stream)
    assert [(unit.start, unit.end) for unit in units] == [
        (sum(12 + len(b) for _, _, b in requests[:n]), sum(12 + len(b) for _, _, b in requests[: n + 1]))
        for n in range(len(requests))
    ]
    wanted = ["message" if kind == kafka.PRODUCE else "connection" for kind, _, _ in requests]
    assert [PURPOSES[unit.purpose] for unit in units] == wanted


@given(st.binary(max_size=200), st.sampled_from([UPLINK, DOWNLINK]))
def test_any_bytes_are_units_or_refused(data, direction):
    try:
        units, taken = scanner().scan(direction, bytearray(data), 0, 0)
    except ValueError:
        return
    assert 0 <= taken <= len(data)
    assert (units[-1].end if units else 0) == taken
