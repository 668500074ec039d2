"""When each probe was sent and came, as arrays, and link.parquet's columns of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.topics import end_id
from simulator.links.base import DIRECTIONS, Direction
from simulator.links.step_log import Rows

SCHEMA: Final = pa.schema(
    [
        ("probe_sent", pa.int32()),
        ("probe_received", pa.int32()),
        ("probe_delay_ms", pa.float64()),
        ("probe_bytes", pa.int64()),
    ]
)
_FIRST_SECONDS: Final = 64  # there is room for; doubled when it is full
_SENT, _RECEIVED = 0, 1
_Numbers = npt.NDArray[np.int64]


class ProbeTimes:
    """One probe a second, vehicle and direction: 16 bytes for each, in ns of the wall clock; 0 is never.

    Args:
        vehicles: numbers of those that are probed.
        probe_bytes: IP packet of a probe.
    """

    def __init__(self, vehicles: Sequence[int], probe_bytes: int) -> None:
        self._places = {vehicle: index for index, vehicle in enumerate(vehicles)}
        self._bytes = probe_bytes
        self._at_ns: _Numbers = np.zeros((_FIRST_SECONDS, len(vehicles), len(DIRECTIONS), 2), np.int64)
        self._seconds = 0  # that have a probe, or lie before one

    def sent(self, second: int, vehicle: int, direction: Direction, at_ns: int) -> None:
        if second >= len(self._at_ns):
            longer = np.zeros((2 * second, *self._at_ns.shape[1:]), np.int64)
            longer[: len(self._at_ns)] = self._at_ns
            self._at_ns = longer
        self._at_ns[second, self._places[vehicle], DIRECTIONS.index(direction), _SENT] = at_ns
        self._seconds = max(self._seconds, second + 1)

    def came(self, second: int, vehicle: int, direction: Direction, at_ns: int) -> bool:
        """Note the arrival; False for a probe that was never sent, or has come before."""
        place = self._places.get(vehicle)
        if place is None or second >= self._seconds:
            return False
        probe = self._at_ns[second, place, DIRECTIONS.index(direction)]
        if not probe[_SENT] or probe[_RECEIVED]:
            return False
        probe[_RECEIVED] = at_ns
        return True

    def count(self) -> tuple[int, int]:
        """Return how many were sent, and how many of them came; from any thread."""
        at_ns = self._at_ns
        return int(np.count_nonzero(at_ns[..., _SENT])), int(np.count_nonzero(at_ns[..., _RECEIVED]))

    def way(self, vehicle: int, direction: Direction) -> list[bool]:
        """Return of each of a vehicle's probes one way whether it came, in the order of sending; from any thread."""
        own = self._at_ns[:, self._places[vehicle], DIRECTIONS.index(direction)]
        return [bool(received) for sent, received in own.tolist() if sent]

    def columns(self, rows: pa.Table) -> pa.Table:
        """Return the columns of `SCHEMA` for rows of link.parquet: sent, received, delay, bytes at the vehicle.

        `probe_bytes` is what the capture at the vehicles' end has seen of them, to be taken out of overhead.
        """
        names = pa.array([end_id(vehicle) for vehicle in self._places], pa.string())
        places = pc.fill_null(pc.index_in(rows["vehicle_id"], names), -1).to_numpy()
        ways = pc.index_in(rows["direction"], pa.array(DIRECTIONS)).to_numpy()
        seconds = rows["second"].to_numpy()
        known = (places >= 0) & (seconds >= 0) & (seconds < self._seconds)
        at_ns = np.zeros((len(seconds), 2), np.int64)
        at_ns[known] = self._at_ns[seconds[known], places[known], ways[known]]
        sent, received = at_ns[:, _SENT] > 0, at_ns[:, _RECEIVED] > 0
        seen = sent & ((ways == DIRECTIONS.index("uplink")) | received)
        columns = [
            pa.array(sent.astype(np.int32)),
            pa.array(received.astype(np.int32)),
            pa.array((at_ns[:, _RECEIVED] - at_ns[:, _SENT]) / 1e6, mask=~received),
            pa.array(np.where(seen, self._bytes, 0)),
        ]
        return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True)
class ProbedRows:
    """Rows of link.parquet with the columns of the probes beside the others."""

    rows: Rows
    times: ProbeTimes

    def __iter__(self) -> Iterator[pa.Table]:
        for table in self.rows:
            probes = self.times.columns(table)
            yield pa.table(
                [*table.columns, *probes.columns], schema=pa.schema([*table.schema, *probes.schema])
            )
