from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from pydantic import ValidationError

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.fleet import Emission, Fleet, emissions, plan, schedule
from simulator.scenario import Scenario, VariantMix
from simulator.vehicles.vehicle import Vehicle

START_AT_NS = 1_700_000_000_123_456_789


def of_vehicle(number, found):
    return [e for e in found if e.vehicle == number]


def test_the_same_seed_gives_the_same_bytes():
    scenario = Scenario(vehicles=6, duration_s=5.0, seed=4)
    assert list(emissions(scenario, START_AT_NS)) == list(emissions(scenario, START_AT_NS))
    other = scenario.model_copy(update={"seed": 5})
    assert list(emissions(scenario, START_AT_NS)) != list(emissions(other, START_AT_NS))


def test_adding_a_vehicle_changes_no_other():
    few = list(emissions(Scenario(vehicles=3, duration_s=6.0), START_AT_NS))
    many = list(emissions(Scenario(vehicles=9, duration_s=6.0), START_AT_NS))
    for number in (1, 2, 3):
        assert of_vehicle(number, few) == of_vehicle(number, many)


def test_a_shard_is_its_part_of_the_fleet():
    scenario = Scenario(vehicles=9, duration_s=4.0)
    whole = list(emissions(scenario, START_AT_NS))
    shard = list(emissions(scenario, START_AT_NS, vehicles=range(3, 9, 3)))
    assert shard == [e for e in whole if e.vehicle in {3, 6}]
    assert list(schedule(scenario, vehicles=[3, 6])) == [e[:4] for e in shard]


@pytest.mark.parametrize("interval_s", [0.25, 1.0, 2.5, 10.0])
def test_schedule_is_emissions_without_payloads(interval_s):
    scenario = Scenario(vehicles=7, duration_s=9.7, interval_s=interval_s, epoch=3)
    found = list(emissions(scenario, START_AT_NS))
    assert [e[:4] for e in found] == [tuple(d) for d in schedule(scenario)]
    offsets = [e.due_offset_ns for e in found]
    assert offsets == sorted(offsets)
    assert all(0 <= offset < scenario.duration_ns for offset in offsets)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_built_ahead_changes_no_byte(name):
    """Each vehicle driven by itself, with nothing encoded before its first message, sends the same."""
    scenario = Scenario(vehicles=5, duration_s=4.0, format=name, seed=9)
    fleet = Fleet(scenario)
    assert len(list(fleet.build())) == 5
    built = list(fleet.emissions(START_AT_NS))
    assert built == list(emissions(scenario, START_AT_NS))
    for number in range(1, 6):
        vehicle = Vehicle(number, plan(scenario, number).variant, Random(f"9/{number}/drive"))
        for one in of_vehicle(number, built):
            vehicle.advance(one.due_offset_ns)
            at_ns = START_AT_NS + one.due_offset_ns
            status = vehicle.status(one.sequence, scenario.epoch, at_ns, vehicle.cause)
            assert FORMATS[name].encode(status) == one.payload


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_drives_through_the_fleet(name):
    scenario = Scenario(vehicles=4, duration_s=3.0, format=name, epoch=2)
    for e in emissions(scenario, START_AT_NS):
        peek = FORMATS[name].peek(e.payload)
        assert peek.sequence == e.sequence
        if name != "small":
            sampled_at_ns = (START_AT_NS + e.due_offset_ns) // 1_000_000 * 1_000_000
            assert peek == (e.sequence, 2, sampled_at_ns, vehicle_id(e.vehicle))


def test_sequences_count_from_one_and_phases_are_spread():
    found = list(emissions(Scenario(vehicles=40, duration_s=3.0, format="small"), START_AT_NS))
    assert len(found) == 120
    for number in range(1, 41):
        assert [e.sequence for e in of_vehicle(number, found)] == [1, 2, 3]
    firsts = sorted(e.due_offset_ns for e in found if e.sequence == 1)
    assert firsts[0] < 200_000_000
    assert firsts[-1] > 800_000_000


def test_small_wraps_and_the_sequence_does_not():
    scenario = Scenario(vehicles=1, duration_s=102.0, format="small")
    last = list(emissions(scenario, START_AT_NS))[-1]
    assert (last.sequence, last.payload) == (102, b"message002")


def test_nothing_is_made_before_it_is_asked_for():
    endless = emissions(Scenario(vehicles=2, duration_s=31_536_000.0), START_AT_NS)
    assert [type(e) for e in islice(endless, 3)] == [Emission] * 3


def test_the_mix_is_the_fleet_s():
    scenario = Scenario(vehicles=2_000)
    drawn = [plan(scenario, n).variant for n in range(1, 2_001)]
    for variant, share in scenario.mix.model_dump().items():
        assert abs(drawn.count(variant) / 2_000 - share) < 0.04
    trucks = Scenario(mix=VariantMix(rigid=1.0, trailer=0.0, hybrid=0.0, stub=0.0))
    assert {plan(trucks, n).variant for n in range(1, 30)} == {"rigid"}


@pytest.mark.parametrize(
    "values",
    [
        {"vehicles": 0},
        {"vehicles": 10_000_000},
        {"interval_s": 0.0},
        {"duration_s": -1.0},
        {"duration_s": float("nan")},
        {"format": "xml"},
        {"seed": -1},
        {"epoch": 0},
        {"colour": "red"},
        {"mix": {"rigid": 0.5, "trailer": 0.0, "hybrid": 0.0, "stub": 0.0}},
    ],
)
def test_a_bad_scenario_is_refused(values):
    with pytest.raises(ValidationError):
        Scenario(**values)


def test_a_scenario_never_changes():
    with pytest.raises(ValidationError):
        Scenario().vehicles = 3
