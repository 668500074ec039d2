"""Reads a run's link log for its certificate: some vehicles at a time, so that its length costs time and no memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from simulator.links.base import DIRECTIONS, Direction
from simulator.links.proof.link_seconds import COLUMNS, LinkSeconds
from simulator.links.step_log import Rows

ROWS_TOGETHER: Final = 1 << 18  # in memory; more than one vehicle has in a day


@dataclass
class Overview:
    """What must be known of a run's rows before they are judged.

    Attributes:
        vehicles: in the order in which they appear; `rows` is how many there are of all of them.
        last_second, probe_bytes: of each direction.
    """

    vehicles: dict[str, None] = field(default_factory=dict)
    rows: int = 0
    last_second: dict[Direction, int] = field(default_factory=dict)
    probe_bytes: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(DIRECTIONS, 0))


def overview(rows: Rows) -> Overview:
    """Go through the rows once."""
    found = Overview()
    for table in rows:
        found.vehicles |= dict.fromkeys(table["vehicle_id"].unique().to_pylist())
        found.rows += len(table)
        for direction in DIRECTIONS:
            own = table.select(["second", "probe_bytes"]).filter(pc.equal(table["direction"], direction))
            if len(own):
                last = pc.max(own["second"]).as_py()
                found.last_second[direction] = max(last, found.last_second.get(direction, last))
                found.probe_bytes[direction] += pc.sum(own["probe_bytes"]).as_py() or 0
    return found


def seconds_of(rows: Rows, known: Overview) -> Iterator[tuple[Direction, LinkSeconds]]:
    """Yield all rows by direction, of some vehicles at a time; goes through the rows once for each group of vehicles."""
    vehicles = list(known.vehicles)
    together = max(1, ROWS_TOGETHER * len(vehicles) // max(1, known.rows))
    for begin in range(0, len(vehicles), together):
        names = pa.array(vehicles[begin : begin + together], pa.string())
        own = pa.concat_tables([_of(table, names) for table in rows])
        for direction in DIRECTIONS:
            yield direction, LinkSeconds(own.filter(pc.equal(own["way"], DIRECTIONS.index(direction))))


def _of(table: pa.Table, names: pa.Array) -> pa.Table:
    """Return the rows of the named vehicles, with numbers for names."""
    vehicle = pc.index_in(table["vehicle_id"], names)
    way = pc.index_in(table["direction"], pa.array(DIRECTIONS, pa.string()))
    numbered = table.select(COLUMNS).append_column("vehicle", vehicle).append_column("way", way)
    return numbered.filter(pc.is_valid(vehicle))
