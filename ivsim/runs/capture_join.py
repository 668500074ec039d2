"""Joins the capture's messages to the emission log, where a mode has no acknowledgements; pure, it opens no file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.topics import vehicle_id
from simulator.emission_log import Kind, Reason

COLUMN = "reached_cloud_at_ns"
HELD_BACK = "held_back"
Key = tuple[str, int, int]
Emitted = tuple[Key, int, int]  # message, at_ns, payload bytes
# vehicle and number of the connection: how many of its messages the wire has had; None where the join does not hold
Sent = dict[tuple[str, int], int | None]


class _Way:
    """What one vehicle's client noted: its connections, and what it was given in each, in order."""

    def __init__(self) -> None:
        self.connected_at_ns: list[int] = []
        self.emitted: list[list[Emitted]] = []

    def connected(self, at_ns: int) -> None:
        self.connected_at_ns.append(at_ns)
        self.emitted.append([])

    def during(self, at_ns: int) -> int:
        """Return the number of the connection that was up at that time, or the last before it; -1: none."""
        return bisect_right(self.connected_at_ns, at_ns) - 1


def with_proof(emissions: pa.Table, events: npt.NDArray[Any], wire: pa.Table) -> pa.Table:
    """Return `emissions` with what the capture proves, null where it proves nothing.

    `reached_cloud_at_ns`: the cloud's host had the whole message. `held_back`: the client was given the message and
    never put a byte of it on the wire.

    The capture does not read sequences: its nth publish of a connection is the nth message that the client
    was given while that connection was up, those left out that the client did not send (Maximum Packet Size). The last
    publish of a connection may be there in part, with which the connection ended. Any other row that does not fit
    (other size, seen before it was given) ends the join of its connection, since an order with a hole says nothing about
    what follows.

    Args:
        emissions: emissions.parquet of the run.
        events: the emission log (simulator.emission_table.EVENT), in the order of writing.
        wire: wire_messages.parquet; every connection's first row must be its first publish.
    """
    ways = _ways(events)
    reached, sent = _join(ways, wire)
    held = _held_back(ways, sent)
    names = zip(*(emissions[name].to_pylist() for name in ("vehicle_id", "epoch", "sequence")), strict=True)
    keys = list(names)
    proven = emissions.append_column(COLUMN, pa.array([reached.get(key) for key in keys], pa.int64()))
    return proven.append_column(
        HELD_BACK, pa.array([True if key in held else None for key in keys], pa.bool_())
    )


def without_proof(emissions: pa.Table) -> pa.Table:
    """Return `emissions` with the columns, null everywhere: there is no capture, or the mode needs none."""
    unknown = emissions.append_column(COLUMN, pa.nulls(emissions.num_rows, pa.int64()))
    return unknown.append_column(HELD_BACK, pa.nulls(emissions.num_rows, pa.bool_()))


def _ways(events: npt.NDArray[Any]) -> dict[str, _Way]:
    ways: dict[str, _Way] = defaultdict(_Way)
    never_sent = (events["kind"] == Kind.REFUSED) & (events["reason"] == Reason.BEYOND_PEERS_LIMIT)
    known = np.isin(events["kind"], (Kind.CONNECTED, Kind.EMITTED)) | never_sent
    for event in events[known]:
        name, at_ns = vehicle_id(int(event["vehicle"])), int(event["at_ns"])
        if event["kind"] == Kind.CONNECTED:
            ways[name].connected(at_ns)
        elif ways[name].emitted:
            key = (name, int(event["epoch"]), int(event["sequence"]))
            given = ways[name].emitted[-1]
            if event["kind"] == Kind.EMITTED:
                given.append((key, at_ns, int(event["size"])))
            else:
                given[:] = [one for one in given if one[0] != key]
    return ways


def _join(ways: dict[str, _Way], wire: pa.Table) -> tuple[dict[Key, int], Sent]:
    columns = ("vehicle_id", "connection", "order", "first_sent_at_ns", "payload_bytes_uplink", COLUMN)
    rows = sorted(zip(*(wire[name].to_pylist() for name in columns), strict=True), key=lambda row: row[:3])
    reached: dict[Key, int] = {}
    sent: Sent = {}
    at: tuple[str, int] | None = None
    index = -1
    last = {row[:2]: row[2] for row in rows}
    for name, connection, order, first_sent_at_ns, size, reached_at_ns in rows:
        if (name, connection) != at:
            at = (name, connection)
            index = ways[name].during(first_sent_at_ns) if name in ways and first_sent_at_ns else -1
        if index < 0 or sent.get((name, index), 0) is None:
            continue
        emitted = ways[name].emitted[index]
        if order >= len(emitted):
            continue
        key, emitted_at_ns, given = emitted[order]
        begun = size < given and order == last[at]
        if not (size == given or begun) or not first_sent_at_ns or first_sent_at_ns < emitted_at_ns:
            sent[name, index] = None
            continue
        sent[name, index] = order + 1
        if reached_at_ns is not None and not begun:
            reached[key] = reached_at_ns
    return reached, sent


def _held_back(ways: dict[str, _Way], sent: Sent) -> set[Key]:
    """Return the messages of joined connections that come after the last one on the wire."""
    return {
        key
        for (name, index), count in sent.items()
        if count is not None
        for key, _, _ in ways[name].emitted[index][count:]
    }
