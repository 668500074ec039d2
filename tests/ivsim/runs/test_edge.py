"""Gateways at the vehicles' end of the link: who has which address, which vehicles, and what is refused."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.audit.due import end_name
from ivsim.option_rules import run_options
from ivsim.runs import preflight, shards
from ivsim.runs.endpoints import EDGE_PORT, Endpoints, KafkaAddress
from ivsim.testbed.credentials import PLAIN
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.topics import (
    FIRST_GATEWAY,
    MAX_GATEWAYS,
    MAX_VEHICLES,
    end_address,
    end_id,
    gateway_address,
    gateway_number,
    kafka_address,
    vehicle_address,
    vehicle_of_address,
)
from simulator.capture.second_log import vehicle_name
from simulator.link_schedule import LinkSchedule
from simulator.links import open_link, tcp_stack
from simulator.links.base import DEFAULT_TCP_ALGORITHM
from simulator.links.proof.prober import probed_vehicles
from simulator.traces import bundled

SECURED = ("plaintext", "sasl-ssl")


def test_a_gateway_has_an_address_that_no_vehicle_has() -> None:
    addresses = {gateway_address(gateway) for gateway in range(MAX_GATEWAYS)}
    assert len(addresses) == MAX_GATEWAYS
    assert min(gateway_number(gateway) for gateway in range(MAX_GATEWAYS)) > MAX_VEHICLES
    assert all(vehicle_of_address(address) is None for address in addresses)
    assert (gateway_address(0), kafka_address(0)) == ("198.18.255.1", "198.19.1.1")
    assert len({kafka_address(gateway) for gateway in range(MAX_GATEWAYS)}) == MAX_GATEWAYS
    for gateway in (-1, MAX_GATEWAYS):
        with pytest.raises(ValueError, match=f"gateway {gateway}: allowed 0 to 63"):
            gateway_number(gateway)


@given(st.integers(0, 0xFFFF))
def test_the_audit_calls_the_ends_of_a_link_as_the_run_does(number: int) -> None:
    assert end_name(number) == vehicle_name(number)


def test_the_end_of_a_link_is_a_vehicles_or_a_gateways() -> None:
    assert end_address(7) == vehicle_address(7)
    assert (end_id(FIRST_GATEWAY + 2), end_address(FIRST_GATEWAY + 2)) == ("gateway-2", "198.18.255.3")


@given(st.integers(1, 64), st.integers(0, 200), st.integers(1, 4))
def test_every_vehicle_has_one_gateway_and_one_sender(gateways: int, more: int, count: int) -> None:
    vehicles = gateways * count + more
    options = run_options(topology="edge", gateways=gateways, vehicles=vehicles, shards=str(count))
    dealt = shards.sender_shares(options)
    assert sorted(chain.from_iterable(share.vehicles for share in dealt)) == list(range(1, vehicles + 1))
    assert len(dealt) == gateways * count
    of_gateway = [sum(len(s.vehicles) for s in dealt if s.peer == g) for g in range(gateways)]
    assert max(of_gateway) - min(of_gateway) <= 1


def test_elsewhere_no_sender_has_a_gateway_of_its_own() -> None:
    assert {s.peer for s in shards.sender_shares(run_options(gateways=3, vehicles=6))} == {None}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"gateways": 6},
            "--gateways 6: each needs a vehicle of its own with --topology edge: --vehicles is 5",
        ),
        (
            {"gateways": 2, "shards": 3},
            "--shards 3: each needs a vehicle at least, and a gateway has 2 of --vehicles 5",
        ),
        ({"trace": "car-2024,tunnel"}, "--trace car-2024,tunnel: 2 traces need as many --gateways, one each"),
        ({"duplicate_ratio": 0.1, "gateways": 2}, "--duplicate 0.1: needs --gateways 1"),
        ({"gateways": 65}, "--gateways 65: input should be less than or equal to 64"),
    ],
)
def test_what_gateways_at_the_edge_cannot_do_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refusal:
        run_options(**{"topology": "edge", "vehicles": 5} | given)
    assert str(refusal.value).startswith(says)


def test_the_links_of_a_run_are_its_vehicles_or_its_gateways() -> None:
    assert list(run_options(vehicles=3).links) == [1, 2, 3]
    edge = run_options(vehicles=3, topology="edge", gateways=2, duplicate_ratio=0.0)
    assert list(edge.links) == [FIRST_GATEWAY, FIRST_GATEWAY + 1]
    assert run_options(vehicles=3, topology="edge", duplicate_ratio=0.1).links == edge.links[:1]


def test_each_gateway_drives_a_trace_of_its_own_in_turn() -> None:
    traces = [bundled("car-2024"), bundled("tunnel"), bundled("car-downlink-2018")]
    schedule = LinkSchedule(traces[0], 4, 1, others=traces[1:], first=FIRST_GATEWAY)
    in_turn = (schedule.trace, *schedule.others, schedule.trace)
    driven = [schedule.trace_of(number) for number in schedule.numbers]
    assert all(one is other for one, other in zip(driven, in_turn, strict=True))
    assert list(schedule.at(0)) == list(schedule.offsets_s()) == list(schedule.numbers)


def test_all_of_few_gateways_are_probed_and_some_of_many() -> None:
    assert probed_vehicles(2, first=FIRST_GATEWAY) == [FIRST_GATEWAY, FIRST_GATEWAY + 1]
    many = probed_vehicles(64, first=FIRST_GATEWAY)
    assert (many[0], many[-1], len(many)) == (FIRST_GATEWAY, FIRST_GATEWAY + 63, 32)


def test_a_link_of_gateways_has_no_vehicle() -> None:
    link = open_link("direct", "none", 2, FIRST_GATEWAY)
    assert link.namespaces == ("ivsim-none-v", "ivsim-none-c")


class _Link:
    vehicles_namespace, cloud_namespace, vehicles_device = "v", "c", "veh0"


@pytest.mark.parametrize("edge", [False, True])
def test_at_the_edge_a_gateway_stands_with_its_vehicles_and_asks_kafka_over_the_link(edge: bool) -> None:
    options = run_options(protocol="coap", mode="con", topology="edge" if edge else "gateway")
    endpoints = Endpoints.of(options.parts, _Link(), {}, KafkaAddress("k:1"), PLAIN, edge=edge)  # type: ignore[arg-type]
    if edge:
        assert (endpoints.gateways_namespace, endpoints.host(1)) == ("v", "198.18.255.2")
        assert endpoints.bootstrap(1) == f"198.19.1.2:{EDGE_PORT}"
    else:
        assert (endpoints.gateways_namespace, endpoints.host(1)) == ("c", "198.19.2.2")
        assert endpoints.bootstrap(1) == "k:1"
    assert endpoints.host(None) == "198.19.0.1"


@pytest.mark.parametrize("security", SECURED)
def test_kafka_tells_each_gateway_the_address_at_which_it_has_asked(
    security: str, run_record: RunRecord
) -> None:
    wanted = [f"{kafka_address(gateway)}:{EDGE_PORT}" for gateway in range(2)]
    server = KafkaServer(run_record, security=security, relayed=wanted)
    try:
        server.reserve()
        server._make_directory()
        if server._keys is not None:
            server._listener = server._keys.make()
        lines = server._configure([server.voter], {}).read_text().splitlines()
        told = dict(line.split("=", 1) for line in lines if not line.startswith("#") and "=" in line)
        kind = "PLAINTEXT" if security == "plaintext" else "SASL_SSL"
        advertised = told["advertised.listeners"].split(",")
        assert advertised == [
            f"{kind}://{server.bootstrap}",
            *(f"RELAYED{n}://{w}" for n, w in enumerate(wanted)),
        ]
        listening = told["listeners"].split(",")
        assert [f"RELAYED{n}://{server.behind[w]}" for n, w in enumerate(wanted)] == listening[1:3]
        assert told["listener.security.protocol.map"].startswith(
            f"{kind}:{kind},RELAYED0:{kind},RELAYED1:{kind}"
        )
        logins = [key for key in told if key.endswith("jaas.config")]
        assert len(logins) == (0 if security == "plaintext" else 3)
    finally:
        server.close()


def test_a_congestion_control_that_the_kernel_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tcp_stack.has(DEFAULT_TCP_ALGORITHM)
    assert not tcp_stack.has("nosuch")
    monkeypatch.setattr(tcp_stack, "has", lambda name: name != "bbr")
    with pytest.raises(Refusal, match="--tcp bbr: this kernel has no such congestion control"):
        preflight.preflight(run_options(topology="edge", tcp="bbr"))


def test_open_files_are_counted_by_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that one gateway has serves that gateway's vehicles alone."""
    monkeypatch.setattr(preflight, "open_files", lambda: 1_100)
    options = run_options(vehicles=1_000, interval_s=10.0, topology="edge", gateways=2)
    preflight.check_open_files(options)
    with pytest.raises(Refusal, match="mosquitto needs 1512 open files"):
        preflight.check_open_files(run_options(vehicles=1_000, interval_s=10.0, topology="edge", shards="4"))


def test_a_result_without_a_gateway_at_the_edge_has_no_log_of_what_was_in_flight(tmp_path: Path) -> None:
    from ivsim.runs.processes import in_flight_logs  # noqa: PLC0415

    assert in_flight_logs(tmp_path) == []
