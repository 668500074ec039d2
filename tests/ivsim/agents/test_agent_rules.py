"""Which run has what for its agents, which vehicles each has, and what its senders are told."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.agents.messages import Welcome
from ivsim.option_rules import run_options
from ivsim.options import MAX_SHARDS, RunOptions
from ivsim.runs import preflight, processes
from ivsim.runs.directory import RunDirectory
from ivsim.runs.shards import sender_shares
from schemas.errors import Refusal

TARGET = "mqtt://broker.example"


def asked(count: int = 2, **more: Any) -> RunOptions:
    given = {
        "agents": [f"192.0.2.{number + 1}:7070" for number in range(count)],
        "link": "direct",
        "target": TARGET,
    }
    return run_options(**given | more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"agents": ["here"]}, "--agent 'here': write HOST:PORT, such as 192.0.2.7:7070 or [2001:db8::7]:7070"),
        ({"agents": ["a:1", "b:1", "a:1"]}, "--agent a:1: named twice"),
        (
            {"vehicles": 2},
            "--vehicles 2: each machine needs one at least: there are 3, this one and 2 of --agent",
        ),
        (
            {"shards": 2},
            "--shards 2: each machine needs one at least: there are 3, this one and 2 of --agent",
        ),
        (
            {"vehicles": 1, "agents_only": True},
            "--vehicles 1: each machine needs one at least: there are 2, --agent",
        ),
        (
            {"agents": [f"192.0.2.{host}:7070" for host in range(1, 65)], "vehicles": 100},
            "--agent: a run has up to 64 senders, and each machine needs one: there are 65, this one and 64 of --agent",
        ),
        ({"shards": 30}, "--shards 30: each needs a vehicle at least: --vehicles is 20"),
        ({"link": "netem"}, "--agent: needs --link direct"),
        ({"link": "auto"}, "--agent: needs --link direct"),
        ({"target": None}, "--agent: needs --target, or --entrance to the run's own broker"),
        (
            {"target": None, "entrance": "198.51.100.1", "security": "tls"},
            "--security tls: not with --agent, whose vehicles speak in the clear alone",
        ),
        (
            {"target": None, "entrance": "198.51.100.1", "mix": "mqtt qos1=50,coap con=50"},
            "--entrance 198.51.100.1: leads to brokers, and coap con has none: needs --target",
        ),
        (
            {"target": None, "entrance": "198.51.100.1", "protocol": "coap", "mode": "con"},
            "--entrance 198.51.100.1: leads to brokers, and coap con has none: needs --target",
        ),
        (
            {"target": None, "entrance": "198.51.100.1", "brokers": 2},
            "--brokers 2: not with --entrance, which leads to one",
        ),
        (
            {"target": None, "entrance": "127.0.0.1"},
            "--entrance 127.0.0.1: 127.0.0.1 is another machine for the vehicles of --agent 192.0.2.1:7070: name an address",
        ),
        ({"target": None, "entrance": "0.0.0.0"}, "--entrance 0.0.0.0: is no machine's address: name one at which"),
        (
            {"target": "mqtts://broker.example"},
            "--target mqtts://broker.example: not with --agent, whose vehicles speak in the clear alone",
        ),
        ({"target_accounts": "a.json"}, "--target-accounts a.json: not with --agent: the file is on this machine alone"),
        (
            {"target": "mqtt://127.0.0.1"},
            "--target mqtt://127.0.0.1: 127.0.0.1 is another machine for the vehicles of --agent 192.0.2.1:7070: name an address",
        ),
        ({"target": "mqtt://localhost"}, "--target mqtt://localhost: localhost is another machine"),
        ({"topology": "edge"}, "--target mqtt://broker.example: needs --topology gateway or ingest or echo or peer"),
    ],
)  # fmt: skip
def test_a_run_that_has_nothing_for_its_agents_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        asked(**more)
    assert str(refused.value).startswith(says)


def test_agents_of_this_machine_may_share_a_target_of_this_machine() -> None:
    asked(agents=["localhost:7070", "[::1]:7070"], target="mqtt://127.0.0.1")


@given(st.integers(1, 5), st.integers(1, MAX_SHARDS), st.integers(1, 200))
def test_machines_take_the_senders_in_turn_and_every_vehicle_is_in_one(
    agents: int, shards: int, vehicles: int
) -> None:
    shards = max(shards, agents + 1)
    options = asked(agents, shards=str(shards), vehicles=max(vehicles, shards))
    shares = sender_shares(options)
    assert sorted(chain.from_iterable(share.vehicles for share in shares)) == list(
        range(1, options.vehicles + 1)
    )
    places = Counter(share.agent for share in shares)
    assert set(places) == {None, *range(agents)}
    assert max(places.values()) - min(places.values()) <= 1
    assert shares[0].agent is None


@given(st.integers(1, 5), st.integers(1, MAX_SHARDS), st.integers(1, 200))
def test_agents_alone_have_everything_where_they_are_to(agents: int, shards: int, vehicles: int) -> None:
    shards = max(shards, agents)
    options = asked(agents, shards=str(shards), vehicles=max(vehicles, shards), agents_only=True)
    shares = sender_shares(options)
    assert {share.agent for share in shares} == set(range(agents))
    dealt = sorted(chain.from_iterable(share.vehicles for share in shares))
    assert dealt == list(range(1, options.vehicles + 1))
    assert len(sender_shares(asked(agents, agents_only=True, interval_s=60.0))) == agents


@pytest.mark.parametrize(
    ("interval_s", "cores", "counts"),
    [(10.0, 2, {None: 1, 0: 1, 1: 1}), (0.02, 2, {None: 1, 0: 1, 1: 1}), (0.004, 2, {None: 2, 0: 2, 1: 1})],
)
def test_auto_gives_each_machine_a_sender_and_more_where_the_rate_needs_them(
    interval_s: float, cores: int, counts: dict[int | None, int]
) -> None:
    shares = sender_shares(asked(interval_s=interval_s, duration_s=1.0), cores=cores, files=0)
    assert Counter(share.agent for share in shares) == counts


def test_vehicles_of_an_agent_go_to_the_target_by_themselves(tmp_path: Path) -> None:
    options = asked(target="mqtt://broker.example:1999", vehicles=7, name=None)
    shares = sender_shares(options)
    plan: Any = SimpleNamespace(
        options=options,
        directory=RunDirectory(tmp_path),
        run_id="20260101-000000-mqtt-qos1-abcdef",
        senders=shares,
        shards=len(shares),
    )
    config = processes.agent_sender_config(plan, 2)
    assert (config.host, config.port) == ("broker.example", 1_999)
    assert config.bind_addresses is False
    assert config.vehicles == [3, 6]
    assert config.client_prefix == "ivsim-abcdef-"
    assert config.tls is config.keys is config.certificates is config.passwords is None
    assert config.scenario == processes.scenario_of(options)
    plan.options = asked(target=None, entrance="198.51.100.1", vehicles=7)
    config = processes.agent_sender_config(plan, 2, {"mosquitto": ("198.51.100.1", 40_001)})
    assert (config.host, config.port, config.client_prefix) == ("198.51.100.1", 40_001, "")
    assert [processes.sender_name(plan, index) for index in range(3)] == ["sender-0", "sender-1", "sender-2"]


def test_an_agent_that_allows_too_few_open_files_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def welcomes(addresses: list[str], _token: str | None) -> list[Welcome]:
        return [Welcome(proof="0" * 64, name="n", cores=1, open_files=files) for files in (0, 1_000)]

    monkeypatch.setattr(preflight, "ask_agents", welcomes)
    preflight.check_agents(asked(vehicles=1_000, interval_s=10.0))
    with pytest.raises(Refusal) as refused:
        preflight.check_agents(asked(vehicles=3_000, interval_s=10.0))
    assert str(refused.value) == (
        "--agent 192.0.2.2:7070: a sender needs 1512 open files, 1000 are allowed there: raise `ulimit -Hn` there,"
        " or --shards"
    )


def test_the_relay_needs_files_for_the_vehicles_of_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight, "open_files", lambda: 1_600)
    preflight.check_open_files(asked(vehicles=1_500, interval_s=10.0, shards="3"))
    with pytest.raises(Refusal, match=r"^--vehicles 1800: the relay needs 1712 open files, 1600 are allowed"):
        preflight.check_open_files(asked(vehicles=1_800, interval_s=10.0, shards="3"))
    preflight.check_open_files(asked(vehicles=20_000, interval_s=10.0, shards="3", agents_only=True))
    preflight.check_open_files(asked(vehicles=1_600, interval_s=10.0, shards="3", agents_only=True))
    with pytest.raises(
        Refusal, match=r"^--vehicles 900: the entrance needs 1712 open files, 1600 are allowed"
    ):
        preflight.check_open_files(asked(target=None, entrance="198.51.100.1", vehicles=900, shards="3"))


def test_an_entrance_at_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Refusal, match=r"^--entrance 198.51.100.1: Cannot assign requested address$"):
        preflight.check_agents(asked(target=None, entrance="198.51.100.1"))
