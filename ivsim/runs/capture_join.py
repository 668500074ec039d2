"""Joins the capture's messages to the emission log, where a mode has no acknowledgements; pure, it opens no file.

Both sides are columns. Of the log, events are put side by side by vehicle, so that each CONNECTED begins a connection, whose
number the events behind it have; messages that the client did not send are left out, and the place of each other one among
those of its connection is counted. Of the capture, each connection is led to the one of the log that was up when its first
publish left, and its nth publish to that one's nth message. A publish that does not fit ends the join of its connection:
all that come behind it, by a running sum of misfits, prove nothing. A connection of the log to which none is led put no
publish on the wire, if the capture has read all that its vehicle sent.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.topics import vehicle_id
from simulator.emission_log import Kind, Reason

COLUMN = "reached_cloud_at_ns"
HELD_BACK = "held_back"
_SEQUENCE_BITS = 40
# Of these a byte that is no header may be of a publish: of a stream that is encrypted, unknown, joined late or cut short.
_UNREAD = ("handshake", "secured", "opaque", "other")
_CONTENT = ("payload", "protocol", "opaque")
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def with_proof(
    emissions: pa.Table, events: npt.NDArray[Any], wire: pa.Table, categories: pa.Table | None
) -> pa.Table:
    """Return `emissions` with what the capture proves, null where it proves nothing.

    `reached_cloud_at_ns`: the cloud's host had the whole message. `held_back`: the client was given the message and
    never put a byte of it on the wire.

    The capture does not read sequences: its nth publish of a connection is the nth message that the client
    was given while that connection was up, those left out that the client did not send (Maximum Packet Size). The last
    publish of a connection may be there in part, with which the connection ended. Any other row that does not fit
    (other size, seen before it was given) ends the join of its connection, since an order with a hole says nothing about
    what follows.

    A connection without a row put no publish on the wire, so that all that it was given was held back. That is known of a
    vehicle all of whose streams the capture has read, and whose connections on the wire are each led to another one of the
    log, and fit there: another one may be of an earlier connection whose bytes TCP sent late.

    Args:
        emissions: emissions.parquet of the run.
        events: the emission log (simulator.emission_table.EVENT), in the order of writing.
        wire: wire_messages.parquet; every connection's first row must be its first publish.
        categories: wire_categories.parquet; None: of no vehicle is it known that all was read.
    """
    given = _given(events)
    reached_at_ns = np.zeros(emissions.num_rows, np.int64)
    held_back = np.zeros(emissions.num_rows, np.bool_)
    if given.events.size:
        rows = _rows_of(emissions, given)
        reached, at_ns, held = _join(given, wire, _read(given, categories))
        known = rows[reached] >= 0
        reached_at_ns[rows[reached][known]] = at_ns[known]  # of a message that was given twice the last stays
        held_back[rows[held[rows[held] >= 0]]] = True
    proof = emissions.append_column(COLUMN, pa.array(reached_at_ns, mask=reached_at_ns == 0))
    return proof.append_column(HELD_BACK, pa.array(held_back, mask=~held_back))


@dataclass(frozen=True)
class _Given:
    """What clients noted, by vehicle: their connections, and what they were given in each, in order.

    Attributes:
        names: ids of the vehicles, whose places number them.
        events: EMITTED, by vehicle and connection, in the order of the log.
        vehicles: of each of them.
        connected_at_ns: of each connection, by vehicle.
        connections: where those of a vehicle begin, and at last how many there are.
        begins: where the events of a connection begin, and at last how many there are.
    """

    names: list[str]
    events: npt.NDArray[Any]
    vehicles: Ints
    connected_at_ns: list[int]
    connections: Ints
    begins: Ints

    def during(self, vehicle: int, at_ns: int) -> int:
        """Return the connection of a vehicle that was up at that time, or the last before it; -1: none."""
        begin, end = int(self.connections[vehicle]), int(self.connections[vehicle + 1])
        found = bisect_right(self.connected_at_ns, at_ns, begin, end) - 1
        return found if found >= begin else -1


def _given(events: npt.NDArray[Any]) -> _Given:
    never_sent = (events["kind"] == Kind.REFUSED) & (events["reason"] == Reason.BEYOND_PEERS_LIMIT)
    known = events[np.isin(events["kind"], (Kind.CONNECTED, Kind.EMITTED)) | never_sent]
    own = known[np.argsort(known["vehicle"], kind="stable")]
    numbers, vehicles = np.unique(own["vehicle"], return_inverse=True)
    begins = own["kind"] == Kind.CONNECTED
    connections = np.searchsorted(vehicles[begins], np.arange(len(numbers) + 1))
    connection = np.cumsum(begins) - 1
    emitted = (own["kind"] == Kind.EMITTED) & (connection >= connections[vehicles])
    for at in np.flatnonzero((own["kind"] == Kind.REFUSED) & (connection >= connections[vehicles])).tolist():
        here = slice(int(np.searchsorted(connection, connection[at])), at)
        same = (own["epoch"][here] == own["epoch"][at]) & (own["sequence"][here] == own["sequence"][at])
        emitted[here] &= ~same
    return _Given(
        [vehicle_id(number) for number in numbers.tolist()],
        own[emitted],
        vehicles[emitted],
        own["at_ns"][begins].tolist(),
        connections,
        np.searchsorted(connection[emitted], np.arange(int(begins.sum()) + 1)),
    )


def _rows_of(emissions: pa.Table, given: _Given) -> Ints:
    """Return of each message given which row of `emissions` it is; -1: none."""
    epochs = np.unique(given.events["epoch"])

    def keys(vehicles: Ints, of_epochs: Ints, sequences: Ints) -> Ints:
        return (vehicles * len(epochs) + of_epochs) << _SEQUENCE_BITS | sequences

    vehicles = _places(emissions["vehicle_id"], pa.array(given.names, pa.string()))
    of_epochs = _places(emissions["epoch"], pa.array(epochs.astype(np.int64)).cast(emissions["epoch"].type))
    due = keys(vehicles, of_epochs, emissions["sequence"].to_numpy())
    due[(vehicles < 0) | (of_epochs < 0)] = -1
    order = np.argsort(due, kind="stable")
    sequences = given.events["sequence"].astype(np.int64)
    wanted = keys(given.vehicles, np.searchsorted(epochs, given.events["epoch"]), sequences)
    at = np.minimum(np.searchsorted(due[order], wanted), max(len(due) - 1, 0))
    return np.where(due[order][at] == wanted, order[at], -1) if len(due) else np.full(len(wanted), -1)


def _read(given: _Given, categories: pa.Table | None) -> Flags:
    """Return of which vehicles the capture has read all that they sent, a CONNECT or its like at least."""
    if categories is None:
        return np.zeros(len(given.names), np.bool_)

    def sent(purposes: tuple[str, ...], layers: tuple[str, ...]) -> Flags:
        chosen = pc.equal(categories["direction"], "uplink")
        for name, values in (("purpose", purposes), ("layer", layers)):
            chosen = pc.and_(chosen, pc.is_in(categories[name], pa.array(values)))
        names = categories["vehicle_id"].filter(chosen)
        found: Flags = pc.is_in(pa.array(given.names, pa.string()), names.combine_chunks()).to_numpy(
            zero_copy_only=False
        )
        return found

    return sent(("connection",), ("protocol",)) & ~sent(_UNREAD, _CONTENT)


def _silent(given: _Given, read: Flags, odd: Ints, vehicles: Ints, led_to: Ints) -> Flags:
    """Return which connections of the log put no publish on the wire.

    Args:
        given: the log.
        read: of each vehicle, whether the capture has read all that it sent.
        odd: the vehicles with a publish that does not fit where it was led to: it may be of a connection before.
        vehicles: of each connection of the capture that has a publish.
        led_to: which of the log it is; -1: none.
    """
    owners = np.repeat(np.arange(len(given.names)), np.diff(given.connections))
    counts = np.bincount(led_to[led_to >= 0], minlength=len(owners))
    known = read.copy()
    known[odd] = False
    known[vehicles[led_to < 0]] = False
    known[owners[counts > 1]] = False
    silent: Flags = known[owners] & (counts == 0)
    return silent


def _join(given: _Given, wire: pa.Table, read: Flags) -> tuple[Ints, Ints, Ints]:
    """Return which messages given reached the cloud's host, and when; and which never left the client."""
    vehicles = _places(wire["vehicle_id"], pa.array(given.names, pa.string()))
    columns = [
        pc.fill_null(wire[name], 0).to_numpy().astype(np.int64)
        for name in ("connection", "order", "first_sent_at_ns", "payload_bytes_uplink", COLUMN)
    ]
    by_order = np.lexsort((columns[1], columns[0], vehicles))
    by_order = by_order[vehicles[by_order] >= 0]
    vehicles = vehicles[by_order]
    number, order, first_sent_at_ns, sizes, reached_at_ns = (column[by_order] for column in columns)
    proven = pc.is_valid(wire[COLUMN]).to_numpy()[by_order]
    new = (vehicles[1:] != vehicles[:-1]) | (number[1:] != number[:-1])
    heads = np.flatnonzero(np.concatenate(([True], new)))[: len(vehicles)]
    ends = np.append(heads[1:], len(vehicles))[: len(heads)]
    lengths = ends - heads
    of_group = np.array(
        [
            given.during(vehicle, at_ns) if at_ns else -1
            for vehicle, at_ns in zip(vehicles[heads].tolist(), first_sent_at_ns[heads].tolist(), strict=True)
        ],
        np.int64,
    )
    connection = np.repeat(of_group, lengths)
    place = given.begins[connection] + order
    known = (connection >= 0) & (place < given.begins[connection + 1])
    place = np.where(known, place, 0)
    size, emitted_at_ns = given.events["size"][place].astype(np.int64), given.events["at_ns"][place]
    begun = (sizes < size) & (order == np.repeat(order[ends - 1], lengths))
    misfit = ~((sizes == size) | begun) | (first_sent_at_ns == 0) | (first_sent_at_ns < emitted_at_ns)
    misfit &= known
    # Two connections of the capture may be one of the log: misfits are summed up over both.
    together = np.argsort(connection, kind="stable")
    sums = np.cumsum(misfit[together])
    at_head = np.searchsorted(connection[together], connection[together])
    before = sums[at_head] - misfit[together][at_head]
    fits = np.empty(len(known), np.bool_)
    fits[together] = sums == before
    fits &= known
    sent = np.full(len(given.connected_at_ns) + 1, -1)
    sent[connection[fits]] = order[fits] + 1  # of several the last stays
    sent[connection[misfit]] = -1
    sent[:-1][_silent(given, read, vehicles[misfit], vehicles[heads], of_group)] = 0
    counts = np.diff(given.begins)
    of_message = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(given.events)) - given.begins[of_message]
    held = np.flatnonzero((sent[of_message] >= 0) & (nth >= sent[of_message]))
    there = fits & proven & ~begun
    return place[there], reached_at_ns[there], held


def _places(column: pa.ChunkedArray, values: pa.Array) -> Ints:
    """Return where among the values each of a column is; -1: nowhere."""
    found: Ints = pc.fill_null(pc.index_in(column, values), -1).to_numpy().astype(np.int64)
    return found


def without_proof(emissions: pa.Table) -> pa.Table:
    """Return `emissions` with the columns, null everywhere: there is no capture, or the mode needs none."""
    unknown = emissions.append_column(COLUMN, pa.nulls(emissions.num_rows, pa.int64()))
    return unknown.append_column(HELD_BACK, pa.nulls(emissions.num_rows, pa.bool_()))
