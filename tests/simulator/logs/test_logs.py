"""Recorded drives: read as they are, refused with file and line, replayed as the same bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import Refusal
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.fleet import Fleet, emissions, schedule
from simulator.logs import LOG_READERS, read_log
from simulator.logs.base import Drive
from simulator.logs.signals import SIGNALS, UNITS
from simulator.scenario import Scenario
from simulator.vehicles.logged import LoggedVehicle
from twin.service.decoded import no_fix

ROOT = Path(__file__).resolve().parents[3]
LOG, MAPPING = ROOT / "examples/drives/two-trucks.csv", ROOT / "examples/drives/two-trucks.toml"
START_AT_NS = 1_700_000_000_123_456_789
SECOND = 1_000_000_000

SPEED = (
    'time = { column = "t", unit = "s" }\n[signals]\n"motion.wheel_speed_average_kmh" = { column = "v" }\n'
)
GPX = """<?xml version="1.0"?>
<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>ride</name><trkseg>
<trkpt lat="60.0" lon="18.0"><ele>12.5</ele><time>2024-05-01T10:00:00Z</time></trkpt>
<trkpt lat="60.001" lon="18.0"><time>2024-05-01T10:00:10Z</time></trkpt>
<trkpt lat="60.001" lon="18.002"><ele>14</ele><time>2024-05-01T10:00:20.500Z</time></trkpt>
</trkseg></trk></gpx>
"""
FCD = """<?xml version="1.0"?>
<fcd-export xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <timestep time="0.00"><vehicle id="a" x="18.05" y="59.33" angle="90.0" speed="10.0" odometer="12.4"/></timestep>
  <timestep time="0.50"><vehicle id="a" x="18.06" y="59.33" angle="91.0" speed="11.0" odometer="17.6"/>
    <vehicle id="b" x="18.00" y="59.00" angle="0.0" speed="0.0"/><person id="p" x="1" y="1" angle="0" speed="1"/></timestep>
  <timestep time="1.00"><vehicle id="b" x="18.00" y="59.01" angle="0.0" speed="1.0"/></timestep>
