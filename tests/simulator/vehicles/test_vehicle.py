from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from simulator.vehicles.vehicle import Vehicle

SECOND_NS = 1_000_000_000


def drive(variant, seed, seconds):
    """Yield the living status after each second."""
    vehicle = Vehicle(9, variant, Random(seed))
    for k in range(seconds):
        vehicle.advance(k * SECOND_NS)
        yield vehicle.status(k + 1, 1, k * SECOND_NS, vehicle.cause)


@pytest.mark.parametrize("variant", ["rigid", "trailer", "hybrid"])
def test_a_drive_is_consistent(variant):
    before = None
    for status in drive(variant, 31, 1_500):
        speed = status.position.ground_speed_kmh
        assert 0.0 <= speed < 100.0
        if before is not None:
            old_speed, old_place, old_used = before
            assert abs(speed - old_speed) < 12.0
            north_m = (status.position.latitude_deg - old_place[0]) * 111_320
            east_m = (status.position.longitude_deg - old_place[1]) * 111_320 * 0.524
            driven_m = (speed + old_speed) / 7.2
            assert abs((north_m**2 + east_m**2) ** 0.5 - driven_m) < 1.5
            used = status.combustion.total_fuel_used_ml
            assert used is None or used.value >= old_used
        used = status.combustion.total_fuel_used_ml
        before = (
            speed,
            (status.position.latitude_deg, status.position.longitude_deg),
            used.value if used else 0,
        )
        rpm = status.combustion.engine_speed_rpm
        assert rpm is None or 550.0 < rpm.value < 2_100.0
        for reading in (status.combustion.engine_load_pct, status.combustion.fuel_level_primary_pct):
            assert reading is None or 0.0 <= reading.value <= 100.0


def test_a_long_drive_visits_every_gear_and_stands_at_times():
    gears, standing, lamps = set(), 0, set()
    for status in drive("rigid", 12, 5_000):
        gears.add(status.drivetrain.current_gear)
        standing += status.position.ground_speed_kmh == 0.0
        lamps |= {lamp.lamp for lamp in status.lamps if lamp.state != "LAMP_OFF"}
    assert gears == set(range(13))
    assert 100 < standing < 2_500
    assert len(lamps) >= 3


def test_a_hybrid_recuperates():
    charges = [s.traction.state_of_charge_pct.value for s in drive("hybrid", 4, 1_500)]
    steps = [b - a for a, b in pairwise(charges)]
    assert min(steps) < 0.0 < max(steps)
    assert all(0.0 < charge < 100.0 for charge in charges)


def test_variants_have_the_sections_that_they_should():
    have = {v: next(drive(v, 5, 1)) for v in ("rigid", "trailer", "hybrid", "stub")}
    assert have["hybrid"].traction is not None
    assert have["rigid"].traction is None
    assert len(have["trailer"].trailers) == 1
    assert have["stub"].motion is None
    assert have["stub"].header.cause == "IGNITION_ON"
    assert len(have["rigid"].lamps) == 60


def test_about_thirty_values_change_at_a_tick():
    changed = []
    vehicle = Vehicle(9, "hybrid", Random(2))
    for k in range(300):
        vehicle.advance(k * SECOND_NS)
        status = vehicle.status(k + 1, 1, 0, "PERIODIC")
        changed.append(len(status.changed))
        status.changed.clear()
    assert 18 < sum(changed) / len(changed) < 40


def test_readings_are_the_same_number_in_every_width():
    from struct import pack, unpack  # noqa: PLC0415

    for status in drive("hybrid", 3, 200):
        for unit in status.units:
            value = getattr(unit, "value", 0.0)
            if isinstance(value, float):
                assert unpack("<f", pack("<f", value))[0] == value
                assert float(repr(value)) == value


def test_a_pause_is_driven_through_in_steps():
    a, b = (Vehicle(9, "rigid", Random(2)) for _ in range(2))
    a.advance(0)
    b.advance(0)
    a.advance(60 * SECOND_NS)
    metres = a.status(1, 1, 0, "PERIODIC").motion.trip_distance_m.value
    for k in range(1, 61):
        b.advance(k * SECOND_NS)
    assert abs(b.status(1, 1, 0, "PERIODIC").motion.trip_distance_m.value - metres) < 800
    with pytest.raises(ValueError, match="already at"):
        a.advance(0)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="rigid, trailer, hybrid, stub"):
        Vehicle(1, "tractor", Random(1))


def test_lamps_say_what_the_flags_say():
    for status in drive("rigid", 12, 3_000):
        lit = {lamp.lamp for lamp in status.lamps if lamp.state != "LAMP_OFF"}
        for flag, lamp in (
            (status.motion.parking_brake_engaged, "PARKING_BRAKE_SET"),
            (status.body.hazard_lights_on, "HAZARD_LIGHTS_ON"),
            (status.body.driver_door_open, "DOOR_OPEN"),
        ):
            assert flag is None or flag.active == (lamp in lit)


def test_axles_carry_the_vehicle():
    vehicle = Vehicle(9, "trailer", Random(1))
    vehicle.advance(0)
    status = vehicle.status(1, 1, 0, "PERIODIC")
    axles = [*status.axles, *status.trailers[0].axles]
    carried_kg = sum(axle.axle_load_kg.value for axle in axles)
    assert abs(carried_kg - vehicle.drive.mass_kg) < 4
