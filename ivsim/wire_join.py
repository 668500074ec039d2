"""Joins the capture's messages to the emission log, where a mode has no acknowledgements; pure, it opens no file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.topics import vehicle_id
from simulator.emission_log import Kind

COLUMN = "reached_cloud_at_ns"
Key = tuple[str, int, int]
Emitted = tuple[Key, int, int]  # message, at_ns, payload bytes


class _Way:
    """What one vehicle's client noted: its connections, and what it was given in each, in order."""

    def __init__(self) -> None:
        self.connected_at_ns: list[int] = []
        self.emitted: list[list[Emitted]] = []

    def connected(self, at_ns: int) -> None:
        self.connected_at_ns.append(at_ns)
        self.emitted.append([])

    def during(self, at_ns: int) -> list[Emitted]:
        """Return the messages of the connection that was up at that time, or the last before it."""
        index = bisect_right(self.connected_at_ns, at_ns) - 1
        return self.emitted[index] if index >= 0 else []


def with_reached_cloud(emissions: pa.Table, events: npt.NDArray[Any], wire: pa.Table) -> pa.Table:
    """Return `emissions` with the column `reached_cloud_at_ns`, null where nothing is proven.

    The capture does not read sequences: its nth publish of a connection is the nth message that the client
    was given while that connection was up. One row that does not fit (other size, seen before it was given)
    ends the join of its connection, since an order with a hole says nothing about what follows.

    Args:
        emissions: emissions.parquet of the run.
        events: the emission log (simulator.emission_table.EVENT), in the order of writing.
        wire: wire_messages.parquet; every connection's first row must be its first publish.
    """
    reached = _join(_ways(events), wire)
    names = zip(*(emissions[name].to_pylist() for name in ("vehicle_id", "epoch", "sequence")), strict=True)
    return emissions.append_column(COLUMN, pa.array([reached.get(key) for key in names], pa.int64()))


def without_proof(emissions: pa.Table) -> pa.Table:
    """Return `emissions` with the column, null everywhere: there is no capture, or the mode needs none."""
    return emissions.append_column(COLUMN, pa.nulls(emissions.num_rows, pa.int64()))


def _ways(events: npt.NDArray[Any]) -> dict[str, _Way]:
    ways: dict[str, _Way] = defaultdict(_Way)
    known = np.isin(events["kind"], (Kind.CONNECTED, Kind.EMITTED))
    for event in events[known]:
        name, at_ns = vehicle_id(int(event["vehicle"])), int(event["at_ns"])
        if event["kind"] == Kind.CONNECTED:
            ways[name].connected(at_ns)
        elif ways[name].emitted:
            key = (name, int(event["epoch"]), int(event["sequence"]))
            ways[name].emitted[-1].append((key, at_ns, int(event["size"])))
    return ways


def _join(ways: dict[str, _Way], wire: pa.Table) -> dict[Key, int]:
    columns = ("vehicle_id", "connection", "order", "first_sent_at_ns", "payload_bytes_uplink", COLUMN)
    rows = sorted(zip(*(wire[name].to_pylist() for name in columns), strict=True), key=lambda row: row[:3])
    reached: dict[Key, int] = {}
    at: tuple[str, int] | None = None
    emitted: list[Emitted] = []
    for name, connection, order, first_sent_at_ns, size, reached_at_ns in rows:
        if (name, connection) != at:
            at = (name, connection)
            emitted = ways[name].during(first_sent_at_ns) if name in ways and first_sent_at_ns else []
        if order >= len(emitted):
            continue
        key, emitted_at_ns, given = emitted[order]
        if given != size or not first_sent_at_ns or first_sent_at_ns < emitted_at_ns:
            emitted = []
        elif reached_at_ns is not None:
            reached[key] = reached_at_ns
    return reached
