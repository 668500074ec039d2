"""A link whose ends are gateways': what is sent unbound comes from the gateway that asks, and meets its conditions alone."""

import socket

import pytest

from schemas.errors import Refusal
from schemas.topics import FIRST_GATEWAY, gateway_address, kafka_address
from simulator.links import LINKS, Condition, tcp_stack, wiring
from simulator.links.namespaces import inside
from simulator.links.proof.probes import Flow, run

pytestmark = pytest.mark.netns
FREE = Condition(None, 0.0)


def test_each_gateway_asks_from_its_own_address_with_the_algorithm_that_was_chosen(run_name):
    with LINKS["direct"](run_name, 2, FIRST_GATEWAY) as link:
        for gateway in (0, 1):
            wiring.route_to(link.vehicles_namespace, kafka_address(gateway), gateway_address(gateway))
        tcp_stack.use(link, "reno")
        for gateway in (0, 1):
            with inside(link.cloud_namespace):
                server = socket.create_server((kafka_address(gateway), 9_092))
            with inside(link.vehicles_namespace):
                client = socket.create_connection((kafka_address(gateway), 9_092), 10)
            accepted, _address = server.accept()
            with server, client, accepted:
                assert client.getsockname()[0] == gateway_address(gateway)
                for end in (client, accepted):
                    name = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                    assert name.rstrip(b"\0") == b"reno"


@pytest.mark.timing
def test_a_gateways_packets_meet_its_own_conditions(run_name):
    with LINKS["uml"](run_name, 2, FIRST_GATEWAY) as link:
        numbers = [FIRST_GATEWAY, FIRST_GATEWAY + 1]
        link.update({k: (Condition(None, 20.0 * n), FREE) for n, k in enumerate(numbers, 1)})
        flows = [Flow(k, "uplink", 114, 0.02, 30) for k in numbers]
        run(link, flows)
        for n, flow in enumerate(flows, 1):
            assert sorted(flow.delays_ms())[15] == pytest.approx(20 * n, abs=3)
        assert set(link.counters().vehicles.tolist()) == set(numbers)
        with pytest.raises(Refusal, match="vehicle 1: this link has vehicles 65281 to 65282"):
            link.update({1: (FREE, FREE)})
