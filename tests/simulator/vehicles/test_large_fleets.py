"""Fleets beyond a link's addresses: names, shards that together are the fleet, and files in little memory."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivsim.share import FleetShare, share_of
from schemas.formats import FORMATS
from schemas.topics import MAX_FLEET, MAX_VEHICLES, vehicle_address, vehicle_id
from simulator import fleet_files
from simulator.fleet import emissions, messages_due
from simulator.fleet_files import write_fleet
from simulator.scenario import Scenario

START = 1_704_067_200_000_000_000
# Where names and addresses change their form, and the ends.
EDGES = (1, MAX_VEHICLES, MAX_VEHICLES + 1, 999_999, 1_000_000, MAX_FLEET)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(1, MAX_FLEET))


def test_names_of_six_digits_are_what_they_were_and_a_seventh_takes_the_plants_place() -> None:
    assert vehicle_id(1) == "YV2RT40A8KB000001"
    assert vehicle_id(999_999) == "YV2RT40A8KB999999"
    assert vehicle_id(1_000_000) == "YV2RT40A8K1000000"
    assert vehicle_id(MAX_FLEET) == "YV2RT40A8K9999999"


@given(st.sets(NUMBERS, min_size=2))
def test_no_two_names_are_alike_and_all_are_as_long(numbers: set[int]) -> None:
    names = {vehicle_id(number) for number in numbers}
    assert len(names) == len(numbers)
    assert {len(name) for name in names} == {17}


@pytest.mark.parametrize("number", [0, MAX_FLEET + 1])
def test_there_is_no_name_beyond_seven_digits(number: int) -> None:
    with pytest.raises(ValueError, match=f"^vehicle number {number}: allowed 1 to 9999999$"):
        vehicle_id(number)


def test_only_vehicles_of_a_run_have_addresses() -> None:
    assert vehicle_address(MAX_VEHICLES) == "198.18.253.232"
    with pytest.raises(ValueError, match="allowed 1 to 65000"):
        vehicle_address(MAX_VEHICLES + 1)


@given(st.integers(1, MAX_FLEET), st.integers(1, 10_000), st.data())
def test_every_vehicle_is_in_one_shard(vehicles: int, count: int, data: st.DataObject) -> None:
    shards = [FleetShare(index, count).vehicles(vehicles) for index in range(1, count + 1)]
    assert sum(map(len, shards)) == vehicles
    number = data.draw(st.integers(1, vehicles))
    assert [index for index, own in enumerate(shards, 1) if number in own] == [(number - 1) % count + 1]


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "1/2/3", "\u0661/3"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r": write K/N with K from 1 to N, and N up to 1000$"):
        share_of(text)


@given(
    st.sets(NUMBERS, min_size=2, max_size=6),
    st.integers(1, 3),
    st.sampled_from(list(FORMATS)),
    st.integers(0, 2**63 - 1),
)
@settings(deadline=None, max_examples=12)
def test_shards_of_a_large_fleet_together_send_what_one_process_would_byte_for_byte(
    numbers: set[int], count: int, name: str, seed: int
) -> None:
    fleet = Scenario(vehicles=MAX_FLEET, interval_s=0.7, duration_s=1.5, format=name, seed=seed)
    whole = sorted(emissions(fleet, START, sorted(numbers)))
    dealt = [
        [number for number in sorted(numbers) if number in FleetShare(index, count).vehicles(MAX_FLEET)]
        for index in range(1, count + 1)
    ]
    assert sorted(chain.from_iterable(emissions(fleet, START, own) for own in dealt)) == whole
    # A vehicle's messages are its own: neither its fellows nor the size of the fleet change them.
    small = fleet.model_copy(update={"vehicles": 1})
    first = sorted(emissions(small, START))
    assert first == sorted(emissions(fleet, START, [1]))


@given(
    fleet=st.builds(
        Scenario,
        vehicles=st.integers(1, 9),
        interval_s=st.sampled_from([0.3, 1.0]),
        duration_s=st.sampled_from([0.2, 2.4]),
        format=st.sampled_from(list(FORMATS)),
        seed=st.integers(0, 2**63 - 1),
    ),
    count=st.integers(1, 3),
    each=st.integers(1, 4),
)
@settings(deadline=None, max_examples=10)
def test_the_files_of_all_shards_are_the_fleet_byte_for_byte(fleet: Scenario, count: int, each: int) -> None:
    whole = sorted(
        (one.due_offset_ns, vehicle_id(one.vehicle), one.epoch, one.sequence, one.payload)
        for one in emissions(fleet, START)
    )
    with TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patched:
        patched.setattr(fleet_files, "FILE_VEHICLES", each)
        patched.setattr(fleet_files, "BATCH_ROWS", 3)
        written = [
            file
            for index in range(1, min(count, fleet.vehicles) + 1)
            for file in write_fleet(
                fleet,
                FleetShare(index, min(count, fleet.vehicles)).vehicles(fleet.vehicles),
                START,
                Path(base),
            )
        ]
        assert sorted(file.path for file in written) == sorted(Path(base).iterdir())
        tables = [pq.read_table(file.path) for file in written]
    rows = []
    for file, table in zip(written, tables, strict=True):
        assert table.num_rows == file.messages
        assert table["due_offset_ns"].to_pylist() == sorted(table["due_offset_ns"].to_pylist())
        rows += [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(rows) == whole
    assert sum(file.vehicles for file in written) == fleet.vehicles
    assert sum(file.messages for file in written) == messages_due(fleet)
    assert sum(file.payload_bytes for file in written) == sum(len(row[-1]) for row in whole)
