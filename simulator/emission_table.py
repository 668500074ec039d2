"""One row per message due, from schedule and emission log; a dead pacer leaves `unsent` rows, not holes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.topics import vehicle_id
from simulator.emission_log import RECORD, Kind, Reason
from simulator.fleet import schedule
from simulator.scenario import Scenario

EVENT = np.dtype(
    [
        ("kind", "u1"),
        ("reason", "u1"),
        ("spare", "<u2"),
        ("vehicle", "<u4"),
        ("epoch", "<u4"),
        ("size", "<u4"),
        ("sequence", "<i8"),
        ("at_ns", "<i8"),
    ]
)
_SEQUENCE_BITS = 40

Integers = npt.NDArray[np.int64]

CONNECTION_SCHEMA = pa.schema(
    [
        ("vehicle_id", pa.string()),
        ("event", pa.string()),
        ("at_ns", pa.int64()),
        ("handshake_ns", pa.int64()),
        ("session_present", pa.bool_()),
        ("backlog", pa.int64()),
    ]
)


def read_events(path: Path) -> npt.NDArray[Any]:
    """Return the log's whole records as an array of EVENT."""
    data = path.read_bytes()
    return np.frombuffer(data, EVENT, len(data) // RECORD.size)


def to_table(
    events_path: Path, scenario: Scenario, start_at_ns: int, vehicles: list[int] | None = None
) -> pa.Table:
    """Return emissions.parquet: one row per message due, in the order of `schedule`.

    Args:
        events_path: the emission log; a missing file is a pacer that never began.
        scenario: the fleet that was to be sent.
        start_at_ns: what offset 0 stands for.
        vehicles: the numbers of a shard; None for the whole fleet.
    """
    due = np.array([tuple(d) for d in schedule(scenario, vehicles)], dtype=np.int64).reshape(-1, 4)
    events = read_events(events_path) if events_path.exists() else np.empty(0, EVENT)
    rows = _Rows(due, events)
    emitted, was_emitted = rows.first(Kind.EMITTED, "at_ns")
    acknowledged, was_acknowledged = rows.first(Kind.ACKNOWLEDGED, "at_ns")
    received, was_received = rows.first(Kind.RECEIVED, "at_ns")
    size, _ = rows.first(Kind.EMITTED, "size")
    buffered = rows.first(Kind.BUFFERED, "at_ns")[1]
    reason, was_unsent = rows.first(Kind.UNSENT, "reason")
    reason[~was_unsent] = Reason.PACER_ENDED
    due_at_ns = start_at_ns + due[:, 0]
    return pa.table(
        {
            "vehicle_id": pa.array([vehicle_id(int(v)) for v in due[:, 1]], pa.string()),
            "epoch": pa.array(due[:, 2].astype(np.int32)),
            "sequence": pa.array(due[:, 3]),
            "sampled_at_ns": pa.array(due_at_ns),
            "due_at_ns": pa.array(due_at_ns),
            "emitted_at_ns": pa.array(emitted, mask=~was_emitted),
            "acknowledged_at_ns": pa.array(acknowledged, mask=~was_acknowledged),
            "received_at_ns": pa.array(received, mask=~was_received),
            "payload_bytes": pa.array(size.astype(np.int32), mask=~was_emitted),
            "unsent_reason": pa.array(
                [
                    None if sent else Reason(int(r)).name.lower()
                    for sent, r in zip(was_emitted, reason, strict=True)
                ],
                pa.string(),
            ),
            "buffered": pa.array(buffered),
        }
    )


def connections(events_path: Path) -> pa.Table:
    """Return one row per step of a connection, in the order of time.

    `event` is connecting, connected, disconnected or connect_failed; `handshake_ns` is connected minus
    connecting; `backlog` counts the messages waiting then; `session_present` is set with connected.
    """
    events = read_events(events_path) if events_path.exists() else np.empty(0, EVENT)
    steps = (Kind.CONNECTING, Kind.CONNECTED, Kind.DISCONNECTED, Kind.CONNECT_FAILED)
    columns: dict[str, list[Any]] = {name: [] for name in CONNECTION_SCHEMA.names}
    began: dict[int, int] = {}
    for row in events[np.isin(events["kind"], steps)]:
        kind, vehicle, at_ns = Kind(int(row["kind"])), int(row["vehicle"]), int(row["at_ns"])
        is_up = kind is Kind.CONNECTED
        columns["vehicle_id"].append(vehicle_id(vehicle))
        columns["event"].append(kind.name.lower())
        columns["at_ns"].append(at_ns)
        columns["handshake_ns"].append(at_ns - began[vehicle] if is_up and vehicle in began else None)
        columns["session_present"].append(bool(row["size"]) if is_up else None)
        columns["backlog"].append(int(row["sequence"]))
        if kind is Kind.CONNECTING:
            began[vehicle] = at_ns
    return pa.table(columns, CONNECTION_SCHEMA)


def largest_backlog(events_path: Path) -> int:
    """Return the most messages that waited in one vehicle at a time; 0 when none ever did."""
    events = read_events(events_path) if events_path.exists() else np.empty(0, EVENT)
    waiting: dict[int, set[int]] = {}
    most = 0
    for event in events[np.isin(events["kind"], (Kind.BUFFERED, Kind.EMITTED, Kind.UNSENT))]:
        mine = waiting.setdefault(int(event["vehicle"]), set())
        # Counted before the next step, not at once: a full outbox notes the newcomer first, then who had to go.
        if event["kind"] != Kind.UNSENT:
            most = max(most, len(mine))
        if event["kind"] == Kind.BUFFERED:
            mine.add(int(event["sequence"]))
        else:
            mine.discard(int(event["sequence"]))
    return max([most, *map(len, waiting.values())])


class _Rows:
    """Finds the row of every event by (vehicle, epoch, sequence)."""

    def __init__(self, due: Integers, events: npt.NDArray[Any]) -> None:
        self._count = len(due)
        self._epoch = int(due[0, 2]) if len(due) else 0
        keys = due[:, 1] << _SEQUENCE_BITS | due[:, 3]
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._events = events[events["epoch"] == self._epoch]

    def first(self, kind: Kind, field: str) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Return, per row, `field` of the first event of this kind, and whether there is one."""
        values = np.zeros(self._count, np.int64)
        found = np.zeros(self._count, np.bool_)
        events = self._events[self._events["kind"] == kind][::-1]
        if not len(events) or not self._count:
            return values, found
        keys = events["vehicle"].astype(np.int64) << _SEQUENCE_BITS | events["sequence"]
        at = np.searchsorted(self._keys, keys)
        known = (at < self._count) & (self._keys[np.minimum(at, self._count - 1)] == keys)
        rows = self._order[at[known]]
        # Written from the last event to the first: the first one stays.
        values[rows] = events[field][known]
        found[rows] = True
        return values, found
