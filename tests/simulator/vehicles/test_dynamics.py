"""The vehicle's dynamics against real drives (carOBD, 1 Hz, a car): what holds for anything on a road."""

from __future__ import annotations

import csv
import os
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import correlation, mean

import pytest

from simulator.vehicles.vehicle import Vehicle

TRACES = Path(os.environ.get("IVSIM_TRACES_REAL", Path(__file__).parents[4] / "shared" / "traces-real"))
FOLDER = TRACES / "carobd"


def real_drives():
    files = sorted(FOLDER.glob("drive*.csv"))
    assert files, (
        f"no drive*.csv in {FOLDER}: the real drives are missing (IVSIM_TRACES_REAL names their parent)"
    )
    for path in files:
        with path.open() as file:
            rows = csv.reader(file, skipinitialspace=True)
            names = [name.removesuffix(" ()") for name in next(rows)]
            yield [dict(zip(names, map(float, row[: len(names)]), strict=True)) for row in rows]


def columns_of_real():
    for rows in real_drives():
        yield {
            "speed": [row["VEHICLE_SPEED"] for row in rows],
            "rpm": [row["ENGINE_RPM"] for row in rows],
            "load": [row["ENGINE_LOAD"] for row in rows],
            "coolant": [row["COOLANT_TEMPERATURE"] for row in rows],
            "pressure": [row["INTAKE_MANIFOLD_PRESSURE"] for row in rows],
        }


def columns_of_ours(seed, seconds=900):
    vehicle = Vehicle(1, "rigid", Random(seed))
    drive = vehicle.drive
    columns = {name: [] for name in ("speed", "rpm", "load", "coolant", "pressure")}
    for k in range(seconds):
        vehicle.advance(k * 1_000_000_000)
        status = vehicle.status(k + 1, 1, 0, "PERIODIC")
        columns["speed"].append(status.position.ground_speed_kmh)
        columns["rpm"].append(drive.engine_rpm)
        columns["load"].append(drive.torque_pct)
        columns["coolant"].append(drive.coolant_c)
        columns["pressure"].append(101.0 + drive.torque_pct * 1.9)
    return columns


@pytest.fixture(scope="module")
def real():
    return list(columns_of_real())


@pytest.fixture(scope="module")
def ours():
    return [columns_of_ours(seed) for seed in range(6)]


def steps(values):
    return [b - a for a, b in pairwise(values)]


def lag_1(values):
    return correlation(values[:-1], values[1:])


def test_speed_changes_no_faster_than_on_the_road(real, ours):
    fastest = max(abs(step) for drive in real for step in steps(drive["speed"]))
    assert max(abs(step) for drive in ours for step in steps(drive["speed"])) <= fastest


def test_speed_is_as_smooth_as_on_the_road(real, ours):
    # 1 Hz: the next second is nearly this one, as in the real drives (about 0.98).
    roughest = min(lag_1(drive["speed"]) for drive in real)
    assert all(lag_1(drive["speed"]) > roughest - 0.02 for drive in ours)
    assert mean(abs(s) for d in ours for s in steps(d["speed"])) > 0.1


def test_vehicles_stand_and_drive(real, ours):
    for drives in (real, ours):
        speeds = [speed for drive in drives for speed in drive["speed"]]
        assert 0.01 < sum(speed == 0.0 for speed in speeds) / len(speeds) < 0.6
        assert max(speeds) > 40.0


def test_engines_idle_when_standing(real, ours):
    for drives in (real, ours):
        idle = [
            rpm
            for drive in drives
            for speed, rpm in zip(drive["speed"], drive["rpm"], strict=True)
            if speed == 0.0 and rpm > 0.0
        ]
        moving = [
            rpm
            for drive in drives
            for speed, rpm in zip(drive["speed"], drive["rpm"], strict=True)
            if speed > 20.0
        ]
        assert mean(idle) < 0.75 * mean(moving)


def test_load_and_manifold_pressure_go_together(real, ours):
    for drive in (*real, *ours):
        running = [
            (a, b) for a, b, r in zip(drive["load"], drive["pressure"], drive["rpm"], strict=True) if r > 0
        ]
        assert correlation(*zip(*running, strict=True)) > 0.3


def test_coolant_moves_slowly_and_never_boils(real, ours):
    fastest = max(abs(step) for drive in real for step in steps(drive["coolant"]))
    for drive in ours:
        assert max(abs(step) for step in steps(drive["coolant"])) <= fastest
        assert max(drive["coolant"]) < 105.0


def test_missing_drives_are_named(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "FOLDER", tmp_path / "carobd")
    with pytest.raises(AssertionError, match="carobd"):
        list(real_drives())
