"""Schedules of a campaign come from the seed alone and obey their own rules; the smallest failing one is found."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.chaos.campaign import options_of, promise_after
from ivsim.chaos.disturbances import DISTURBANCES
from ivsim.chaos.promises import ANSWERED, KEEPS, MAY_LOSE, SAVED, SHARED, weakest
from ivsim.chaos.schedule import AFTER_S, MODES, MOST, REST_S, Planned, Schedule, draw, read
from ivsim.chaos.shrink import shrink
from schemas.errors import Refusal

FAULTS = st.integers(1, 300)
SEEDS = st.integers(0, 2**32)


@given(FAULTS, SEEDS)
def test_the_same_seed_draws_the_same_schedules_with_so_many_faults(faults: int, seed: int) -> None:
    drawn = draw(faults, seed)
    assert drawn == draw(faults, seed)
    assert sum(len(schedule.faults) for schedule in drawn) == faults
    assert len({schedule.name for schedule in drawn}) == len(drawn)
    # What came first stays: a longer campaign begins with a shorter one's runs.
    assert draw(faults + 20, seed)[: len(drawn) - 1] == drawn[:-1]


@given(FAULTS, SEEDS)
def test_faults_follow_each_other_and_never_share_a_part(faults: int, seed: int) -> None:
    for schedule in draw(faults, seed):
        assert 1 <= len(schedule.faults) <= MOST
        assert list(schedule.faults) == sorted(schedule.faults, key=lambda planned: planned.at_s)
        assert schedule.duration_s == pytest.approx(max(p.end_s for p in schedule.faults) + AFTER_S)
        for planned in schedule.faults:
            low_s, high_s = DISTURBANCES[planned.fault].down_range_s
            assert low_s <= planned.down_s <= high_s
            assert DISTURBANCES[planned.fault].fault.applies_to(schedule.protocol)
        for one, other in combinations(schedule.faults, 2):
            parts = (DISTURBANCES[planned.fault].fault.parts for planned in (one, other))
            if set.intersection(*map(set, parts)):
                assert other.at_s >= one.end_s + REST_S - 0.11  # times are rounded to tenths


def test_sixteen_runs_have_every_mode_once_and_a_thousand_faults_every_fault() -> None:
    drawn = draw(1_000, 1)
    assert {(s.protocol, s.mode) for s in drawn[:16]} == set(MODES)
    assert {planned.fault for schedule in drawn for planned in schedule.faults} == set(DISTURBANCES)
    overlaps = [
        (one, other)
        for schedule in drawn
        for one, other in combinations(schedule.faults, 2)
        if other.at_s < one.end_s
    ]
    assert len(overlaps) > 100
    for schedule in drawn[:16]:
        options = options_of(schedule)
        assert options.duration_s == schedule.duration_s
        assert (options.vehicles / options.interval_s, options.gateways) == (200, 2)


def test_a_schedule_keeps_what_the_weakest_of_its_faults_keeps() -> None:
    def of(mode: str, *faults: str) -> Schedule:
        planned = tuple(Planned(fault, 5.0, 1.0) for fault in faults)
        return Schedule("a", "mqtt", mode, 1, planned)

    assert weakest([]) is KEEPS
    assert weakest([KEEPS, ANSWERED]).lost_at == ()
    assert promise_after(of("qos1", "gateway-kill", "kafka-disk-full", "broker-pause")) is KEEPS
    for mode, fault in (("qos1", "broker-kill"), ("qos2-v311", "broker-stop"), ("qos1", "backlog-kill")):
        assert promise_after(of(mode, "gateway-kill", fault, "link-cut")) is SHARED
    assert promise_after(of("qos1", "gateway-kill", "broker-kill", "link-cut"), gateways=1) is SAVED
    assert promise_after(of("qos1", "gateway-kill", "broker-stop", "link-cut"), gateways=1) is KEEPS
    assert promise_after(of("qos0", "gateway-kill", "broker-kill")) is MAY_LOSE


@given(SEEDS)
def test_a_file_gives_the_schedule_back(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("schedule") / "schedule.json"
    (schedule, *_) = draw(8, seed)
    path.write_text(json.dumps(schedule.as_dict()))
    assert read(path) == schedule


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mode": "con"}, "no mode mqtt con"),
        ({"faults": []}, "has no fault"),
        ({"faults": [{"fault": "rain", "at_s": 1, "down_s": 1}]}, "fault 'rain'"),
        ({"faults": [{"fault": "link-cut", "at_s": -1, "down_s": 1}]}, "0 to 600"),
        ({"faults": [{"fault": "link-cut"}]}, "not a schedule"),
        ({"colour": "red"}, "not a schedule"),
        ({"name": "../a"}, "name of a directory"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = tmp_path / "schedule.json"
    good = Schedule("a", "mqtt", "qos1", 1, (Planned("link-cut", 5.0, 3.0),)).as_dict()
    path.write_text(json.dumps({**good, **change}))
    with pytest.raises(Refusal, match=says):
        read(path)


@given(SEEDS, st.data())
def test_shrinking_finds_the_faults_that_matter(seed: int, data: st.DataObject) -> None:
    schedule = draw(60, seed)[0]
    places = st.sets(st.integers(0, len(schedule.faults) - 1), min_size=1, max_size=2)
    guilty = {schedule.faults[index].fault for index in data.draw(places)}

    def fails(candidate: Schedule) -> bool:
        assert candidate.faults
        return guilty <= {planned.fault for planned in candidate.faults}

    smallest, tried = shrink(schedule, fails, 500)
    assert fails(smallest)
    assert sorted(planned.fault for planned in smallest.faults) == sorted(guilty)
    assert all(planned.down_s <= 1.0 for planned in smallest.faults)
    assert tried < 500


@given(SEEDS, st.integers(0, 5))
def test_shrinking_stops_at_its_budget(seed: int, budget: int) -> None:
    calls: list[Schedule] = []
    schedule = draw(8, seed)[0]
    smallest, tried = shrink(schedule, lambda candidate: bool(calls.append(candidate)), budget)
    assert smallest == schedule
    assert tried == len(calls) <= budget


def test_a_failure_that_does_not_come_again_keeps_its_schedule() -> None:
    schedule = replace(draw(8, 1)[0], name="whole")
    assert shrink(schedule, lambda _: False, 100)[0] == schedule
