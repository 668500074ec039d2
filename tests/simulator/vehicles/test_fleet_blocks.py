"""Payloads that are made in blocks are, byte for byte, those of vehicles that drive and encode one by one."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.formats import FORMATS
from simulator import fleet as fleet_module
from simulator.fleet import BLOCK_MESSAGES, Emission, Fleet, emissions, plan, schedule
from simulator.scenario import Scenario, Stage, VariantMix
from simulator.vehicles.columns import layout_of
from simulator.vehicles.drive import Drive
from simulator.vehicles.drives import STATE, Drives, state_of
from simulator.vehicles.vehicle import Vehicle

START_AT_NS = 1_700_000_000_123_456_789
IN_BLOCKS = [name for name, one in FORMATS.items() if layout_of(one) is not None]
RECORDED = json.loads((Path(__file__).parent / "payload_digests.json").read_text())
SCENARIOS = {
    "mixed": Scenario(vehicles=24, duration_s=30.0, seed=7),
    "stubs": Scenario(
        vehicles=4, duration_s=8.0, seed=2, mix=VariantMix(rigid=0, trailer=0, hybrid=0.5, stub=0.5)
    ),
    "slow": Scenario(vehicles=5, duration_s=900.0, interval_s=30.0, seed=3, epoch=300),
    "fast": Scenario(vehicles=1, duration_s=8.0, interval_s=0.02, seed=9),
    "staged": Scenario(
        vehicles=10,
        duration_s=24.0,
        seed=5,
        stages=(
            Stage(duration_s=12.0, begin_vehicles=0, end_vehicles=10),
            Stage(duration_s=12.0, begin_vehicles=10, end_vehicles=3),
        ),
    ),
    "alike": Scenario(vehicles=9, duration_s=6.0, seed=5, alike_every=3),
}


def one_by_one(scenario: Scenario, vehicles: list[int]) -> dict[int, list[Emission]]:
    """Return each vehicle's emissions from a living status of its own, without blocks and without a fleet."""
    found = defaultdict(list)
    own = {}
    encode = scenario.payload_format.encode
    for due in schedule(scenario, vehicles):
        if due.vehicle not in own:
            model = scenario.model_of(due.vehicle)
            variant = plan(scenario, due.vehicle).variant
            own[due.vehicle] = Vehicle(due.vehicle, variant, Random(f"{scenario.seed}/{model}/drive"))
        vehicle = own[due.vehicle]
        vehicle.advance(due.due_offset_ns)
        status = vehicle.status(due.sequence, due.epoch, START_AT_NS + due.due_offset_ns, vehicle.cause)
        found[due.vehicle].append(Emission(*due, encode(status)))
    return found


def by_vehicle(found: list[Emission]) -> dict[int, list[Emission]]:
    dealt = defaultdict(list)
    for one in found:
        dealt[one.vehicle].append(one)
    return dealt


def test_the_formats_that_are_made_in_blocks_are_these():
    assert IN_BLOCKS == ["protobuf", "flatbuffers", "avro"]


@pytest.mark.parametrize("name", RECORDED)
def test_the_bytes_of_a_seed_are_as_they_were(name):
    """Digests of what the fleet gave when it encoded each payload from a status of its own."""
    which, format_name = name.split("/")
    digest = hashlib.sha256()
    found = list(emissions(SCENARIOS[which].model_copy(update={"format": format_name}), START_AT_NS))
    for one in found:
        digest.update(repr(one[:4]).encode() + one.payload)
    assert [len(found), digest.hexdigest()[:16]] == RECORDED[name]