</fcd-export>
"""


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def drives_of(folder: Path, rows: str, mapping: str = SPEED) -> tuple[Drive, ...]:
    return read_log(write(folder / "log.csv", rows), write(folder / "log.toml", mapping)).drives


def same(one: tuple[Drive, ...], other: tuple[Drive, ...]) -> bool:
    return [d.vehicle for d in one] == [d.vehicle for d in other] and all(
        np.array_equal(a.time_ns, b.time_ns)
        and a.signals.keys() == b.signals.keys()
        and all(np.array_equal(a.signals[path], b.signals[path], equal_nan=True) for path in a.signals)
        for a, b in zip(one, other, strict=True)
    )


def test_the_example_is_what_it_says() -> None:
    north, south = read_log(LOG, MAPPING).drives
    assert (north.vehicle, south.vehicle) == ("north", "south")
    assert north.length_ns == 180 * SECOND
    assert north.signals["motion.odometer_m"][:2].tolist() == [120_000_000.0, 120_000_020.0]
    assert north.signals["motion.wheel_speed_average_kmh"][0] == pytest.approx(18.0 * 3.6)
    coolant = north.signals["combustion.coolant_temperature_c"]
    assert coolant[0] == pytest.approx((170.0 - 32.0) / 1.8, abs=1e-5)
    assert [math.isnan(value) for value in coolant[:6]] == [False, True, True, True, True, False]


def test_the_how_to_shows_the_examples_mapping() -> None:
    shown = MAPPING.read_text().partition("\n")[2]
    assert f"```toml\n{shown}```\n" in (ROOT / "docs/how-to/own-drives.md").read_text()


def test_parquet_is_csv_in_another_form(tmp_path: Path) -> None:
    table = pa.csv.read_csv(LOG)
    pq.write_table(table, tmp_path / "two-trucks.parquet")
    assert same(read_log(tmp_path / "two-trucks.parquet", MAPPING).drives, read_log(LOG, MAPPING).drives)


def test_instants_in_parquet(tmp_path: Path) -> None:
    at = pa.array(
        [1_700_000_000_000_000_000, 1_700_000_000_250_000_000], pa.timestamp("ns", "Europe/Stockholm")
    )
    pq.write_table(pa.table({"t": at, "v": [1.0, None]}), tmp_path / "log.parquet")
    mapping = write(tmp_path / "log.toml", SPEED.replace('"s"', '"iso8601"'))
    (drive,) = read_log(tmp_path / "log.parquet", mapping).drives
    assert (drive.vehicle, drive.time_ns.tolist()) == ("log", [0, SECOND // 4])
    assert math.isnan(drive.signals["motion.wheel_speed_average_kmh"][1])


def test_gpx(tmp_path: Path) -> None:
    (drive,) = read_log(write(tmp_path / "ride.gpx", GPX), None).drives
    assert drive.vehicle == "ride"
    assert drive.time_ns.tolist() == [0, 10 * SECOND, 20 * SECOND + SECOND // 2]
    # A thousandth of a degree of latitude is 111.19 m, in 10 s.
    assert drive.signals["position.ground_speed_kmh"][:2] == pytest.approx([40.03, 40.03], abs=0.01)
    assert drive.signals["position.heading_deg"] == pytest.approx([0.0, 0.0, 90.0], abs=0.01)
    assert drive.signals["position.altitude_m"][0] == 12.5
    assert math.isnan(drive.signals["position.altitude_m"][1])


def test_floating_car_data(tmp_path: Path) -> None:
    a, b = read_log(write(tmp_path / "fcd.xml", FCD), None).drives
    assert (a.vehicle, b.vehicle) == ("a", "b")
    assert (a.time_ns.tolist(), b.time_ns.tolist()) == ([0, SECOND // 2], [0, SECOND // 2])
    assert a.signals["position.longitude_deg"].tolist() == [18.05, 18.06]
    assert a.signals["position.ground_speed_kmh"] == pytest.approx([36.0, 39.6])
    assert a.signals["motion.odometer_m"].tolist() == [12.0, 18.0]
    assert "motion.odometer_m" not in b.signals


ROWS = "t,v\n0,1\n1,2\n"


def test_rows_without_a_time_come_at_a_rate_and_may_end_in_a_comma(tmp_path: Path) -> None:
    mapping = SPEED.replace('{ column = "t", unit = "s" }', "{ every_s = 0.1 }")
    one, other = drives_of(tmp_path, "car,v\na,1,\nb,7, \na,2,\nb,8,\na,3,,\n", 'vehicle = "car"\n' + mapping)
    assert (one.time_ns.tolist(), other.time_ns.tolist()) == ([0, 10**8, 2 * 10**8], [0, 10**8])
    assert one.signals["motion.wheel_speed_average_kmh"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("t,v\n0,1\n1,two\n", "log.csv:3: v: 'two': no number"),
        ("t,v\n0,1\n1,nan\n", "log.csv:3: v: 'nan': no number"),
        ("t,v\n0,1\n1,1e39\n", "log.csv:3: motion.wheel_speed_average_kmh: 1e+39: at most 3.4e+38"),
        ("t,v\n0,1\n0,2\n", "log.csv:3: the time of 'log' does not increase: 0 s back"),
        ("t,v\n0,1\nsoon,2\n", "log.csv:3: t: 'soon': no time"),
        ("t,v\n0,1\n1\n", "log.csv:3: 1 cells, and the header has 2"),
        ("t,v\n0,1\n1,2,3\n", "log.csv:3: 3 cells, and the header has 2"),
        ('t,v\n0,1\n1,"2\n', "log.csv:3: no line of a CSV file"),
        ("t,v\n0,1\n", "log.csv: 'log' has one row"),
        ("t,v\n", "log.csv: no row of a vehicle"),
        ("", "log.csv: no column 't'"),
        ("t,w\n0,1\n", "log.csv: no column 'v', which the mapping names; columns are t, w"),
        ("t,t\n0,1\n", "log.csv:1: two columns have one name"),
        (b"t,v\n0,1\n1,\xff\n", "no UTF-8"),
    ],
)  # fmt: skip
def test_bad_lines_are_refused(tmp_path: Path, rows: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        drives_of(tmp_path, rows)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ("[signals]\n", "log.toml: time: Field required"),
        (
            SPEED.replace("speed_average", "sped_average"),
            "no signal of CurrentStatus; like it: motion.wheel_speed_average_kmh",
        ),
        (SPEED.replace('"v" }', '"v", unit = "knots" }'), "unit: 'knots': allowed are km/h, m/s, mph, kn"),
        (SPEED.replace('"v" }', '"v", unit = "mph", scale = 2 }'), "unit, or scale and offset, not both"),
        (
            SPEED.replace('"s"', '"minutes"'),
            "log.toml: time.unit: Input should be 's', 'ms', 'us', 'ns' or 'iso8601'",
        ),
        (
            SPEED + '"position.latitude_deg" = { column = "v" }\n',
            "a position needs position.latitude_deg and",
        ),
        (SPEED + '"motion.cruise_control_active" = { column = "v", scale = 2 }\n', "a flag has no scale"),
        (SPEED.replace("signals", "signal"), "log.toml: signals: Field required"),
        ("time = 3 =", "log.toml: "),
        (
            SPEED.replace(', unit = "s"', ""),
            "log.toml: time: column and unit, or every_s where rows have no time",
        ),
        (SPEED.replace('"s"', '"s", every_s = 1.0'), "log.toml: time: column and unit, or every_s"),
    ],
)
def test_bad_mappings_are_refused(tmp_path: Path, mapping: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        drives_of(tmp_path, ROWS, mapping)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.gpx", GPX.replace('lat="60.001" ', "", 1), "a.gpx:4: a point without lat"),
        ("a.gpx", GPX.replace("10:00:10Z", "10:00:00Z"), "a.gpx:4: the time of 'ride' does not increase"),
        ("a.gpx", GPX.replace("<time>2024-05-01T10:00:10Z</time>", ""), "a.gpx:4: a point without time"),
        ("a.gpx", GPX.replace('lat="60.0"', 'lat="95"'), "a.gpx:3: position.latitude_deg: 95: at most 90"),
        ("a.gpx", GPX.replace("12.5", "high"), "a.gpx:3: ele: 'high': no number"),
        ("a.gpx", GPX[:200], "no XML"),
        ("a.gpx", FCD, "a.gpx:2: begins with fcd-export"),
        ("a.gpx", "<!DOCTYPE gpx []>" + GPX[22:], "a.gpx:1: a document type"),
        ("a.xml", GPX, "a.xml:2: begins with gpx"),
        ("a.xml", FCD.replace('x="18.05" ', ""), "a.xml:3: a vehicle without x"),
        ("a.xml", FCD.replace('y="59.33"', 'y="1203.5"', 1), "a.xml:3: x and y are no degrees: write"),
        ("a.xml", FCD.replace('speed="11.0"', 'speed="fast"'), "a.xml:4: speed: 'fast': no number"),
        ("a.xml", FCD.replace('time="0.50"', 'time="x"'), "a.xml:4: time: 'x': no time"),
        ("a.parquet", "no parquet", "a.parquet: a parquet log needs a mapping"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_log(write(tmp_path / name, text), None)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_bad_parquet_file_is_refused(tmp_path: Path) -> None:
    mapping = write(tmp_path / "m.toml", SPEED)
    with pytest.raises(Refusal, match="no whole Parquet file"):
        read_log(write(tmp_path / "a.parquet", "PAR1 not"), mapping)
    pq.write_table(pa.table({"t": [0, 1], "v": ["1", "x"]}), tmp_path / "b.parquet")
    with pytest.raises(Refusal, match=r"b\.parquet: row 2: v: 'x': no number"):
        read_log(tmp_path / "b.parquet", mapping)
    with pytest.raises(Refusal, match=r"nowhere\.parquet: No such file"):
        read_log(tmp_path / "nowhere.parquet", mapping)


def test_a_mapping_where_none_belongs(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="has no effect on a gpx log"):
        read_log(write(tmp_path / "a.gpx", GPX), MAPPING)


def test_every_unit_is_of_a_signal_and_every_reader_has_an_end_of_its_own() -> None:
    assert {path.rsplit("_", 1)[-1] for path in SIGNALS} >= set(UNITS)
    assert len({one.suffix for one in LOG_READERS.values()}) == len(LOG_READERS)


CELLS = st.one_of(st.none(), st.floats(-1e6, 1e6, width=32))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 10**9), CELLS, st.integers(0, 2**53), st.booleans()), min_size=2, max_size=20
    )
)
def test_what_is_written_is_read(tmp_path: Path, rows: list[tuple[int, float | None, int, bool]]) -> None:
    times = np.cumsum([step for step, *_ in rows]).tolist()
    text = "at,v,o,c\n" + "".join(
        f"{at},{'' if v is None else repr(v)},{o},{c}\n" for at, (_, v, o, c) in zip(times, rows, strict=True)
    )
    mapping = (
        'time = { column = "at", unit = "ns" }\n[signals]\n"motion.wheel_speed_average_kmh" = { column = "v" }\n'
        '"motion.odometer_m" = { column = "o" }\n"motion.cruise_control_active" = { column = "c" }\n'
    )
    (drive,) = drives_of(tmp_path, text, mapping)
    assert drive.time_ns.tolist() == [at - times[0] for at in times]
    assert drive.signals["motion.odometer_m"].tolist() == [float(row[2]) for row in rows]
    vehicle = LoggedVehicle(3, drive)
    for row, (_, v, o, c) in enumerate(rows):
        status = vehicle.status(row + 1, 1, int(drive.time_ns[row]), START_AT_NS)
        for name in ("json", "protobuf", "avro", "flatbuffers", "msgpack"):
            back = FORMATS[name].decode(FORMATS[name].encode(status))
            assert back == status
            motion = back.motion
            assert motion is not None
            assert (motion.odometer_m.value, motion.cruise_control_active.active) == (o, c)
            speed = motion.wheel_speed_average_kmh
            assert (None if speed is None else speed.value) == v


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.integers(0, 10**12), min_size=2, max_size=30, unique=True),
    offset=st.integers(0, 2 * 10**12),
)
def test_the_newest_row_is_in_force(times: list[int], offset: int) -> None:
    own = np.array(sorted(times)) - min(times)
    drive = Drive("x", own, {"motion.odometer_m": np.arange(len(own), dtype=float)})
    expected = max(row for row, at in enumerate(own) if at <= offset)
    status = LoggedVehicle(1, drive).status(1, 1, offset, START_AT_NS)
    assert status.motion is not None
    assert status.motion.odometer_m == status.motion.odometer_m.__class__(
        value=expected, age_cs=(offset - own[expected]) // 10**7, origin="TELEMATICS_UNIT"
    )


@pytest.mark.parametrize(("lat", "lon"), [("", "15.6"), ("58.4", ""), ("", "")])
def test_half_a_place_is_none(tmp_path: Path, lat: str, lon: str) -> None:
    mapping = (
        'time = { column = "t", unit = "s" }\n[signals]\n"position.latitude_deg" = { column = "lat" }\n'
        '"position.longitude_deg" = { column = "lon" }\n"position.ground_speed_kmh" = { column = "v" }\n'
    )
    rows = f"t,lat,lon,v\n0,{lat},{lon},50\n1,58.4,15.6,50\n"
    (drive,) = drives_of(tmp_path, rows, mapping)
    vehicle = LoggedVehicle(1, drive)
    first, second = (vehicle.status(k + 1, 1, k * SECOND, START_AT_NS).position for k in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.latitude_deg, first.longitude_deg, first.fix_time_ms, first.ground_speed_kmh) == (
        0,
        0,
        0,
        50,
    )
    assert no_fix(first)
    assert not no_fix(second)
    assert second.fix_time_ms == START_AT_NS // 1_000_000 + 1_000


def scenario(**more: Any) -> Scenario:
    return Scenario(
        vehicles=5, duration_s=6.0, seed=9, vehicle_log=str(LOG), vehicle_mapping=str(MAPPING), **more
    )


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "small"])
def test_a_fleet_replays_the_drives_in_turn(name: str) -> None:
    found = list(emissions(scenario(format=name), START_AT_NS))
    assert found == list(emissions(scenario(format=name), START_AT_NS))
    assert [e[:4] for e in found] == [tuple(d) for d in schedule(scenario(format=name))]
    drives = read_log(LOG, MAPPING).drives
    for e in found:
        status = FORMATS[name].decode(e.payload)
        drive = drives[(e.vehicle - 1) % 2]
        row = e.due_offset_ns // SECOND
        assert status.header is not None
        assert (status.header.vehicle_id, status.header.trip_id) == (vehicle_id(e.vehicle), drive.vehicle)
        assert status.position is not None
        assert status.position.latitude_deg == drive.signals["position.latitude_deg"][row]
        assert status.position.fix_time_ms == (START_AT_NS + row * SECOND) // 1_000_000
        assert status.combustion is not None
        assert status.combustion.engine_speed_rpm is not None
        assert status.combustion.engine_speed_rpm.value == drive.signals["combustion.engine_speed_rpm"][row]
        assert (status.combustion.coolant_temperature_c is None) == bool(row % 5)
        assert status.body is None


def test_a_shard_replays_its_part() -> None:
    whole = list(emissions(scenario(), START_AT_NS))
    assert list(emissions(scenario(), START_AT_NS, [2, 5])) == [e for e in whole if e.vehicle in {2, 5}]
    fleet = Fleet(scenario())
    assert len(list(fleet.build())) == 5
