"""Vehicles are where their trace was recorded, at the second whose conditions their link has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from schemas.formats import FORMATS
from schemas.messages import CurrentStatus
from simulator.fleet import Emission, emissions
from simulator.link_schedule import LinkSchedule
from simulator.scenario import Scenario
from simulator.traces import Trace, write_trace
from simulator.traces.track import METRES_PER_DEGREE, Track

START_AT_NS = 1_700_000_000_123_456_789
SECOND = 1_000_000_000
FORMATS_WITH_PLACES = [name for name, one in FORMATS.items() if not one.header_only]
# 20 s to the north, each 20 m a second, a stand of 3 s, and back.
NORTH = Trace(
    np.arange(43.0),
    rtt_ms=np.arange(43.0),
    latitude_deg=-33.0 + np.array([*range(20), 20, 20, 20, *range(19, -1, -1)]) * 20 / METRES_PER_DEGREE,
    longitude_deg=np.full(43, 151.2),
)
# Across the meridian at 180 degrees, eastwards; no rate is told.
EAST = Trace(
    np.arange(4.0) * 2.0,
    rtt_ms=100.0 + np.arange(4.0),
    latitude_deg=np.zeros(4),
    longitude_deg=np.array([179.9998, 179.9999, -180.0, -179.9999]),
    last_step_s=2.0,
)
NOWHERE = Trace(np.arange(9.0), rtt_ms=200.0 + np.arange(9.0))


def files(folder: Path, *traces: Trace) -> tuple[str, ...]:
    found = []
    for number, trace in enumerate(traces):
        path = folder / f"{number}.csv"
        write_trace(trace, path)
        found.append(str(path))
    return tuple(found)


def read(one: Emission, name: str) -> CurrentStatus:
    return FORMATS[name].decode(one.payload)


def test_heading_and_speed_are_of_the_way_to_the_next_place() -> None:
    fixes = Track(NORTH).fixes
    assert_allclose(fixes[:, 3], [72.0] * 20 + [0.0, 0.0] + [72.0] * 21, atol=0.04)
    # Who stands keeps the heading with which he came; the last step goes on as the one before it.
    assert fixes[:, 2].tolist() == [0.0] * 22 + [180.0] * 21


def test_the_way_across_the_meridian_is_short() -> None:
    fixes = Track(EAST).fixes
    assert fixes[:, 2].tolist() == [90.0] * 4
    assert_allclose(fixes[:, 3], 0.0001 * METRES_PER_DEGREE / 2 * 3.6, atol=0.04)


def test_a_drive_that_never_moves_has_no_way() -> None:
    still = Trace(np.arange(2.0), rtt_ms=np.ones(2), latitude_deg=np.ones(2), longitude_deg=np.ones(2))
    assert Track(still).fixes.tolist() == [[1.0, 1.0, 0.0, 0.0]] * 2
    once = Trace(np.zeros(1), rtt_ms=np.ones(1), latitude_deg=np.ones(1), longitude_deg=np.ones(1))
    assert Track(once).fixes.tolist() == [[1.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("name", FORMATS_WITH_PLACES)
def test_vehicles_are_where_their_links_are(tmp_path: Path, name: str, offsets: bool) -> None:
    traces = (NORTH, EAST, NOWHERE)
    scenario = Scenario(
        vehicles=14, duration_s=9.0, interval_s=0.75, seed=5, format=name,
        traces=files(tmp_path, *traces), trace_offsets=offsets,
    )  # fmt: skip
    links = LinkSchedule(NORTH, 14, 5, others=(EAST, NOWHERE), offsets=offsets)
    made_up = {(e.vehicle, e.sequence): e for e in emissions(without_roads(scenario), START_AT_NS)}
    found = list(emissions(scenario, START_AT_NS))
    assert [e[:4] for e in found] == [e[:4] for e in made_up.values()]
    for e in found:
        trace = traces[(e.vehicle - 1) % 3]
        own, other = read(e, name), read(made_up[e.vehicle, e.sequence], name)
        assert own.position is not None
        assert other.position is not None
        if trace is NOWHERE:
            assert own == other
            continue
        # The link's delay tells its step: RTTs here count them.
        uplink, _ = links.at(e.due_offset_ns // SECOND)[e.vehicle]
        step = round(uplink.delay_ms * 2) % 100
        place = trace.places()
        assert own.position.latitude_deg == round(float(place["latitude_deg"][step]), 6)
        assert own.position.longitude_deg == round(float(place["longitude_deg"][step]), 6)
        assert [own.position.heading_deg, own.position.ground_speed_kmh] == Track(trace).fixes[
            step, 2:
        ].tolist()
        # Nothing else is another: the vehicle's own drive goes on.
        other.position.latitude_deg, other.position.longitude_deg = (
            own.position.latitude_deg,
            own.position.longitude_deg,
        )
        other.position.heading_deg = own.position.heading_deg
        other.position.ground_speed_kmh = own.position.ground_speed_kmh
        assert own == other


def without_roads(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"traces": ()})


def test_a_shard_has_the_places_that_the_fleet_has(tmp_path: Path) -> None:
    scenario = Scenario(vehicles=30, duration_s=4.0, traces=files(tmp_path, NORTH))
    whole = list(emissions(scenario, START_AT_NS))
    assert list(emissions(scenario, START_AT_NS, [2, 30])) == [e for e in whole if e.vehicle in {2, 30}]
    assert whole != list(emissions(without_roads(scenario), START_AT_NS))


def test_a_trace_without_places_changes_no_byte(tmp_path: Path) -> None:
    scenario = Scenario(vehicles=3, duration_s=4.0, traces=files(tmp_path, NOWHERE))
    assert list(emissions(scenario, START_AT_NS)) == list(emissions(without_roads(scenario), START_AT_NS))
