"""Judges many vehicles at once: whether each one's packets met its own delay, and all their loss."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from simulator.links.base import DIRECTIONS, Condition, Link
from simulator.links.proof import checks, probes
from simulator.links.proof.checks import Check
from simulator.links.proof.probes import Flow
from simulator.links.proof.verify import LIGHT_FRAME_BYTES


def verify_fleet(link: Link, vehicles: int, seconds: float) -> list[Check]:
    """Give each of many vehicles a delay and a loss of its own, and judge each by its own packets.

    Two packets a second each way; the vehicle's delay tells whether it was its own leaf that held them.
    """
    delays = {k: (10.0 + k % 97, 10.0 + (k * 7) % 89) for k in range(1, vehicles + 1)}
    loss = 0.02
    began = time.perf_counter()
    link.update(
        {k: (Condition(None, up, loss), Condition(None, down, loss)) for k, (up, down) in delays.items()}
    )
    took_ms = (time.perf_counter() - began) * 1e3
    count = max(5, round(seconds * 2))
    flows = [Flow(k, d, LIGHT_FRAME_BYTES, 0.5, count) for k in delays for d in DIRECTIONS]
    probes.run(link, flows)
    return [
        Check("update", "both", "", f"{took_ms:.1f} ms", "", "pass", None, took_ms),
        *fleet_checks(flows, delays, loss),
    ]


def fleet_checks(
    flows: Iterable[Flow], delays: dict[int, tuple[float, float]], loss: float
) -> Iterator[Check]:
    """Yield for each direction whether each vehicle has its own delay (uplink, downlink, in ms), and the fleet its loss."""
    by_direction = {d: [flow for flow in flows if flow.direction == d] for d in DIRECTIONS}
    for which, direction in enumerate(DIRECTIONS):
        group = by_direction[direction]
        excess = [
            checks.quantile(flow.delays_ms(), 0.5) - delays[flow.vehicle][which]
            for flow in group
            if flow.received_at_ns
        ]
        # A neighbour's leaf is at least 1 ms away; five packets or more are not all lost to 2 %.
        silent = len(group) - len(excess)
        wrong = sum(not -0.1 <= one <= 2.0 for one in excess)
        median = checks.quantile(excess, 0.5) if excess else None
        spread = f"; excess p50 {median:.2f}, p99 {checks.quantile(excess, 0.99):.2f} ms" if excess else ""
        yield Check(
            "delay, median of each vehicle",
            direction,
            f"{len(group)} vehicles, each its own",
            f"{wrong} wrong, {silent} silent{spread}",
            "-0.1 to 2 ms, at most 1 % outside, none silent",
            "pass" if wrong <= len(group) / 100 and not silent else "off",
            0.0,
            median,
        )
        lost = sum(flow.count - len(flow.received_at_ns) for flow in group)
        yield checks.check_loss(direction, loss, lost, sum(flow.count for flow in group))
