"""However a stream is cut, repeated or reordered, its application bytes go to the same messages."""

from __future__ import annotations

import itertools

import frame_factory as make
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.capture.attribution import Attributor
from simulator.capture.byte_totals import CELL_SIZE, SHARES, STRIDE
from simulator.capture.counting import COUNTS, Counter
from simulator.capture.fields import read_fields

SYN, ACK, FIN, PSH = 2, 16, 1, 8
ISN_UP, ISN_DOWN = 2**32 - 300, 77  # the uplink's numbers wrap in the middle of every example


def handshake(number, port=40000):
    return [
        make.tcp_frame(number, True, ISN_UP, 0, SYN, port=port),
        make.tcp_frame(number, False, ISN_DOWN, ISN_UP + 1, SYN | ACK, port=port),
        make.tcp_frame(number, True, ISN_UP + 1, ISN_DOWN + 1, ACK, port=port),
    ]


def run(frames, start_at_ns=0):
    attributor = Attributor(start_at_ns=start_at_ns)
    for k in range(0, len(frames), 7):  # batches whose bounds mean nothing
        chunk = frames[k : k + 7]
        attributor.add(make.batch(chunk, [10**9 + (k + j) * 10**6 for j in range(len(chunk))]))
    notes = attributor.finish()
    return attributor.totals, notes


def byte_totals(totals):
    return {key: sum(cell[:CELL_SIZE]) for key, cell in totals.cells.items()}


def share(totals, index, name, direction=0):
    return totals.messages.shares[index * STRIDE + direction * len(SHARES) + SHARES.index(name)]


payload_lists = st.lists(st.binary(max_size=400), min_size=1, max_size=8)


def mqtt_stream(payloads):
    return make.mqtt_connect() + b"".join(
        make.mqtt_publish(payload, identifier=k + 1) for k, payload in enumerate(payloads)
    )


def amqp_stream(payloads):
    return b"AMQP\x00\x00\x09\x01" + b"".join(make.amqp_publish(p, frame_max=150) for p in payloads)


@st.composite
def delivery(draw, size):
    """Segments (start, end) that cover 0..size in any cut, order and repetition, the first one first."""
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=12)) if size > 1 else [])
    edges = [0, *cuts, size]
    whole = list(itertools.pairwise(edges))
    again = draw(
        st.lists(
            st.tuples(st.integers(0, size - 1), st.integers(1, 300)).map(
                lambda t: (t[0], min(t[0] + t[1], size))
            ),
            max_size=6,
        )
    )
    # One byte just below the newest is what a keep-alive looks like: no cut of a real stream makes that.
    again = [(a, b) for a, b in again if b - a > 1]
    order = draw(st.permutations(whole[1:] + again))
    return [whole[0], *order]


@given(st.data(), payload_lists, st.sampled_from([mqtt_stream, amqp_stream]))
def test_any_delivery_gives_the_same_application_bytes(data, payloads, stream):
    content = stream(payloads)
    segments = data.draw(delivery(len(content)))
    frames = handshake(9)
    frames += [
        make.tcp_frame(9, True, ISN_UP + 1 + a, ISN_DOWN + 1, ACK | PSH, content[a:b]) for a, b in segments
    ]
    totals, _ = run(frames)
    straight, _ = run([*handshake(9), make.tcp_frame(9, True, ISN_UP + 1, ISN_DOWN + 1, ACK | PSH, content)])
    assert len(totals.messages) == len(payloads)
    single_bytes = any(b - a == 1 for a, b in segments)
    for index, payload in enumerate(payloads):
        for name in ("payload_bytes", "protocol_bytes"):
            # A cut of one byte may pass for a keep-alive when it is sent below the newest byte.
            if not single_bytes:
                assert share(totals, index, name) == share(straight, index, name)
        assert totals.messages.complete[index]
        assert share(straight, index, "payload_bytes") == len(payload)
    assert byte_totals(totals)[1, 9, 0] == sum(
        len(frame) for frame in frames if int.from_bytes(frame[26:30], "big") == make.vehicle(9)
    )


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.booleans(),
            st.integers(0, 60),
            st.integers(0, 60),
            st.sampled_from([SYN, SYN | ACK, ACK, ACK | PSH, FIN | ACK, 4, 0]),
            st.one_of(
                st.binary(max_size=40), st.just(make.mqtt_connect()), st.just(make.mqtt_publish(b"xy", 3))
            ),
        ),
        max_size=40,
    ),
    st.sampled_from([0, 2**32 - 30]),
)
def test_every_byte_is_booked_once_whatever_the_frames(rows, base):
    frames = [
        make.tcp_frame(number, up, base + seq, base + ack, flags, payload)
        for number, up, seq, ack, flags, payload in rows
    ]
    totals, _ = run(frames)
    counter = Counter(0)
    counter.add(make.batch(frames))
    counted = {}
    for record in counter.take():
        key = (1, int(record["vehicle"]), int(record["direction"]))
        counted[key] = counted.get(key, 0) + int(record["counts"][COUNTS.index("link_bytes")])
    assert {key: amount for key, amount in byte_totals(totals).items() if amount} == counted


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([mqtt_stream, amqp_stream]), payload_lists), max_size=4
    )
)
def test_a_vehicle_of_a_sample_has_the_bytes_that_it_has_of_all(conversations):
    frames = []
    for port, (number, stream, payloads) in enumerate(conversations, 40_000):
        frames += handshake(number, port)
        content = stream(payloads)
        frames.append(make.tcp_frame(number, True, ISN_UP + 1, ISN_DOWN + 1, ACK | PSH, content, port=port))
        frames.append(make.tcp_frame(number, False, ISN_DOWN + 1, ISN_UP + 1 + len(content), ACK, port=port))
        frames += [make.udp_frame(number, False, payload) for payload in payloads]
    all_of_them, _ = run(frames)
    batch = make.batch(frames)
    attributor = Attributor(start_at_ns=0)
    attributor.add(batch.chosen(read_fields(batch).of(np.array([2, 4]))))
    attributor.finish()
    sampled = attributor.totals
    assert sampled.cells == {key: cell for key, cell in all_of_them.cells.items() if key[1] in {2, 4}}
    chosen = [
        index for index, number in enumerate(all_of_them.messages.vehicle.numbers()) if number in {2, 4}
    ]
    assert [share(sampled, index, "payload_bytes") for index in range(len(sampled.messages))] == [
        share(all_of_them, index, "payload_bytes") for index in chosen
    ]


def test_a_frame_of_no_vehicle_is_in_no_sample():
    aside = make.ethernet(make.ipv4(make.CLOUD, make.CLOUD, 17, make.udp((1, 2), b"x")))
    batch = make.batch([aside, make.udp_frame(3, True, b"x")])
    assert read_fields(batch).of(np.array([0, 3])).tolist() == [False, True]


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), max_size=20))
def test_any_datagram_is_booked_once(rows):
    frames = [make.udp_frame(4, up, data) for up, data in rows]
    totals, _ = run(frames)
    assert sum(byte_totals(totals).values()) == sum(map(len, frames))
