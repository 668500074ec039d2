"""What each step of a replay left, as columns in a file: of a second that is over, memory keeps nothing.

Conditions are kept once each, however many rows ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.topics import end_id
from simulator.links.base import DIRECTIONS, Condition, Conditions, LinkCounts, Pair
from simulator.links.fleet_conditions import FleetConditions

# Tables of link.parquet's columns, each with whole seconds that follow those of the one before; gone through again and again.
Rows = Iterable[pa.Table]
SCHEMA: Final = pa.schema(
    [
        ("second", pa.int32()),
        ("vehicle_id", pa.string()),
        ("direction", pa.string()),
        ("asked_rate_bps", pa.float64()),
        ("asked_delay_ms", pa.float64()),
        ("asked_loss_ratio", pa.float64()),
        ("asked_jitter_ms", pa.float64()),
        ("asked_reorder_ratio", pa.float64()),
        ("asked_burst_packets", pa.float64()),
        ("applied_at_ns", pa.int64()),
        ("update_ms", pa.float64()),
        ("counted_at_ns", pa.int64()),
        ("qdisc_bytes", pa.int64()),
        ("qdisc_packets", pa.int64()),
        ("drops", pa.int64()),
        ("queue_drops", pa.int64()),
        ("backlog_bytes", pa.int64()),
    ]
)
# The first of `base.COUNTED`, in their order.
COUNTS: Final = ("qdisc_bytes", "qdisc_packets", "drops", "queue_drops", "backlog_bytes")
# One row of the file: a vehicle's uplink is followed by its downlink. `pair` numbers what was asked of the two.
_RECORD: Final = np.dtype(
    [
        ("second", "<i4"),
        ("vehicle", "<i4"),
        ("pair", "<i4"),
        ("applied_at_ns", "<i8"),
        ("update_ns", "<i8"),
        ("counted_at_ns", "<i8"),
        ("counted", "?"),
        ("counts", "<i8", (len(COUNTS),)),
    ]
)
ROWS_TOGETHER: Final = 1 << 14  # written, and read, at a time
_Records = npt.NDArray[np.void]


@dataclass
class Second:
    """One step of the replay.

    Attributes:
        second: its number; -1 holds what was set before the start.
        asked: the conditions of every vehicle.
        due_at_ns: when the step should begin; `applied_at_ns`: when the kernel had all of it.
        update_ns: how long the change took.
        counters: the kernel's counts at the end of the step, since the link was opened.
        counted_at_ns: when they were read; a large fleet's take some time before the next change.
    """

    second: int
    asked: Conditions
    due_at_ns: int
    applied_at_ns: int
    update_ns: int
    counters: LinkCounts = field(default_factory=LinkCounts.none)
    counted_at_ns: int = 0


class Asked(NamedTuple):
    """What was asked of one vehicle in one second."""

    vehicle: int
    second: int
    uplink: Condition
    downlink: Condition


class StepLog:
    """Takes steps in their order, and gives them back as tables with the columns of `SCHEMA`.

    Row by row: every vehicle in the order of its step, uplink and downlink. Counts are those of the step alone; null for
    what the link does not count. The step before the start has no row, its counts are where second 0 begins.

    Args:
        path: of the file, which is made when there is something to write; its directory exists, and its owner removes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: list[tuple[int, int, int]] = []  # begin, bytes and rows of each part of the file
        self._pending: list[_Records] = []
        self._before = LinkCounts.none()  # of the last step
        self._vehicles = np.zeros(0, np.int64)
        # By a vehicle's number: where its uplink is among the rows of a step, or -1.
        self._rows = np.zeros(0, np.int64)
        self._totals: npt.NDArray[np.int64] | None = None  # of the last step, for the same vehicles
        self._pairs = _Pairs()
        # Of each pair's number the vehicle and the second that first had it.
        self._places: dict[int, tuple[int, int]] = {}

    def append(self, step: Second) -> None:
        """Keep a step that is over; OSError when its disk takes no more."""
        if step.second >= 0:
            self._pending.append(self._records(step))
        self._before = step.counters
        if sum(len(records) for records in self._pending) >= ROWS_TOGETHER:
            self._write()

    def __iter__(self) -> Iterator[pa.Table]:
        asked = self._pairs.columns()
        for begin, length, rows in self._written:
            with self._path.open("rb") as file:
                file.seek(begin)
                data = pa.decompress(file.read(length), rows * _RECORD.itemsize, codec="zstd")
            yield _table(np.frombuffer(data, _RECORD), asked)
        if self._pending:
            yield _table(np.concatenate(self._pending), asked)

    def distinct(self) -> list[Asked]:
        """Return each pair of conditions that was asked for once, with the first place where it was."""
        return [Asked(*place, *self._pairs[number]) for number, place in self._places.items()]

    def _records(self, step: Second) -> _Records:
        asked = FleetConditions.of(step.asked)
        vehicles = asked.vehicles
        if not np.array_equal(vehicles, self._vehicles):
            self._vehicles, self._totals = vehicles, None
            self._rows = np.full(vehicles.max(initial=0) + 1, -1)
            self._rows[vehicles] = np.arange(len(vehicles)) * len(DIRECTIONS)
        places, rows, inverse = asked.used
        used = [self._pairs.number(asked.pairs[place]) for place in places.tolist()]
        for number, vehicle in zip(used, vehicles[rows].tolist(), strict=True):
            if number not in self._places:
                self._places[number] = vehicle, step.second
        numbers = np.array(used, np.int32)[inverse]
        totals, counted = self._placed(step.counters)
        before = self._totals
        if before is None:
            before, _ = self._placed(self._before)
        records = np.zeros(len(totals), _RECORD)
        for name in ("second", "applied_at_ns", "update_ns", "counted_at_ns"):
            records[name] = getattr(step, name)
        records["vehicle"] = np.repeat(vehicles, 2)
        records["pair"] = np.repeat(numbers, 2)
        records["counted"] = counted
        records["counts"] = totals
        records["counts"][:, :-1] -= before[:, :-1]  # what waits is no count from the opening on
        self._totals = totals
        return records

    def _placed(self, counts: LinkCounts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the counts of a step's rows in their order, zeros for what has none, and which have some."""
        totals = np.zeros((len(self._vehicles) * len(DIRECTIONS), len(COUNTS)), np.int64)
        counted = np.zeros(len(totals), np.bool_)
        known = counts.vehicles < len(self._rows)
        known[known] = self._rows[counts.vehicles[known]] >= 0
        at = self._rows[counts.vehicles[known]] + counts.ways[known]
        totals[at] = counts.values[known, : len(COUNTS)]
        counted[at] = True
        return totals, counted

    def _write(self) -> None:
        records = np.concatenate(self._pending)
        data = pa.compress(records.tobytes(), codec="zstd", asbytes=True)
        begin = sum(self._written[-1][:2]) if self._written else 0
        with self._path.open("r+b" if self._written else "wb") as file:
            file.seek(begin)  # over what a full disk cut off
            file.write(data)
        self._written.append((begin, len(data), len(records)))
        self._pending.clear()


class _Pairs:
    """Every pair of conditions that was met, numbered, each kept once."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._numbers: dict[Pair, int] = {}
        self._by_identity: dict[int, int] = {}  # of the kept ones: a schedule hands out the same objects

    def __getitem__(self, number: int) -> Pair:
        return self._pairs[number]

    def number(self, pair: Pair) -> int:
        """Return the number of a pair that equals this one."""
        found = self._by_identity.get(id(pair))
        if found is None:
            found = self._numbers.get(pair)
        if found is None:
            found = self._numbers[pair] = self._by_identity[id(pair)] = len(self._pairs)
            self._pairs.append(pair)
        return found

    def columns(self) -> dict[str, pa.Array]:
        """Return what is asked, a column a parameter: of each pair the uplink, then the downlink."""
        ways = [condition for pair in self._pairs for condition in pair]
        found = {
            "asked_rate_bps": [one.rate_bps for one in ways],
            "asked_delay_ms": [one.delay_ms for one in ways],
            "asked_loss_ratio": [one.mean_loss_ratio for one in ways],
            "asked_jitter_ms": [one.jitter_ms for one in ways],
            "asked_reorder_ratio": [one.reorder_ratio for one in ways],
            "asked_burst_packets": [one.burst_packets for one in ways],
        }
        return {name: pa.array(values, pa.float64()) for name, values in found.items()}


def _table(records: _Records, asked: Mapping[str, pa.Array]) -> pa.Table:
    ways = np.arange(len(records)) % 2
    which = pa.array(2 * records["pair"] + ways)
    numbers, place = np.unique(records["vehicle"], return_inverse=True)
    columns = {
        "second": pa.array(records["second"]),
        "vehicle_id": pa.array([end_id(number) for number in numbers.tolist()], pa.string()).take(
            pa.array(place)
        ),
        "direction": pa.array(DIRECTIONS, pa.string()).take(pa.array(ways)),
        **{name: values.take(which) for name, values in asked.items()},
        "applied_at_ns": pa.array(records["applied_at_ns"]),
        "update_ms": pa.array(records["update_ns"] / 1e6),
        "counted_at_ns": pa.array(records["counted_at_ns"], mask=records["counted_at_ns"] == 0),
    }
    for index, name in enumerate(COUNTS):
        columns[name] = pa.array(records["counts"][:, index], mask=~records["counted"])
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
