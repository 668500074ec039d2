"""Reads the kernel's counts of every vehicle out of a dump of the router's qdiscs; pure.

A fleet of 5,000 has 20,000 qdiscs, which are counted each second. Those of a kind have the same attributes at the same
places: their messages are rows of a table whose columns the first of them tells, and those that differ in their attributes
are a table of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.links import netlink as nl
from simulator.links.base import DIRECTIONS, LinkCounts, LinkError
from simulator.links.plan import STRAY_CLASS, Plan

_KIND, _STATS2, _BASIC, _QUEUE = 1, 7, 1, 3  # TCA_KIND, TCA_STATS2; in it TCA_STATS_BASIC, TCA_STATS_QUEUE
_DEVICE_AT, _HANDLE_AT, _PARENT_AT = 4, 8, 12  # in struct tcmsg
# Where gnet_stats_basic and gnet_stats_queue have what is read here, with the bytes of each.
_OF_BASIC: Final = ((0, 8), (8, 4))  # bytes, packets: they have left it
_OF_QUEUE: Final = ((8, 4), (4, 4), (0, 4))  # drops, backlog in bytes, in packets
_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


class Qdiscs(NamedTuple):
    """Qdiscs of one kind, a row each; `counts` has bytes, packets, drops, and what waits in bytes and packets."""

    kind: str
    devices: _Numbers
    handles: _Numbers
    parents: _Numbers
    counts: _Numbers


class _Layout(NamedTuple):
    """Where a message has its counts (None: it has none), and the bytes in which its like are equal to it."""

    kind: str
    basic: int | None
    queue: int | None
    equal: list[int]


def qdiscs(block: bytes) -> Iterator[Qdiscs]:
    """Read every qdisc of a dump; what is cut off at its end is left out."""
    raw = np.frombuffer(block, np.uint8)
    for length, starts in nl.bodies(block, nl.NEWQDISC).items():
        if length < nl.TC.size:
            continue
        rows = raw[starts[:, None] + np.arange(length)]
        while len(rows):
            layout = _layout(rows[0].tobytes())
            alike = (rows[:, layout.equal] == rows[0, layout.equal]).all(axis=1)
            yield _read(rows[alike], layout)
            rows = rows[~alike]


def _layout(message: bytes) -> _Layout:
    kind, basic, queue = "", None, None
    equal: list[int] = []
    for attribute, start, end in _attributes(message, nl.TC.size, len(message)):
        equal += range(start - 4, start)
        if attribute == _KIND:
            kind = message[start:end].rstrip(b"\0").decode(errors="replace")
            equal += range(start, end)
        elif attribute == _STATS2:
            for inner, first, last in _attributes(message, start, end):
                equal += range(first - 4, first)
                if inner == _BASIC and last - first >= 12:
                    basic = first
                elif inner == _QUEUE and last - first >= 20:
                    queue = first
    return _Layout(kind, basic, queue, equal)


def _attributes(message: bytes, offset: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of the value of each attribute that lies between two offsets as a whole."""
    while offset + 4 <= end:
        size, kind = struct.unpack_from("=HH", message, offset)
        if size < 4 or offset + size > end:
            return
        yield kind & 0x3FFF, offset + 4, offset + size
        offset += (size + 3) & ~3


def _read(rows: _Bytes, layout: _Layout) -> Qdiscs:
    def column(start: int | None, at: int, size: int) -> _Numbers:
        if start is None:
            return np.zeros(len(rows), np.int64)
        part = np.ascontiguousarray(rows[:, start + at : start + at + size])
        return part.view(f"=u{size}")[:, 0].astype(np.int64)

    counts = [column(layout.basic, *one) for one in _OF_BASIC] + [
        column(layout.queue, *one) for one in _OF_QUEUE
    ]
    devices, handles, parents = (column(0, at, 4) for at in (_DEVICE_AT, _HANDLE_AT, _PARENT_AT))
    return Qdiscs(layout.kind, devices, handles, parents, np.stack(counts, axis=1))


def read(replies: bytes, plans: Sequence[Plan]) -> LinkCounts:
    """Return the counts of every vehicle and direction: netem's own, with the queue before it added.

    LinkError where a vehicle has one of the two alone.
    """
    found = list(qdiscs(replies))
    ways = {plan.direction: DIRECTIONS.index(plan.direction) for plan in plans}
    lines = _of(found, "netem", {device: ways[plan.direction] for plan in plans for device in plan.lines})
    queues = _of(found, "plug", {device: ways[plan.direction] for plan in plans for device in plan.meters})
    if not np.array_equal(lines[:, :2], queues[:, :2]):
        raise LinkError(
            f"the kernel has counted {len(lines)} delay lines and {len(queues)} queues of vehicles"
        )
    vehicles, way, sent_bytes, packets, drops, waiting_bytes, waiting_packets = lines.T
    *_, queue_drops, queued_bytes, queued_packets = queues.T
    values = (
        *(sent_bytes, packets, drops + queue_drops, queue_drops),
        *(waiting_bytes + queued_bytes, waiting_packets + queued_packets),
    )
    return LinkCounts(vehicles, way, np.stack(values, axis=1))


def _of(found: Sequence[Qdiscs], kind: str, way_of: Mapping[int, int]) -> _Numbers:
    """Return vehicle, way and counts of the qdiscs of a kind that are on these devices, in the order of way and vehicle."""
    parts = [np.zeros((0, 7), np.int64)]
    for some in found:
        if some.kind == kind:
            devices, place = np.unique(some.devices, return_inverse=True)
            way = np.array([way_of.get(device, -1) for device in devices.tolist()], np.int64)[place]
            vehicle = (some.handles >> 16) - 1
            # A netem behind another one, which counts for both, is under no class of HTB's root.
            here = (way >= 0) & (vehicle != STRAY_CLASS - 1) & (some.parents >> 16 == 1)
            parts.append(np.column_stack((vehicle, way, some.counts))[here])
    rows = np.concatenate(parts)
    return rows[np.lexsort((rows[:, 0], rows[:, 1]))]
