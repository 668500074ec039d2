"""The senders of one run: which vehicles each has, that together they are the fleet, and what one's death costs."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivsim.audit import logs
from ivsim.audit.tables import connection_rows
from ivsim.option_rules import run_options
from ivsim.options import MAX_SHARDS
from ivsim.runs import preflight, shards
from ivsim.runs.children import Children, ChildSpec
from ivsim.runs.directory import RunDirectory
from ivsim.runs.runner import arrived
from ivsim.testbed.process import ProcessDied
from schemas.errors import Refusal
from schemas.formats import FORMATS
from simulator.emission_log import EmissionLog, Kind
from simulator.emission_table import connections, largest_backlog, read_events, to_table
from simulator.fleet import emissions, messages_due, schedule
from simulator.scenario import Scenario

START = 1_700_000_000_000_000_000
FLEETS = st.builds(
    Scenario,
    vehicles=st.integers(1, 12),
    interval_s=st.sampled_from([0.3, 1.0, 2.5]),
    duration_s=st.sampled_from([0.2, 1.0, 2.4]),
    format=st.sampled_from(list(FORMATS)),
    seed=st.integers(0, 2**63 - 1),
)


def dealt_out(vehicles: int, count: int) -> list[list[int]]:
    options = run_options(vehicles=vehicles, shards=str(min(count, vehicles)))
    return [share.vehicles for share in shards.sender_shares(options)]


@given(st.integers(1, 500), st.integers(1, MAX_SHARDS))
def test_every_vehicle_is_in_one_shard(vehicles: int, count: int) -> None:
    dealt = dealt_out(vehicles, count)
    assert len(dealt) == min(count, vehicles)
    assert sorted(chain.from_iterable(dealt)) == list(range(1, vehicles + 1))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@given(FLEETS, st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_the_shards_together_send_what_one_process_would_byte_for_byte(fleet: Scenario, count: int) -> None:
    whole = sorted(emissions(fleet, START))
    dealt = dealt_out(fleet.vehicles, count)
    assert sorted(chain.from_iterable(emissions(fleet, START, own) for own in dealt)) == whole
    assert sum(messages_due(fleet, own) for own in dealt) == len(whole)
    for own in dealt:
        assert messages_due(fleet, own) == sum(1 for _ in schedule(fleet, own))


def log_of(path: Path, fleet: Scenario, own: list[int]) -> None:
    """Write what a sender of these vehicles might: some messages wait, some are refused with words, some are given up."""
    log = EmissionLog(path)
    for vehicle in own:
        log.note(Kind.CONNECTING, vehicle, START - 20)
        log.note(Kind.CONNECTED, vehicle, START - 10 + vehicle)
    for one in emissions(fleet, START, own):
        named = {"epoch": one.epoch, "sequence": one.sequence, "size": len(one.payload)}
        at_ns = START + one.due_offset_ns
        case = (one.vehicle + one.sequence) % 4
        if case == 0:
            log.note(Kind.BUFFERED, one.vehicle, at_ns, **named)
        if case == 1:
            log.note(Kind.UNSENT, one.vehicle, at_ns, **named, reason=3)
            continue
        log.note(Kind.EMITTED, one.vehicle, at_ns + 5, **named)
        if case == 2:
            words = f"quota of {one.vehicle} exceeded, said at length"
            log.note(Kind.REFUSED, one.vehicle, at_ns + 9, **named, reason=5, words=words)
        else:
            log.note(Kind.ACKNOWLEDGED, one.vehicle, at_ns + 9, **named)
    log.close()


@given(FLEETS, st.integers(1, 4))
@settings(deadline=None, max_examples=15)
def test_the_tables_of_several_logs_are_those_of_one(fleet: Scenario, count: int) -> None:
    with TemporaryDirectory() as base:
        one, many = RunDirectory(Path(base) / "one"), RunDirectory(Path(base) / "many")
        for directory in (one, many):
            directory.path.mkdir()
        log_of(one.emission_log(), fleet, list(range(1, fleet.vehicles + 1)))
        dealt = dealt_out(fleet.vehicles, count)
        for shard, own in enumerate(dealt):
            log_of(many.emission_log(shard, len(dealt)), fleet, own)
        assert len(many.emission_logs()) == len(dealt)
        said = to_table(many.emission_logs(), fleet, START)
        assert said == to_table(one.emission_logs(), fleet, START)
        by_vehicle = [("vehicle_id", "ascending"), ("at_ns", "ascending")]
        steps = connections(many.emission_logs())
        assert steps.sort_by(by_vehicle) == connections(one.emission_logs()).sort_by(by_vehicle)
        assert largest_backlog(many.emission_logs()) == largest_backlog(one.emission_logs())
        # The audit reads the same, with a reader of its own.
        events = logs.read_events(*many.emission_logs())
        assert [tuple(event) for event in events] == [
            tuple(row) for row in read_events(many.emission_logs()).tolist()
        ]
        assert connection_rows(events) == steps.to_pylist()
        words = logs.read_words(*many.emission_logs())
        refused = {event.key.vehicle_id: words[event.words] for event in events if event.kind == Kind.REFUSED}
        assert all(f"quota of {int(name[-6:])} exceeded" in said for name, said in refused.items())


def test_no_log_at_all_is_a_fleet_that_never_began(tmp_path: Path) -> None:
    fleet = Scenario(vehicles=2, duration_s=1.0)
    rows = to_table(RunDirectory(tmp_path).emission_logs(), fleet, START).to_pylist()
    assert [row["unsent_reason"] for row in rows] == ["sender_ended"] * messages_due(fleet)


@pytest.mark.parametrize(
    ("asked", "cores", "files", "count"),
    [
        ({}, 8, 20_000, 1),
        ({"vehicles": 1_000}, 8, 20_000, 1),
        ({"vehicles": 1_001}, 8, 20_000, 2),
        ({"vehicles": 5_000}, 2, 20_000, 2),
        ({"vehicles": 15_000, "interval_s": 15.0}, 2, 20_000, 1),
        ({"vehicles": 45_000, "interval_s": 60.0}, 2, 20_000, 3),
        ({"vehicles": 15_000, "interval_s": 60.0, "topology": "echo"}, 2, 20_000, 2),
        ({"vehicles": 45_000, "interval_s": 60.0}, 2, 0, 1),
        ({"vehicles": 3, "interval_s": 0.001}, 16, 20_000, 3),
        ({"vehicles": 8, "shards": "8"}, 2, 20_000, 8),
        ({"vehicles": 8, "shards": 3}, 2, 20_000, 3),
    ],
)
def test_how_many_senders_a_run_has(asked: dict[str, Any], cores: int, files: int, count: int) -> None:
    assert shards.shard_count(run_options(**asked), cores=cores, files=files) == count


@pytest.mark.parametrize("word", ["0", "-1", "65", "2.0", "many", "", "²", "9" * 5_000])
def test_a_number_of_shards_that_cannot_be_is_refused(word: str) -> None:
    with pytest.raises(Refusal, match=r"^--shards '.*: write auto, or a number from 1 to 64$"):
        run_options(shards=word)


def test_more_shards_than_vehicles_are_refused() -> None:
    with pytest.raises(Refusal, match=r"^--shards 3: each needs a vehicle at least: --vehicles is 2$"):
        run_options(shards="3", vehicles=2)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"protocol": "coap", "mode": "con", "vehicles": 9_000, "shards": "2"},
            r"each of 2 senders needs 5012 open files, 4096 are allowed, enough for 7168 vehicles: .*--shards$",
        ),
        (
            {"vehicles": 5_000},
            r"mosquitto needs 5512 open files, 4096 are allowed, enough for 3584 vehicles: raise `ulimit -Hn`, or --brokers$",
        ),
        (
            {"vehicles": 5_000, "topology": "echo", "shards": "4"},
            r"mosquitto needs 10512 open files, 4096 are allowed, enough for 1792 vehicles: raise `ulimit -Hn`$",
        ),
    ],
)
def test_descriptors_are_counted_by_process(
    asked: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards.resource, "getrlimit", lambda _which: (1_024, 4_096))
    with pytest.raises(Refusal, match=rf"^--vehicles {asked['vehicles']}: {says}"):
        preflight.check_open_files(run_options(**asked))


class Sender:
    """A process that lives until the test says otherwise."""

    def __init__(self, name: str) -> None:
        self.name, self.died = name, False

    def check(self) -> None:
        if self.died:
            raise ProcessDied(self.name, -9, "")

    def stop(self) -> None:
        pass


def run_of(*senders: Sender, totals: list[dict[str, int]], contained: int) -> Any:
    named = {sender.name: sender for sender in senders}
    with (
        TemporaryDirectory() as work,
        mock.patch("ivsim.runs.children.Child", lambda name, *_, **__: named[name]),
        ExitStack() as stack,
    ):
        children = Children(SimpleNamespace(), Path(work), stack)  # type: ignore[arg-type]
        for name in named:
            children.start(ChildSpec(name, (), {}))
    publisher = SimpleNamespace(
        shard_totals=lambda: totals,
        totals=lambda: {name: sum(own.get(name, 0) for own in totals) for name in ("emitted", "unsent")},
    )
    components = SimpleNamespace(
        children=children,
        senders=tuple(sender.name for sender in senders),
        live_reader=SimpleNamespace(contained=lambda: contained),
        consumer=None,
    )
    (part,) = run_options().parts
    plan = SimpleNamespace(senders=[shards.SenderShare(part, []) for _ in senders])
    return SimpleNamespace(components=components, publisher=publisher, plan=plan)


def test_a_sender_that_dies_beside_others_is_noted_and_the_last_one_ends_the_run() -> None:
    one, two = Sender("sender-0"), Sender("sender-1")
    children = run_of(one, two, totals=[], contained=0).components.children
    names = ("sender-0", "sender-1")
    children.spare(names)
    two.died = True
    children.spare(names)
    children.check()
    assert list(children.dead) == ["sender-1"]
    one.died = True
    with pytest.raises(ProcessDied, match="sender-0"):
        children.spare(names)


def test_a_sender_on_an_agent_is_known_by_its_name_and_dies_as_others_do() -> None:
    here, there = Sender("sender-0"), Sender("sender-1")
    children = run_of(here, totals=[], contained=0).components.children
    children.adopt(there)
    assert (children.part("sender-0"), children.part("sender-1")) == (here, there)
    # What is asked of this machine's processes, such as their memory, is not asked of another's.
    assert (list(children), children.get("sender-1")) == ([here], None)
    there.died = True
    children.check()
    children.spare(("sender-0", "sender-1"))
    assert list(children.dead) == ["sender-1"]


def test_the_only_sender_ends_the_run() -> None:
    only = Sender("sender")
    only.died = True
    with pytest.raises(ProcessDied):
        run_of(only, totals=[], contained=0).components.children.spare(("sender",))


def test_the_end_waits_for_what_a_dead_sender_sent_and_for_nothing_else_of_it() -> None:
    one, two = Sender("sender-0"), Sender("sender-1")
    totals = [{"emitted": 9, "unsent": 1, "acknowledged": 9}, {"emitted": 4, "acknowledged": 3}]
    run = run_of(one, two, totals=totals, contained=13)
    assert not arrived(run, [10, 10])
    run.components.children.dead["sender-1"] = ProcessDied("sender-1", -9, "")
    assert arrived(run, [10, 10])
    missing = run_of(one, two, totals=totals, contained=12)
    missing.components.children.dead["sender-1"] = ProcessDied("sender-1", -9, "")
    assert not arrived(missing, [10, 10])
