"""The state of a link as a gateway can know it: from its kernel's own connections, and from librdkafka's statistics."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.observation import LinkState
from gateways.batching.period import Period
from gateways.batching.producer_statistics import ProducerWatch
from gateways.batching.tcp_info import TcpReading, link_between, readings
from gateways.producer import RecordProducer

HERE = ("198.18.0.1", 40_000)


def reading(sent: int, repeated: int = 0, needless: int = 0, rtt_ms: float = 30.0) -> TcpReading:
    return TcpReading(rtt_ms, 1_448, sent, repeated, needless, "cubic")


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with near, far:
            yield near, far


def exchange(connection: tuple[socket.socket, socket.socket], count: int) -> None:
    near, far = connection
    for _ in range(count):
        near.sendall(b"x" * 100)
        assert far.recv(100, socket.MSG_WAITALL)


def test_the_kernel_s_counts_of_a_real_connection_are_read(connection) -> None:
    near, _ = connection
    port = near.getpeername()[1]
    before = readings({port})
    exchange(connection, 20)
    now = readings({port})
    assert list(now) == [near.getsockname()]
    assert now[near.getsockname()].sent - before[near.getsockname()].sent == 20
    link = link_between(before, now)
    assert link.loss_ratio == 0
    assert link.rtt_ms is not None
    assert 0 < link.rtt_ms < 1_000
    assert link.segment_bytes == near.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    assert link.congestion_control == default
    # The copies are closed, and the connection is not.
    exchange(connection, 1)


def test_looking_leaves_no_descriptor_open(connection) -> None:
    port = connection[0].getpeername()[1]
    readings({port})
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        readings({port})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_idle_connection_says_nothing(connection) -> None:
    port = connection[0].getpeername()[1]
    now = readings({port})
    assert link_between(now, now) == LinkState()
    assert link_between({}, {}) == LinkState()


def test_fields_are_where_the_kernel_has_them() -> None:
    content = bytearray(256)
    for offset, value in {16: 1_448, 68: 31_500, 100: 7, 156: 90, 216: 2}.items():
        struct.pack_into("=I", content, offset, value)
    assert TcpReading.parsed(bytes(content), "bbr") == TcpReading(31.5, 1_448, 90, 7, 2, "bbr")
    older = TcpReading.parsed(bytes(content[:192]), "bbr")
    assert (older.repeated, older.needless) == (7, 0)
    with pytest.raises(ValueError, match="of 104 bytes"):
        TcpReading.parsed(bytes(content[:104]), "bbr")


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_loss_is_what_was_repeated_and_needed(sent: int, repeated: int, needless: int) -> None:
    repeated, needless = min(repeated, sent), min(needless, repeated, sent)
    link = link_between({HERE: reading(100, 5, 1)}, {HERE: reading(100 + sent, 5 + repeated, 1 + needless)})
    assert link.loss_ratio == pytest.approx((repeated - needless) / sent)


def test_a_connection_that_was_made_anew_counts_from_its_beginning() -> None:
    before = {HERE: reading(1_000, 100)}
    assert link_between(before, {HERE: reading(10, 1)}).loss_ratio == pytest.approx(0.1)
    other = (HERE[0], 40_001)
    link = link_between(before, {HERE: reading(1_010, 100), other: reading(30, 4, rtt_ms=90.0)})
    assert link.loss_ratio == pytest.approx(4 / 40)
    assert link.rtt_ms == 90.0, "of the connection that sent most"


def statistics(produced: int, sent_bytes: int, messages: int, rtts: list[tuple[int, int]]) -> str:
    brokers = {
        f"b:{number}": {
            "req": {"Produce": produced if number == 0 else 0, "Metadata": 3},
            "txbytes": sent_bytes if number == 0 else 999,
            "rtt": {"avg": average_us, "cnt": count},
        }
        for number, (average_us, count) in enumerate(rtts)
    }
    return json.dumps({"txmsgs": messages, "brokers": brokers})


def test_a_period_of_statistics_is_the_difference_of_its_counts_and_the_mean_of_its_times() -> None:
    watch = ProducerWatch("t" * 42)
    watch.take(statistics(10, 7_000, 10, [(30_000, 10), (0, 0)]))
    assert watch.end() == LinkState(request_ms=30.0, message_bytes=550.0, request_bytes=150)
    watch.take(statistics(12, 10_000, 15, [(40_000, 1), (0, 0)]))
    watch.take(statistics(14, 12_000, 20, [(100_000, 3), (0, 0)]))
    found = watch.end()
    assert found.request_ms == pytest.approx(85.0)
    assert found.message_bytes == pytest.approx((5_000 - 4 * 150) / 10)
    assert found.request_bytes == 150


def test_a_period_without_requests_says_nothing() -> None:
    watch = ProducerWatch("t")
    assert watch.end() == LinkState()
    watch.take(statistics(0, 0, 0, [(0, 0)]))
    assert watch.end() == LinkState()


@pytest.mark.kafka
@pytest.mark.parametrize("batch_messages", [1, 50])
def test_librdkafka_s_requests_and_records_have_the_bytes_that_are_said(
    kafka, topics, batch_messages: int
) -> None:
    watch, sent = ProducerWatch(topics.status), [0]

    def take(statistics: str) -> None:
        watch.take(statistics)
        sent.append(json.loads(statistics)["txmsgs"])

    producer = RecordProducer(kafka, 1 << 26, "", batch_messages, take)
    try:
        producer.require_topics((topics.status,))
        for round_number in range(1, 5):
            for _ in range(50):
                producer.produce(topics.status, b"x" * 500, b"V00001", headers=[("sequence", b"12")])
            # A poll ends with the first event it serves: its time is no measure, what the statistics count is.
            until = time.monotonic() + 30
            while sent[-1] < 50 * round_number:
                assert time.monotonic() < until, sent
                producer.poll(0.1)
    finally:
        producer.close()
    found = watch.end()
    # A record of Kafka's format 2: length, attributes, timestamp, offset, key, value and headers as varints.
    record_bytes = 2 + 1 + 1 + 1 + 1 + 6 + 2 + 500 + 1 + 1 + 8 + 1 + 2
    # Requests that are none of its records (metadata, the producer's number) are a few hundred bytes among them.
    assert found.message_bytes == pytest.approx(record_bytes, rel=0.01)
    assert found.request_ms is not None


def test_a_period_counts_what_was_taken_late_and_answered_and_begins_anew() -> None:
    period = Period(100.0, 10.0)
    period.taken = 50
    period.confirmed(10.0, 10.02, 10.05)
    period.confirmed(10.0, 10.02, 10.25)
    period.confirmed(11.0, 11.0, 11.0)
    tcp, requests = LinkState(rtt_ms=30.0, loss_ratio=0.1), LinkState(request_ms=33.0, message_bytes=5.0)
    seen = period.end(15.0, requests, tcp)
    assert seen.per_s == 10.0
    assert seen.answers_ms == pytest.approx((30.0, 230.0))
    assert seen.late_ratio == pytest.approx(1 / 3)
    assert seen.link == LinkState(request_ms=33.0, message_bytes=5.0, rtt_ms=30.0, loss_ratio=0.1)
    nothing = period.end(20.0, LinkState(), LinkState())
    assert (nothing.per_s, nothing.answers_ms, nothing.late_ratio) == (0.0, (), None)
    period.taken = 7
    period.begin(30.0)
    period.taken += 5
    assert period.end(35.0, LinkState(), LinkState()).per_s == 1.0
