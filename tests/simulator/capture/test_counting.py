"""The vectorised counter against one frame at a time, and what it writes."""

from __future__ import annotations

import io
import itertools
import struct

import frame_factory as make
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.capture import pcap
from simulator.capture.counting import COUNTS, Counter, merge
from simulator.capture.packet_ring import frames_of_block, walk
from simulator.capture.second_log import SecondLog, read_log, to_table

SYN, ACK, FIN, RST, PSH = 2, 16, 1, 4, 8


def counts(records, name):
    return {
        (int(r["second"]), int(r["vehicle"]), int(r["direction"])): int(r["counts"][COUNTS.index(name)])
        for r in records
        if r["counts"][COUNTS.index(name)]
    }


def count(frames, at_ns=None, start_at_ns=0, cuts=()):
    counter = Counter(start_at_ns)
    edges = [0, *sorted(cuts), len(frames)]
    stamps = at_ns or [10**9] * len(frames)
    for a, b in itertools.pairwise(edges):
        counter.add(make.batch(frames[a:b], stamps[a:b]))
    return counter.take()


def slow(rows, base):
    """The rule of RFC 9293's numbers, a segment at a time: sent again, bytes again, keep-alive."""
    highest, initial, result = {}, {}, {}
    for number, up, offset, flags, payload in rows:
        key, sequence = (number, up), base + offset
        if flags & SYN and initial.get(key) != sequence:
            initial[key] = highest[key] = sequence
        high = highest.setdefault(key, sequence)
        span = len(payload) + bool(flags & SYN) + bool(flags & FIN)
        keep = not flags & (SYN | FIN | RST) and len(payload) <= 1 and sequence == high - 1
        again = span > 0 and sequence < high and not keep
        sums = result.setdefault((1, number, 0 if up else 1), [0, 0, 0])
        sums[0] += again
        sums[1] += min(len(payload), high - sequence) if again else 0
        sums[2] += keep
        highest[key] = max(high, sequence + span)
    return result


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.booleans(),
            st.integers(0, 40),
            st.sampled_from([SYN, ACK, ACK | PSH, ACK | FIN, RST]),
            st.binary(max_size=12),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 2**32 - 20, 2**31 - 10]),
    st.sets(st.integers(0, 60), max_size=5),
)
def test_retransmissions_are_those_of_the_slow_rule(rows, base, cuts):
    frames = [
        make.tcp_frame(number, up, base + sequence, 0, flags, payload)
        for number, up, sequence, flags, payload in rows
    ]
    records = count(frames, cuts=[cut for cut in cuts if cut <= len(frames)])
    expected = slow(rows, base)
    names = ("tcp_retransmitted_packets", "tcp_retransmitted_payload_bytes", "tcp_keep_alive_packets")
    for index, name in enumerate(names):
        assert counts(records, name) == {k: sums[index] for k, sums in expected.items() if sums[index]}


def test_a_batch_that_begins_below_the_highest_number():
    """State from the batch before holds for all of the next one, not for its first frame alone."""
    parts = [(1, 100), (11, 20), (41, 20), (101, 10)]
    frames = [make.tcp_frame(1, True, start, 0, ACK, bytes(size)) for start, size in parts]
    records = count(frames, cuts=[1])
    assert counts(records, "tcp_retransmitted_payload_bytes") == {(1, 1, 0): 40}
    assert counts(records, "tcp_retransmitted_packets") == {(1, 1, 0): 2}


