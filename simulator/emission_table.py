"""One row per message due, from schedule and emission log; a dead sender leaves `unsent` rows, not holes.

The log holds what happened; the schedule, made again from scenario and seed, holds what should have. Each row is one
message due, in the schedule's order, and gets its first emission, acknowledgement and return from the log. A message
without an event was never taken by the sender. Thus the number of rows is known before the run and does not depend on
anything that failed in it: that the fates of all messages add up to those due begins here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.topics import vehicle_id
from simulator.emission_log import RECORD, WORDS_RECORD, Kind, Reason
from simulator.fleet import due_table
from simulator.scenario import Scenario

EVENT = np.dtype(
    [
        ("kind", "u1"),
        ("reason", "u1"),
        ("words", "<u2"),
        ("vehicle", "<u4"),
        ("epoch", "<u4"),
        ("size", "<u4"),
        ("sequence", "<i8"),
        ("at_ns", "<i8"),
    ]
)
_SEQUENCE_BITS = 40
_SENT = -1  # where there is no reason why not

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


# An emission log, one of each shard, or the events that `read_events` has returned of them.
Logs = Path | Sequence[Path] | npt.NDArray[Any]


def read_events(logs: Logs) -> npt.NDArray[Any]:
    """Return the whole records of a log as an array of EVENT; of several, those of one behind those of another.

    A log that is missing is a sender that never began, and has none. Each log counts its words from 1: those of the later
    ones are numbered on.
    """
    if isinstance(logs, np.ndarray):
        return logs
    paths = [logs] if isinstance(logs, Path) else logs
    found = [_events_of(path) for path in paths if path.exists()]
    if len(found) == 1:
        return found[0]
    taken = 0
    for events in found:
        events["words"][events["words"] > 0] += taken
        taken = max(taken, int(events["words"].max(initial=0)))
    return np.concatenate(found) if found else np.empty(0, EVENT)


def _events_of(path: Path) -> npt.NDArray[Any]:
    data = bytearray(path.read_bytes())
    return np.frombuffer(data, EVENT, len(data) // RECORD.size)


def read_words(events: npt.NDArray[Any]) -> dict[int, str]:
    """Return what the numbers in the field `words` stand for."""
    parts: dict[int, bytes] = {}
    for record in events[events["kind"] == Kind.WORDS]:
        _, _, number, _, part = WORDS_RECORD.unpack(record.tobytes())
        parts[number] = parts.get(number, b"") + part.rstrip(b"\0")
    return {number: text.decode(errors="replace") for number, text in parts.items()}


def to_table(logs: Logs, scenario: Scenario, start_at_ns: int, vehicles: list[int] | None = None) -> pa.Table:
    """Return emissions.parquet: one row per message due, in the order of `schedule`.

    `refused_at_ns` is when the peer first said that it will not keep the message, for good or for now, and
    `refused_reason` what it said; `unanswered_at_ns` is when the vehicle gave it up without a word of the peer.

    Args:
        logs: a missing file is a sender that never began.
        scenario: the fleet that was to be sent.
        start_at_ns: what offset 0 stands for.
        vehicles: the numbers of a shard; None for the whole fleet.
    """
    due, events = due_table(scenario, vehicles), read_events(logs)
    rows = _Rows(due, events)
    emitted, was_emitted = rows.first(Kind.EMITTED, "at_ns")
    acknowledged, was_acknowledged = rows.first(Kind.ACKNOWLEDGED, "at_ns")
    received, was_received = rows.first(Kind.RECEIVED, "at_ns")
    size, _ = rows.first(Kind.EMITTED, "size")
    buffered = rows.first(Kind.BUFFERED, "at_ns")[1]
    reason, was_unsent = rows.first(Kind.UNSENT, "reason")
    reason[~was_unsent] = Reason.SENDER_ENDED
    refusals = (Kind.REFUSED, Kind.POSTPONED)
    refused, was_refused = rows.first(refusals, "at_ns")
    words = rows.first(refusals, "words")[0]
    words[~was_refused] = 0
    unanswered, was_unanswered = rows.first(Kind.UNANSWERED, "at_ns")
    due_at_ns = start_at_ns + due[:, 0]
    return pa.table(
        {
            "vehicle_id": _named(due[:, 1], vehicle_id),
            "epoch": pa.array(due[:, 2].astype(np.int32)),
            "sequence": pa.array(due[:, 3]),
            "sampled_at_ns": pa.array(due_at_ns),
            "due_at_ns": pa.array(due_at_ns),
            "emitted_at_ns": pa.array(emitted, mask=~was_emitted),
            "acknowledged_at_ns": pa.array(acknowledged, mask=~was_acknowledged),
            "refused_at_ns": pa.array(refused, mask=~was_refused),
            "refused_reason": _named(words, read_words(events).get),
            "unanswered_at_ns": pa.array(unanswered, mask=~was_unanswered),
            "received_at_ns": pa.array(received, mask=~was_received),
            "payload_bytes": pa.array(size.astype(np.int32), mask=~was_emitted),
            "unsent_reason": _named(np.where(was_emitted, _SENT, reason), _reason),
            "buffered": pa.array(buffered),
        }
    )


def _named(numbers: Integers, name: Callable[[int], str | None]) -> pa.Array:
    """Return the name of each number; few different ones."""
    different, places = np.unique(numbers, return_inverse=True)
    return pa.array([name(number) for number in different.tolist()], pa.string()).take(pa.array(places))


def _reason(number: int) -> str | None:
    return None if number == _SENT else Reason(number).name.lower()


def connections(logs: Logs) -> pa.Table:
    """Return one row per step of a connection, in the order of the log; of several, one log behind another.

    `event` is connect_due, connecting, connected, disconnected or connect_failed; `handshake_ns` is connected minus
    connecting; `backlog` counts the messages waiting then; `session_present` is set with connected.
    """
    events = read_events(logs)
    steps = (
        Kind.CONNECTING,
        Kind.CONNECTED,
        Kind.DISCONNECTED,
        Kind.CONNECT_FAILED,
        Kind.CONNECT_DUE,
    )
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


def largest_backlog(logs: Logs) -> int:
    """Return the most messages that waited in one vehicle at a time; 0 when none ever did.

    A message waits from its BUFFERED to its EMITTED or UNSENT; other emissions change nothing. What waits is counted before
    each step but UNSENT, and at the end: a full outbox notes the newcomer first, then who had to go.
    """
    events = read_events(logs)
    steps = events[np.isin(events["kind"], (Kind.BUFFERED, Kind.EMITTED, Kind.UNSENT))]
    if not len(steps):
        return 0
    comes = steps["kind"] == Kind.BUFFERED
    # Beside each other the steps of one message, in their order: it waits behind a step that is BUFFERED.
    order = np.lexsort((np.arange(len(steps)), steps["sequence"], steps["vehicle"]))
    vehicles, sequences = steps["vehicle"][order], steps["sequence"][order]
    same = (vehicles[1:] == vehicles[:-1]) & (sequences[1:] == sequences[:-1])
    waited = np.concatenate(([False], same & comes[order][:-1]))
    change = np.empty(len(steps), np.int64)
    change[order] = comes[order].astype(np.int64) - waited
    # Beside each other the steps of one vehicle: what waits is the sum of its changes.
    order = np.argsort(steps["vehicle"], kind="stable")
    vehicles, change = steps["vehicle"][order], change[order]
    heads = np.flatnonzero(np.concatenate(([True], vehicles[1:] != vehicles[:-1])))
    sums = np.cumsum(change)
    before_vehicle = np.repeat(sums[heads] - change[heads], np.diff(np.append(heads, len(sums))))
    behind = sums - before_vehicle
    last = np.append(heads[1:], len(sums)) - 1
    counted = (behind - change)[steps["kind"][order] != Kind.UNSENT]
    return int(max(counted.max(initial=0), behind[last].max()))


class _Rows:
    """Finds the row of every event by (vehicle, epoch, sequence)."""

    def __init__(self, due: Integers, events: npt.NDArray[Any]) -> None:
        self._count = len(due)
        self._epoch = int(due[0, 2]) if len(due) else 0
        keys = due[:, 1] << _SEQUENCE_BITS | due[:, 3]
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._events = events[events["epoch"] == self._epoch]

    def first(self, kind: Kind | tuple[Kind, ...], field: str) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Return, per row, `field` of the first event of this kind, or these, and whether there is one."""
        values = np.zeros(self._count, np.int64)
        found = np.zeros(self._count, np.bool_)
        events = self._events[np.isin(self._events["kind"], kind)][::-1]
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
