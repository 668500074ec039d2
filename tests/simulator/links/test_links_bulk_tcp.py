"""The rate of a bulk TCP transfer is that of the whole interval, however the bytes are spread over it."""

import socket
import threading
import time

import pytest

from simulator.links.proof.bulk_tcp import received_bps

SECONDS, SKIPPED = 1.0, 0.25
# A busy machine reads the kernel's counts late. Counted from its first segment, a burst near the end is 30 times as fast.
BUSY = 0.5


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = socket.create_connection(server.getsockname())
        sink, _address = server.accept()
        with source, sink:
            yield source, sink


@pytest.mark.timing
@pytest.mark.parametrize(
    ("burst_at_s", "counted"), [(0.0, False), (0.5, True), (0.9, True)], ids=["skipped", "middle", "end"]
)
def test_a_burst_counts_over_the_whole_interval_after_what_is_skipped(connection, burst_at_s, counted):
    source, sink = connection

    def send():
        time.sleep(burst_at_s)
        source.sendall(bytes(12_000))
        time.sleep(2 * SECONDS)  # what comes behind the end is none of it
        source.sendall(bytes(500_000))
        source.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    achieved_bps = received_bps(sink, SECONDS, SKIPPED)
    sink.settimeout(10)
    while sink.recv(1 << 20):
        pass
    sender.join()
    asked_bps = 12_000 * 8 / (SECONDS * (1 - SKIPPED)) if counted else 0.0
    assert achieved_bps == pytest.approx(asked_bps, rel=BUSY)


@pytest.mark.timing
def test_silence_is_a_rate_of_nought(connection):
    _source, sink = connection
    assert received_bps(sink, 0.2, SKIPPED) == 0.0


@pytest.mark.timing
def test_a_peer_that_ends_early_leaves_what_it_sent(connection):
    source, sink = connection
    threading.Timer(0.5, lambda: (source.sendall(bytes(9_000)), source.close())).start()
    assert received_bps(sink, SECONDS, SKIPPED) == pytest.approx(9_000 * 8 / 0.75, rel=BUSY)
