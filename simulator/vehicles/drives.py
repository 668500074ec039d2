"""Many drives at once, a column each: the steps of `drive.Drive` and `route.Route`, number for number.

One vehicle is driven faster in Python's own numbers, some tens in columns. NumPy's arithmetic is Python's (IEEE 754), but
its sine and its kin may differ in the last bit, so these are Python's. Draws come from each vehicle's own stream, in the
order in which `Drive` takes them: next leg, target speed, idling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import atan2, cos, hypot, pi, sin
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simulator.vehicles.drive import (
    AIR_FACTOR,
    GRAVITY,
    IDLE_RPM,
    LIMITS_KMH,
    MOTOR_KW,
    PACK_WH,
    RATIOS,
    ROLLING,
    TOP_GEAR,
    WHEEL_M,
    Drive,
)
from simulator.vehicles.route import METRES_PER_DEGREE

Column = NDArray[np.float64]

# The rows of `Drives.state`, in the order in which `_step` takes them.
STATE: Final = (
    "speed_mps", "acceleration_mps2", "target_mps", "leg_left_m", "stop_left_s", "stops_next", "standing_s", "driven_s",
    "gear", "engine_rpm", "torque_pct", "pedal_pct", "brake_pct", "retarder_pct", "fuel_lph", "used_ml", "fuel_pct",
    "odometer_m", "trip_m", "running_s", "idle_s", "coolant_c", "oil_c", "exhaust_c", "gearbox_c", "tyre_c", "soot_pct",
    "reductant_pct", "charge_pct", "motor_kw", "pack_c", "used_wh", "recuperated_wh", "ambient_c", "mass_kg", "rated_kw",
    "hybrid", "route.angle", "route.heading_deg", "route.yaw_rate_dps", "route.altitude_m", "route.grade_ratio",
    "route.latitude_deg", "route.longitude_deg",
)  # fmt: skip
_ROAD: Final = ("centre_latitude", "centre_longitude", "east_scale", "north_m", "east_m", "bends", "phase")
_state = attrgetter(*STATE)
_road = attrgetter(*_ROAD)
_RATIOS: Final = np.array(RATIOS)
_DEGREES: Final = 180.0 / pi


def state_of(drive: Drive) -> tuple[float, ...]:
    """Return a drive's state in the order of `STATE`."""
    found: tuple[float, ...] = _state(drive)
    return found


class Drives:
    """The state of many drives: `state` has a row for each of `STATE`, a column for each drive."""

    def __init__(self, drives: Sequence[Drive]) -> None:
        self.state: Column = np.array([_state(drive) for drive in drives], dtype=np.float64).T.copy()
        self._road: Column = np.array([_road(drive.route) for drive in drives], dtype=np.float64).T.copy()
        self._rngs = [drive.rng for drive in drives]
        self._parked = np.array([drive.parked for drive in drives], dtype=np.bool_)

    def advance(self, members: NDArray[np.intp], left_ns: NDArray[np.int64]) -> Column:
        """Drive these on by so many nanoseconds, in steps of at most one second; return their state."""
        left_ns = np.where(self._parked[members], 0, left_ns)
        while left_ns.any():
            going = left_ns > 0
            steps_ns = np.minimum(left_ns, 1_000_000_000)[going]
            left_ns[going] -= steps_ns
            some = members[going]
            state = self.state[:, some]
            _step(state, self._road[:, some], [self._rngs[k] for k in some.tolist()], steps_ns / 1e9)
            self.state[:, some] = state
        return self.state[:, members]


