"""TCP's congestion control across a real link, as both ends' kernel says it, and what else is fixed."""

import socket
from pathlib import Path

import pytest

from schemas.topics import CLOUD_ADDRESS, vehicle_address
from simulator.links import LINKS, LinkError, tcp_stack
from simulator.links.base import DEFAULT_TCP_ALGORITHM, TCP_ALGORITHMS
from simulator.links.namespaces import inside

pytestmark = pytest.mark.netns
CONGESTION = getattr(socket, "TCP_CONGESTION", 13)


def algorithm_of(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, CONGESTION, 16).rstrip(b"\0").decode()


@pytest.fixture
def link(run_name):
    with LINKS["direct"](run_name, 2) as opened:
        yield opened


def test_both_ends_use_what_was_asked_though_the_server_listened_before(link):
    with inside(link.cloud_namespace):
        server = socket.create_server((CLOUD_ADDRESS, 0))
    port = server.getsockname()[1]
    with server:
        for algorithm in (*TCP_ALGORITHMS, DEFAULT_TCP_ALGORITHM):
            tcp_stack.use(link, algorithm)
            with inside(link.vehicles_namespace):
                client = socket.create_connection((CLOUD_ADDRESS, port), 10, (vehicle_address(1), 0))
            accepted, _address = server.accept()
            with client, accepted:
                assert (algorithm_of(client), algorithm_of(accepted)) == (algorithm, algorithm)
            assert tcp_stack.settings(link)["congestion_control"] == algorithm


def test_what_one_connection_learnt_does_not_shape_the_next(link):
    with inside(link.vehicles_namespace):
        Path("/proc/sys/net/ipv4/tcp_no_metrics_save").write_text("0")
        Path("/proc/sys/net/ipv4/tcp_sack").write_text("0")
    tcp_stack.use(link, "cubic")
    found = tcp_stack.settings(link)
    assert {name: found[name] for name in tcp_stack.FIXED} == tcp_stack.FIXED
    assert found["tcp_rmem"]


def test_an_algorithm_that_the_kernel_has_not_is_refused(link):
    with pytest.raises(LinkError, match=r"congestion control 'nosuch'"):
        tcp_stack.use(link, "nosuch")
