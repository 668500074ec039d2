"""Reads the kernel's counts of every vehicle out of a dump of the router's qdiscs; pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulator.links import netlink as nl
from simulator.links.base import Direction, LinkCounter
from simulator.links.plan import STRAY_CLASS, Plan


class Statistics(NamedTuple):
    """One qdisc or class of a dump; bytes and packets are those that left it."""

    device: int
    kind: str
    handle: int
    parent: int
    sent_bytes: int
    packets: int
    drops: int
    backlog_bytes: int
    backlog_packets: int
    options: bytes


def statistics(block: bytes) -> Iterator[Statistics]:
    """Read TCA_STATS2 (basic and queue) out of a dump of qdiscs or classes."""
    for kind, _sequence, start, end in nl.messages(block):
        if kind not in (nl.NEWQDISC, nl.NEWCLASS):
            continue
        _family, _p1, _p2, device, handle, parent, _info = nl.TC.unpack_from(block, start)
        found = nl.attributes(block, start + nl.TC.size, end)
        nested = found.get(7, b"")
        inner = nl.attributes(nested, 0, len(nested))
        sent = struct.unpack_from("=QI", inner[1]) if 1 in inner else (0, 0)
        queue = struct.unpack_from("=IIIII", inner[3]) if 3 in inner else (0, 0, 0, 0, 0)
        name = found.get(1, b"").rstrip(b"\0").decode()
        counts = (sent[0], sent[1], queue[2], queue[1], queue[0])
        yield Statistics(device, name, handle, parent, *counts, found.get(2, b""))


def read(replies: bytes, plans: Sequence[Plan]) -> list[LinkCounter]:
    """Return one counter per vehicle and direction: netem's own, with the queue before it added."""
    lines = {device: plan.direction for plan in plans for device in plan.lines}
    meters = {device: plan.direction for plan in plans for device in plan.meters}
    queues: dict[tuple[int, Direction], Statistics] = {}
    delays: dict[tuple[int, Direction], Statistics] = {}
    for one in statistics(replies):
        vehicle = (one.handle >> 16) - 1
        if vehicle == STRAY_CLASS - 1:
            continue
        if one.kind == "netem" and one.device in lines:
            delays[vehicle, lines[one.device]] = one
        elif one.kind == "plug" and one.device in meters:
            queues[vehicle, meters[one.device]] = one
    return [_counter(key, one, queues[key]) for key, one in delays.items()]


def _counter(key: tuple[int, Direction], line: Statistics, queue: Statistics) -> LinkCounter:
    return LinkCounter(
        vehicle=key[0],
        direction=key[1],
        bytes=line.sent_bytes,
        packets=line.packets,
        drops=line.drops + queue.drops,
        queue_drops=queue.drops,
        backlog_bytes=line.backlog_bytes + queue.backlog_bytes,
        backlog_packets=line.backlog_packets + queue.backlog_packets,
    )
