"""Vehicles that are dealt out among several brokers: who goes where, what is started, and what is refused."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.option_rules import run_options
from ivsim.runs import noted_link, preflight, processes, shared_parts
from ivsim.runs.directory import RunDirectory
from ivsim.runs.endpoints import Endpoints, KafkaAddress
from ivsim.runs.processes import gateway_places, queues
from ivsim.runs.shards import sender_shares
from ivsim.runs.shared_parts import SharedParts
from ivsim.testbed.servers import SERVERS
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.topics import CLOUD_ADDRESS, MAX_BROKERS, MAX_GATEWAYS, broker_address, kafka_address

MIX = "mqtt qos1=50,amqp manual=25,coap con=25"


def test_brokers_have_addresses_that_nobody_else_has() -> None:
    addresses = {broker_address(broker) for broker in range(MAX_BROKERS)}
    assert len(addresses) == MAX_BROKERS
    others = {CLOUD_ADDRESS, *(kafka_address(gateway) for gateway in range(MAX_GATEWAYS))}
    assert not addresses & others
    for broker in (-1, MAX_BROKERS):
        with pytest.raises(ValueError, match=f"broker {broker}: allowed 0 to 15"):
            broker_address(broker)


@given(st.integers(1, MAX_BROKERS), st.integers(16, 200), st.sampled_from([None, "auto", "1"]))
def test_every_vehicle_has_one_broker_and_each_broker_its_share(
    brokers: int, vehicles: int, shards: str | None
) -> None:
    given_shards = {} if shards is None else {"shards": shards}
    shares = sender_shares(run_options(brokers=brokers, vehicles=vehicles, **given_shards))
    assert sorted(chain.from_iterable(share.vehicles for share in shares)) == list(range(1, vehicles + 1))
    if brokers == 1:
        assert {share.peer for share in shares} == {None}
        return
    each = [sum(len(share.vehicles) for share in shares if share.peer == one) for one in range(brokers)]
    assert sum(each) == vehicles
    assert max(each) - min(each) <= 1


def test_of_a_mix_those_with_a_broker_have_several_and_each_has_gateways_of_its_own() -> None:
    options = run_options(mix=MIX, vehicles=12, brokers=2, gateways=2)
    places = [(part.protocol.name, peer) for part, peer in gateway_places(options)]
    assert places == [
        *[("mqtt", 0), ("mqtt", 0), ("mqtt", 1), ("mqtt", 1)],
        *[("amqp", 0), ("amqp", 0), ("amqp", 1), ("amqp", 1)],
        *[("coap", None), ("coap", None)],
    ]
    assert queues(options) == ["ivsim", *(f"gateway-{number}" for number in range(10))]
    shares = [(share.part.protocol.name, share.peer) for share in sender_shares(options)]
    assert shares == [("mqtt", 0), ("mqtt", 1), ("amqp", 0), ("amqp", 1), ("coap", None)]


class _Link(AbstractContextManager[Any]):
    vehicles_namespace, cloud_namespace, vehicles_device = "v", "c", "veh0"
    name, namespaces = "direct", ()

    def __exit__(self, *_: object) -> None: ...


class _Server:
    """A server that notes where it is asked to be."""

    def __init__(self, _record: object, **asked: Any) -> None:
        self.asked, self.port = asked, 1_883

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("brokers", [1, 3])
def test_brokers_gateways_and_vehicles_meet_at_the_same_addresses(
    brokers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = run_options(vehicles=7, brokers=brokers, gateways=2, link="direct")
    directory = RunDirectory(tmp_path)
    plan: Any = SimpleNamespace(
        options=options,
        topology=TOPOLOGIES[options.topology],
        directory=directory,
        run_id="r-1",
        senders=sender_shares(options),
        shards=len(sender_shares(options)),
    )
    kind = dataclasses.replace(SERVERS["mosquitto"], open=_Server)
    monkeypatch.setitem(SERVERS, "mosquitto", kind)
    monkeypatch.setattr(noted_link, "open_link", lambda *_: _Link())
    monkeypatch.setattr(shared_parts.tcp_stack, "use", lambda *_: None)
    record: Any = SimpleNamespace(directory=tmp_path, run_id="r-1", marking=nullcontext)
    shared = SharedParts(record, keep=False)
    shared.link(options)
    opened, credentials = shared.brokers(plan, SimpleNamespace(), ExitStack())  # type: ignore[arg-type]
    at = {server.asked["host"] for server in opened.values()}  # type: ignore[attr-defined]
    assert len(at) == len(opened) == brokers
    assert {server.asked["namespace"] for server in opened.values()} == {"c"}  # type: ignore[attr-defined]
    endpoints = Endpoints.of(options.parts, _Link(), opened, KafkaAddress("k:1"), credentials)  # type: ignore[arg-type]
    configs = [spec.config for spec in processes.gateways(plan, endpoints)]
    assert Counter(config["host"] for config in configs) == dict.fromkeys(at, 2)  # type: ignore[index]
    assert all(config["shared"] for config in configs)  # type: ignore[index]
    assert len({config["name"] for config in configs}) == len(configs) == 2 * brokers  # type: ignore[index]
    told = [spec.config for spec in processes.senders(plan, endpoints)]
    assert {config.host for config in told} == at  # type: ignore[union-attr]
    driven = [config.numbers() for config in told]  # type: ignore[union-attr]
    assert sorted(chain.from_iterable(driven)) == list(range(1, 8))


def test_open_files_are_counted_by_broker_and_the_refusal_says_what_takes_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight, "open_files", lambda: 1_100)
    asked: dict[str, Any] = {"vehicles": 1_000, "interval_s": 10.0, "shards": "4"}
    with pytest.raises(
        Refusal,
        match=r"^--vehicles 1000: mosquitto needs 1512 open files, 1100 are allowed, enough for 588 vehicles:"
        r" raise `ulimit -Hn`, or --brokers$",
    ):
        preflight.check_open_files(run_options(**asked))
    preflight.check_open_files(run_options(**asked, brokers=2))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"brokers": 0}, "--brokers 0: input should be greater than or equal to 1"),
        ({"brokers": 17}, "--brokers 17: input should be less than or equal to 16"),
        (
            {"brokers": 3, "vehicles": 2},
            "--brokers 3: each needs a vehicle of its own, and mqtt qos1 has 2 of --vehicles 2",
        ),
        (
            {"brokers": 2, "vehicles": 8, "mix": MIX, "shards": 2},
            "--shards 2: each needs a vehicle at least, and one of --brokers 2 has 1: amqp manual has 2 of --vehicles 8",
        ),
        (
            {"brokers": 2, "target": "mqtt://127.0.0.1"},
            "--brokers 2: needs the run's own brokers, not --target mqtt://127.0.0.1",
        ),
    ],
)
def test_brokers_that_cannot_be_are_refused_by_name(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**asked)
    assert str(refused.value) == says