def _step(state: Column, road: Column, rngs: list[Any], elapsed_s: Column) -> None:  # noqa: PLR0915
    (
        speed, acceleration, target, leg_left, stop_left, stops_next, standing, driven, gear, rpm, torque, pedal, brake,
        retarder, fuel_lph, used_ml, fuel, odometer, trip, running, idle, coolant, oil, exhaust, gearbox, tyre, soot,
        reductant, charge, motor, pack, used_wh, recuperated, ambient, mass, rated, hybrid, angle, heading, yaw_rate,
        altitude, grade, latitude, longitude,
    ) = state  # fmt: skip

    # Speed: the leg's limit, a brake in time for its end, a stand where it says so.
    stopped = stop_left > 0.0
    stop_left -= np.where(stopped, elapsed_s, 0.0)
    leg_left -= np.where(stopped, 0.0, speed * elapsed_s)
    draws = np.zeros(len(speed))
    ends = ~stopped & (leg_left <= 0.0)
    if ends.any():
        for k in np.flatnonzero(ends).tolist():
            _next_leg(k, rngs[k], target, leg_left, stop_left, stops_next)
    going = np.flatnonzero(~stopped).tolist()
    draws[going] = [rngs[k].random() for k in going]
    wanted = target * (1.0 + 0.02 * (draws - 0.5))
    braking = (stops_next > 0.0) & (speed * speed > 1.5 * np.maximum(leg_left - 5.0, 0.5))
    wish = np.where(braking, -speed * speed / (2.0 * np.maximum(leg_left, 3.0)), (wanted - speed) * 0.25)
    ceiling = np.minimum(1.1, 0.55 * rated * 1e3 / (mass * np.maximum(speed, 4.0)))
    wish = np.minimum(np.maximum(wish, -2.2), ceiling)
    eased = acceleration + (wish - acceleration) * np.minimum(1.0, 0.7 * elapsed_s)
    acceleration[:] = np.where(stopped, -speed / elapsed_s, eased)

    # Motion.
    before = speed.copy()
    speed[:] = np.maximum(before + acceleration * elapsed_s, 0.0)
    speed[(speed < 0.3) & (acceleration <= 0.0)] = 0.0
    acceleration[:] = (speed - before) / elapsed_s
    way_m = (before + speed) * 0.5 * elapsed_s
    moving = speed > 0.0
    standing[:] = np.where(moving, 0.0, standing + elapsed_s)
    driven[:] = np.where(moving, (driven + elapsed_s) % 16_200.0, driven)
    odometer += way_m
    trip += way_m
    _follow(road, way_m, elapsed_s, (angle, heading, yaw_rate, altitude, grade, latitude, longitude))
    resistance_n = mass * GRAVITY * (ROLLING + grade) + AIR_FACTOR * speed * speed
    force_n = np.where(speed == 0.0, 0.0, resistance_n + mass * acceleration)

    # Gears: the engine stays between 900 and 1,500 rpm.
    turns = speed / WHEEL_M * 60.0
    chosen = np.maximum(gear, 1.0).astype(np.intp)
    while (up := (chosen < TOP_GEAR) & (turns * _RATIOS[chosen] > 1_450.0)).any():
        chosen += up
    while (down := (chosen > 1) & (turns * _RATIOS[chosen] < 900.0)).any():
        chosen -= down
    slow = speed < 0.5
    gear[:] = np.where(slow, 0, chosen)
    rpm[:] = np.maximum(turns * _RATIOS[chosen], IDLE_RPM)
    idling = np.flatnonzero(slow).tolist()
    rpm[idling] = [IDLE_RPM + 12.0 * (rngs[k].random() - 0.5) for k in idling]

    # Power: engine, motor and brakes share it.
    wheel_kw = force_n * speed / 1e3
    motor[:] = 0.0
    mixed = np.flatnonzero(hybrid)
    if mixed.size:
        _assist(mixed, wheel_kw, elapsed_s, charge, motor, pack, used_wh, recuperated, ambient)
    engine_kw = np.minimum(np.maximum(np.maximum(wheel_kw, 0.0) / 0.92 + 4.0 - motor, 3.0), rated)
    full_kw = rated * np.minimum(1.0, rpm / 1_300.0)
    torque[:] = np.minimum(100.0, 100.0 * engine_kw / full_kw)
    slowing_kw = np.maximum(-wheel_kw + motor, 0.0)
    retarder[:] = np.where(speed > 8.0, np.minimum(100.0, slowing_kw / 3.0), 0.0)
    brake[:] = np.where(acceleration < -0.6, np.minimum(100.0, slowing_kw / 4.0 + 6.0), 0.0)
    pedal[:] = np.where(wheel_kw <= 0.0, 0.0, np.minimum(100.0, torque * 0.92 + 4.0))
    fuel_lph[:] = np.where((wheel_kw < 0.0) & (speed > 3.0), 0.0, 1.2 + engine_kw * 0.235)
    burnt_ml = fuel_lph * elapsed_s / 3.6
    used_ml += burnt_ml
    fuel -= burnt_ml / 6_000.0
    reductant -= burnt_ml / 40_000.0
    fuel[fuel < 6.0] = 97.0
    reductant[reductant < 8.0] = 96.0
    running += elapsed_s
    idle += np.where(speed == 0.0, elapsed_s, 0.0)

    # Heat.
    load = torque * 0.01
    coolant += (82.0 + 7.0 * load - coolant) * elapsed_s / 240.0
    oil += (90.0 + 14.0 * load - oil) * elapsed_s / 420.0
    exhaust += (150.0 + 320.0 * load - exhaust) * elapsed_s / 25.0
    gearbox += (ambient + 48.0 + 18.0 * load - gearbox) * elapsed_s / 900.0
    tyre += (ambient + speed * 0.9 - tyre) * elapsed_s / 1_200.0
    soot += (0.003 * load - 0.0006) * elapsed_s
    soot[(soot > 80.0) & (exhaust > 330.0)] = 8.0


