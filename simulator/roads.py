"""Where the vehicles of a fleet are whose traces say where they were recorded; the rest make up their roads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.messages import Position
from simulator.traces import Trace
from simulator.traces.model import Floats
from simulator.traces.track import Track, entry_s


class Road(NamedTuple):
    """A vehicle's way through the places of its trace."""

    track: Track
    offset_s: int

    def rows(self, offsets_ns: npt.NDArray[np.int64]) -> Floats:
        """Return a row of `Fix` for each of these times since the start."""
        return self.track.rows(self.offset_s, offsets_ns)

    def place(self, position: Position, offset_ns: int) -> None:
        """Have a position say where the vehicle is at that time; its height stays as it was."""
        fix = self.track.fix(self.offset_s, offset_ns)
        position.latitude_deg, position.longitude_deg = fix.latitude_deg, fix.longitude_deg
        position.heading_deg, position.ground_speed_kmh = fix.heading_deg, fix.ground_speed_kmh


class Roads:
    """The roads of all vehicles: of several traces they take turns, as their links do (`link_schedule`)."""

    def __init__(self, traces: Sequence[Trace], seed: int, *, offsets: bool) -> None:
        self._traces = traces
        self._tracks = [Track(trace) if trace.places() else None for trace in traces]
        self._seed = seed
        self._offsets = offsets

    def of(self, vehicle: int) -> Road | None:
        """Return a vehicle's road; None where its trace has no places."""
        if not self._traces:
            return None
        number = (vehicle - 1) % len(self._traces)
        track = self._tracks[number]
        if track is None:
            return None
        return Road(track, entry_s(self._seed, vehicle, self._traces[number]) if self._offsets else 0)
