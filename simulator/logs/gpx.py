"""GPX 1.0 and 1.1: each track is a drive; speed and heading come from one point to the next, as GPX 1.1 has neither."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from simulator.logs.base import Drive, Drives, LogReader
from simulator.logs.mapping import Mapping as LogMapping
from simulator.logs.mapping import iso_ns
from simulator.logs.xml_elements import read_elements

# Mean radius of the Earth (IUGG).
_RADIUS_M: Final = 6_371_008.8


class _Point(NamedTuple):
    line: int
    latitude_deg: float
    longitude_deg: float
    altitude_m: float | None
    time_ns: int


class _Tracks:
    """Collects the points of each track."""

    def __init__(self, drives: Drives) -> None:
        self._drives = drives
        self.found: list[tuple[str, list[_Point]]] = []
        self._path: list[str] = []
        self._point: dict[str, str] = {}
        self._line = 0
        self._name = ""
        self._points: list[_Point] = []

    def begin(self, line: int, name: str, attributes: Mapping[str, str]) -> None:
        if not self._path and name != "gpx":
            raise self._drives.refusal(line, f"begins with {name}, and a GPX file with gpx")
        self._path.append(name)
        if name == "trk":
            self._name, self._points = "", []
        elif name == "trkpt":
            self._line = line
            self._point = {key: attributes[key] for key in ("lat", "lon") if key in attributes}

    def end(self, line: int, name: str, text: str) -> None:
        del line
        self._path.pop()
        above = self._path[-1] if self._path else ""
        if above == "trk" and name == "name":
            self._name = text
        elif above == "trkpt" and name in {"ele", "time"}:
            self._point[name] = text
        elif name == "trkpt":
            self._points.append(self._read_point())
        elif name == "trk" and self._points:
            self.found.append((self._name or f"track {len(self.found) + 1}", self._points))

    def _read_point(self) -> _Point:
        for key in ("lat", "lon", "time"):
            if key not in self._point:
                raise self._drives.refusal(self._line, f"a point without {key}")
        altitude_m = self._number("ele") if "ele" in self._point else None
        try:
            time_ns = iso_ns(self._point["time"])
        except ValueError as bad:
            raise self._drives.refusal(self._line, f"time: {bad}") from None
        return _Point(self._line, self._number("lat"), self._number("lon"), altitude_m, time_ns)

    def _number(self, key: str) -> float:
        try:
            return float(self._point[key])
        except ValueError:
            raise self._drives.refusal(self._line, f"{key}: {self._point[key][:40]!r}: no number") from None


def _leg(one: _Point, other: _Point) -> tuple[float, float]:
    """Return the speed in km/h and the heading in degrees from one point to another."""
    south, north = math.radians(one.latitude_deg), math.radians(other.latitude_deg)
    east = math.radians(other.longitude_deg - one.longitude_deg)
    half = math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin(east / 2) ** 2
    metres = 2 * _RADIUS_M * math.asin(math.sqrt(min(1.0, half)))
    heading = math.atan2(
        math.sin(east) * math.cos(north),
        math.cos(south) * math.sin(north) - math.sin(south) * math.cos(north) * math.cos(east),
    )
    seconds = (other.time_ns - one.time_ns) / 1e9
    return (metres / seconds * 3.6 if seconds > 0 else 0.0), math.degrees(heading) % 360.0


def _read(path: Path, mapping: LogMapping | None) -> tuple[Drive, ...]:
    del mapping
    drives = Drives(path)
    tracks = _Tracks(drives)
    read_elements(path, drives, tracks.begin, tracks.end)
    seen: set[str] = set()
    for name, points in tracks.found:
        if name in seen:
            raise drives.refusal(points[0].line, f"a second track named {name[:80]!r}")
        seen.add(name)
        legs = [_leg(one, other) for one, other in pairwise(points)]
        # The first point has no leg behind it; the one before it stands for it.
        for point, (speed, heading) in zip(points, [*legs[:1], *legs] or [(0.0, 0.0)], strict=True):
            values = {"position.latitude_deg": point.latitude_deg, "position.longitude_deg": point.longitude_deg,
                      "position.ground_speed_kmh": speed, "position.heading_deg": heading}  # fmt: skip
            if point.altitude_m is not None:
                values["position.altitude_m"] = point.altitude_m
            drives.add(point.line, name, point.time_ns, values)
    return drives.done()


GPX: Final = LogReader("gpx", "tracks of a satellite receiver", ".gpx", mapped=False, read=_read)