def _next_leg(  # noqa: PLR0917 - a part of `_step`
    k: int, rng: Any, target: Column, leg_left: Column, stop_left: Column, stops_next: Column
) -> None:
    if stops_next[k]:
        stop_left[k] = rng.choice((6.0, 15.0, 30.0, 45.0, 90.0)) * rng.uniform(0.5, 1.5)
    target_mps = rng.choice(LIMITS_KMH) / 3.6
    target[k] = target_mps
    leg_left[k] = target_mps * rng.uniform(25.0, 240.0)
    stops_next[k] = rng.random() < (0.75 if target_mps < 15.0 else 0.2)


def _assist(  # noqa: PLR0917 - a part of `_step`
    mixed: NDArray[np.intp],
    wheel_kw: Column,
    elapsed_s: Column,
    charge: Column,
    motor: Column,
    pack: Column,
    used_wh: Column,
    recuperated: Column,
    ambient: Column,
) -> None:
    """Let the motors of the hybrids help, or recuperate."""
    wheel, elapsed, left = wheel_kw[mixed], elapsed_s[mixed], charge[mixed]
    slowing, full, helps = wheel < 0.0, left < 92.0, left > 20.0
    kept = np.where(full, np.maximum(wheel * 0.6, -MOTOR_KW), 0.0)
    kw = np.where(slowing, kept, np.where(helps, np.minimum(wheel * 0.3, MOTOR_KW), -8.0))
    recuperated[mixed] -= np.where(slowing, kw * elapsed / 3.6, 0.0)
    used_wh[mixed] += np.where(~slowing & helps, kw * elapsed / 3.6, 0.0)
    charge[mixed] -= kw * elapsed / 3.6 / PACK_WH * 100.0
    pack[mixed] += (ambient[mixed] + 8.0 + np.abs(kw) * 0.15 - pack[mixed]) * 0.0008 * elapsed
    motor[mixed] = kw


def _follow(road: Column, way_m: Column, elapsed_s: Column, place: tuple[Column, ...]) -> None:
    """Go along the roads, as `Route.follow` does."""
    angle, heading, yaw_rate, altitude, grade, latitude, longitude = place
    yaw_rate[way_m == 0.0] = 0.0
    go = np.flatnonzero(way_m)
    if not go.size:
        return
    centre_latitude, centre_longitude, east_scale, north_m, east_m, bends, phase = road[:, go]
    at = angle[go]
    bend_m = 0.02 * north_m
    bend = bends * at + phase
    north = -north_m * _each(sin, at) - bend_m * bends * _each(sin, bend)
    east = east_m * _each(cos, at) + bend_m * bends * _each(cos, bend)
    length = np.fromiter(map(hypot, north.tolist(), east.tolist()), np.float64, len(north))
    angle[go] = at = (at + way_m[go] / length) % (2.0 * pi)
    bend = bends * at + phase
    latitude[go] = (
        centre_latitude + (north_m * _each(cos, at) + bend_m * _each(cos, bend)) / METRES_PER_DEGREE
    )
    longitude[go] = centre_longitude + (east_m * _each(sin, at) + bend_m * _each(sin, bend)) / east_scale
    towards = (
        np.fromiter(map(atan2, east.tolist(), north.tolist()), np.float64, len(north)) * _DEGREES % 360.0
    )
    turned = (towards - heading[go] + 180.0) % 360.0 - 180.0
    heading[go] = towards
    yaw_rate[go] = turned / elapsed_s[go]
    hill, rise = bend * 0.7, 3.0 * at
    altitude[go] = 80.0 + 35.0 * _each(sin, hill) + 15.0 * _each(sin, rise)
    grade[go] = (24.5 * bends * _each(cos, hill) + 45.0 * _each(cos, rise)) / length


def _each(function: Callable[[float], float], column: Column) -> Column:
    """Return a function of each number, by Python's own mathematics."""
    return np.fromiter(map(function, column.tolist()), np.float64, len(column))