@settings(deadline=None, max_examples=15)
@given(
    name=st.sampled_from(IN_BLOCKS),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(1, 2**31 - 1),
    vehicles=st.integers(1, 30),
    interval_s=st.sampled_from([0.05, 0.3, 1.0, 1.7, 45.0]),
    rounds=st.integers(1, 8),
    weights=st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any),
    staged=st.booleans(),
    shards=st.integers(1, 3),
    block=st.sampled_from([1, 5, 64]),
)
def test_blocks_change_no_byte(
    name, seed, epoch, vehicles, interval_s, rounds, weights, staged, shards, block
):
    half_s = interval_s * rounds
    shares = [weight / sum(weights) for weight in weights]
    stages = (
        Stage(duration_s=half_s, begin_vehicles=0, end_vehicles=vehicles),
        Stage(duration_s=half_s, begin_vehicles=vehicles, end_vehicles=vehicles // 2),
    )
    scenario = Scenario(
        vehicles=vehicles,
        interval_s=interval_s,
        duration_s=2 * half_s,
        format=name,
        seed=seed,
        epoch=epoch,
        mix=VariantMix(**dict(zip(("rigid", "trailer", "hybrid", "stub"), shares, strict=True))),
        stages=stages if staged else (),
    )
    expected = one_by_one(scenario, list(range(1, vehicles + 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_module, "BLOCK_MESSAGES", block)
        for shard in range(shards):
            own = list(range(1 + shard, vehicles + 1, shards))
            if own:
                found = list(emissions(scenario, START_AT_NS, own))
                assert [one[:4] for one in found] == [tuple(one) for one in schedule(scenario, own)]
                assert by_vehicle(found) == {k: expected[k] for k in own if k in expected}


# A format is held to the same bytes by the test above; the hours are the vehicles', whose rare events all formats share.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if place else ()) for place, name in enumerate(IN_BLOCKS)],
)
def test_hours_of_driving_stay_the_same(name):
    """Lamps, faults, refuelling, handovers and legs: what is rare comes up in some hours."""
    scenario = Scenario(vehicles=14, interval_s=31.0, duration_s=31.0 * 60, format=name, seed=11)
    expected = one_by_one(scenario, list(range(1, 15)))
    found = by_vehicle(list(emissions(scenario, START_AT_NS)))
    assert found == expected
    statuses = [FORMATS[name].decode(one.payload) for vehicle in found.values() for one in vehicle[::4]]
    assert {lamp.state for status in statuses for lamp in status.lamps} > {"LAMP_OFF", "LAMP_RED"}
    assert "LAMP_CHANGE" in {status.header.cause for status in statuses if status.header is not None}


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10**9),
    variants=st.lists(st.sampled_from(["rigid", "trailer", "hybrid", "stub"]), min_size=1, max_size=20),
    steps=st.lists(st.sampled_from([0, 20_000_000, 1_000_000_000, 3_700_000_000]), min_size=1, max_size=60),
)
def test_drives_in_columns_are_drives_one_by_one(seed, variants, steps):
    ones = [Drive(variant, Random(f"{seed}/{k}")) for k, variant in enumerate(variants)]
    many = Drives([Drive(variant, Random(f"{seed}/{k}")) for k, variant in enumerate(variants)])
    everyone = np.arange(len(variants))
    for step_ns in steps:
        for one in ones:
            for part_ns in [1_000_000_000] * (step_ns // 1_000_000_000) + [step_ns % 1_000_000_000]:
                if part_ns:
                    one.step(part_ns / 1e9)
        state = many.advance(everyone, np.full(len(variants), step_ns))
        assert state.shape == (len(STATE), len(variants))
        assert state.T.tolist() == [[float(number) for number in state_of(one)] for one in ones]


def test_as_many_payloads_wait_as_two_blocks_have():
    fleet = Fleet(Scenario(vehicles=150, duration_s=8.0))
    most = max(fleet.ready() for _ in fleet.emissions(START_AT_NS))
    assert 0 < most <= 2 * BLOCK_MESSAGES
    alone = Fleet(Scenario(vehicles=3, duration_s=90.0))
    assert max(alone.ready() for _ in alone.emissions(START_AT_NS)) <= BLOCK_MESSAGES + 3