def test_classes_of_frames():
    super_frame = make.tcp_frame(7, True, 5, 0, ACK | PSH, bytes(3000))
    arp = make.ethernet(
        bytes.fromhex("0001080006040001")
        + bytes(6)
        + bytes([198, 18, 0, 7])
        + bytes(6)
        + bytes([192, 0, 2, 1]),
        0x0806,
    )
    frames = [
        make.tcp_frame(7, True, 1, 0, SYN),
        make.tcp_frame(7, True, 2, 1, ACK),
        make.tcp_frame(7, True, 2, 1, ACK | PSH, b"abc", options=b""),
        super_frame,
        make.udp_frame(7, True, bytes(20)),
        make.udp_frame(7, True, bytes(20), options=bytes(8)),
        make.udp_frame(7, True, bytes(20), fragment=3),
        arp,
        make.ethernet(bytes(60), 0x86DD),
    ]
    records = count(frames)
    up = (1, 7, 0)
    assert counts(records, "packets") == {up: 8, (1, 0, 2): 1}
    assert counts(records, "link_bytes")[up] == sum(map(len, frames[:-1]))
    assert counts(records, "ip_bytes")[up] == sum(map(len, frames[:-1])) - 8 * 14
    assert counts(records, "tcp_control_packets") == {up: 1}
    assert counts(records, "tcp_pure_ack_packets") == {up: 1}
    assert counts(records, "tcp_pure_ack_bytes") == {up: 52}
    assert counts(records, "tcp_payload_bytes") == {up: 3003}
    assert counts(records, "tcp_header_bytes") == {up: 3 * 32 + 20}
    assert counts(records, "udp_payload_bytes") == {up: 40}
    assert counts(records, "super_frames") == {up: 1}
    assert counts(records, "other_packets") == {up: 2, (1, 0, 2): 1}


def test_seconds_count_from_the_start_and_before_it_is_one():
    frames = [make.udp_frame(1, True, b"x")] * 4
    at_ns = [5_000_000_000, 9_999_999_999, 10_000_000_000, 11_000_000_000]
    records = count(frames, at_ns, start_at_ns=10_000_000_000)
    assert {key[0]: number for key, number in counts(records, "packets").items()} == {-1: 2, 0: 1, 1: 1}
    unknown = count(frames, at_ns, start_at_ns=None)
    assert {key[0]: number for key, number in counts(unknown, "packets").items()} == {-1: 4}


def test_a_torn_log_loses_its_last_record_alone(tmp_path):
    path = tmp_path / "wire.events"
    first = count([make.udp_frame(1, True, b"x")])
    with SecondLog(path) as log:
        log.append(first)
        log.append(first)
        log.append(count([make.udp_frame(65_535, False, b"y")]))
    whole = to_table(path).to_pylist()
    assert [(row["vehicle_id"], row["direction"], row["packets"]) for row in whole] == [
        ("YV2RT40A8KB000001", "uplink", 2),
        (None, "downlink", 1),
    ]
    path.write_bytes(path.read_bytes()[:-1])
    assert np.array_equal(read_log(path), merge(np.concatenate([first, first])))


def test_another_file_is_no_log(tmp_path):
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(Refusal, match="no log of wire counts"):
        read_log(tmp_path / "x")


def test_pcap_keeps_frames_and_stamps():
    frames = [make.udp_frame(1, True, bytes([k] * k)) for k in range(5)]
    batch = make.batch(frames, [k * 1_000_000_007 for k in range(5)])
    file = io.BytesIO()
    pcap.write_header(file, 65_535)
    file.write(pcap.records(batch, 65_535))
    written = file.getvalue()
    # A little-endian file of version 2.4, with nanoseconds, of Ethernet; then 16 bytes before each frame.
    assert struct.unpack_from("<IHHiIII", written) == (0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
    at, read = 24, []
    while at < len(written):
        seconds, nanoseconds, captured, length = struct.unpack_from("<IIII", written, at)
        assert captured == length
        read.append((seconds * 1_000_000_000 + nanoseconds, written[at + 16 : at + 16 + captured]))
        at += 16 + captured
    assert read == list(zip(batch.at_ns.tolist(), frames, strict=True))


def test_frames_of_a_ring_block():
    frames = [make.udp_frame(1, True, bytes(k)) for k in (1, 40, 7)]
    data = bytearray(48)
    for k, content in enumerate(frames):
        size = (82 + len(content) + 15) // 16 * 16
        words = [size, 3, k, len(content), len(content) + k, 0]
        header = np.array(words, "<u4").tobytes() + np.array([82, 96], "<u2").tobytes()
        data += (header.ljust(82, b"\0") + content).ljust(size, b"\0")
    buffer = np.frombuffer(data + bytes(96), np.uint8)
    found = frames_of_block(buffer, walk(data + bytes(96), 3, 48))
    assert found.at_ns.tolist() == [3_000_000_000, 3_000_000_001, 3_000_000_002]
    assert found.link_bytes.tolist() == [len(content) + k for k, content in enumerate(frames)]
    for content, offset in zip(frames, found.offsets, strict=True):
        assert bytes(buffer[offset : offset + len(content)]) == content
