"""Reads the kernel's counts of every vehicle out of a dump of the router's qdiscs; pure."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.links import netlink as nl
from simulator.links.base import Direction, LinkCounter
from simulator.links.plan import STRAY_CLASS, Plan


def read(replies: bytes, plans: Sequence[Plan]) -> list[LinkCounter]:
    """Return one counter per vehicle and direction: netem's own, with the queue before it added."""
    lines = {device: plan.direction for plan in plans for device in plan.lines}
    meters = {device: plan.direction for plan in plans for device in plan.meters}
    queues: dict[tuple[int, Direction], nl.Statistics] = {}
    delays: dict[tuple[int, Direction], nl.Statistics] = {}
    for one in nl.statistics(replies):
        vehicle = (one.handle >> 16) - 1
        if vehicle == STRAY_CLASS - 1:
            continue
        if one.kind == "netem" and one.device in lines:
            delays[vehicle, lines[one.device]] = one
        elif one.kind == "plug" and one.device in meters:
            queues[vehicle, meters[one.device]] = one
    return [_counter(key, one, queues[key]) for key, one in delays.items()]


def _counter(key: tuple[int, Direction], line: nl.Statistics, queue: nl.Statistics) -> LinkCounter:
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
