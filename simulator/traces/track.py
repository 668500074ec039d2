"""Where a vehicle is that drives a trace: the places at which the trace was recorded, and the way from one to the next."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.traces.model import Floats, Trace

METRES_PER_DEGREE: Final = 111_320.0
_NS: Final = 1_000_000_000
# What a receiver's noise moves a vehicle that stands gives it no heading.
_MOVED_M: Final = 1.0


class Fix(NamedTuple):
    """What a satellite receiver says, rounded as the vehicles' own are.

    Attributes:
        latitude_deg, longitude_deg: north and east, six decimals.
        heading_deg: clockwise from north, in sixteenths.
        ground_speed_kmh: in sixteenths.
    """

    latitude_deg: float
    longitude_deg: float
    heading_deg: float
    ground_speed_kmh: float


def entry_s(seed: int, vehicle: int, trace: Trace) -> int:
    """Return the second of its trace at which a vehicle begins; one random stream per vehicle."""
    length_s = max(1, int(trace.duration_s))
    return random.Random(f"road/{seed}/{vehicle}").randrange(length_s)


class Track:
    """The places of a trace, a fix for each of its steps; it has some."""

    def __init__(self, trace: Trace) -> None:
        places = trace.places()
        self._trace = trace
        north, east = places["latitude_deg"], places["longitude_deg"]
        ways = _ways(north, east, trace.time_s)
        self.fixes: Floats = np.column_stack((np.round(north, 6), np.round(east, 6), *ways)) + 0.0

    def rows(self, offset_s: int, offsets_ns: npt.NDArray[np.int64]) -> Floats:
        """Return a row of `Fix` for each time since the start, of a vehicle that entered the trace at `offset_s`.

        It is that of the step whose conditions the link has in this whole second.
        """
        at_s = (offset_s + offsets_ns // _NS) % self._trace.duration_s
        found: Floats = self.fixes[np.searchsorted(self._trace.time_s, at_s, side="right") - 1]
        return found

    def fix(self, offset_s: int, offset_ns: int) -> Fix:
        """Return the fix at one time since the start."""
        return Fix(*self.fixes[self._trace.index_at(offset_s + offset_ns // _NS)].tolist())


def _ways(north: Floats, east: Floats, time_s: Floats) -> tuple[Floats, Floats]:
    """Return heading and speed of each step: of the way to the next place.

    A vehicle that stands keeps the heading with which it came.
    """
    if len(north) == 1:
        return np.zeros(1), np.zeros(1)
    turned = (np.diff(east) + 180.0) % 360.0 - 180.0
    way_east = METRES_PER_DEGREE * turned * np.cos(np.radians(north[:-1]))
    way_north = METRES_PER_DEGREE * np.diff(north)
    way_m = np.hypot(way_east, way_north)
    headings = np.degrees(np.arctan2(way_east, way_north)) % 360.0
    moved = way_m > _MOVED_M
    newest = np.maximum.accumulate(np.where(moved, np.arange(len(way_m)), -1))
    first = headings[np.argmax(moved)] if moved.any() else 0.0
    headings = np.where(newest < 0, first, headings[newest])
    speeds = way_m / np.diff(time_s) * 3.6
    return _sixteenths(headings) % 360.0, _sixteenths(speeds)


def _sixteenths(ways: Floats) -> Floats:
    """Return what each step has, rounded; the last one has no next place, and what the step before it has."""
    return np.asarray(np.rint(np.append(ways, ways[-1]) * 16.0) / 16.0, dtype=np.float64)
