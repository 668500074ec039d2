"""Turns a condition into what the kernel is told: meter rate, hold, queue limit, netem's parameters; pure.

Two stages in the order of a real link. The meter (HTB class, plug leaf) holds the queue in front of the
rate; netem, behind it, adds serialisation, delay, loss, reordering and duplicates. netem alone would fix the
send time of a packet when it arrives: after one slow second its queue would stay slow
(docs/decisions/link-rate.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from simulator.links import distributions
from simulator.links.base import QUEUE_MAX_BYTES, Condition, GilbertElliott
from simulator.links.netlink import TICK_NS, NetemOptions

TICKS_PER_MS: Final = 1e6 / TICK_NS
UNLIMITED_BYTES: Final = 1_250_000_000  # 10 Gbit/s: the meter of a link without a rate
FRAME_BYTES: Final = 1514
# A packet that has begun at a low rate ends at it, so the next waits for at most one frame at FLOOR_BYTES,
# 2 s. Below that rate whole frames are let through as the rate earns them.
FLOOR_BYTES: Final = FRAME_BYTES // 2
# Credit of the meter covers a timer that comes late. What it lets through at once, netem spaces; but what netem loses
# takes no time in it, so that on a lossy link the first frames after a rest come by up to this much sooner.
CREDIT_NS: Final = 50_000_000
BURST_TICKS: Final = CREDIT_NS // TICK_NS
QUEUE_MIN_BYTES: Final = 100 * FRAME_BYTES
QUEUE_UNLIMITED_BYTES: Final = 16 << 20
SMALLEST_FRAME_BYTES: Final = 60
LINE_MIN_PACKETS: Final = 1000
LINE_MAX_PACKETS: Final = 2_000_000


def rate_bytes(rate_bps: float) -> int:
    return max(1, round(rate_bps / 8))


def queue_bytes_of(condition: Condition) -> int:
    """Return how much may wait: one second and the delay at the rate asked for, 100 full frames at least.

    Rounded up to a power of two, so that a rate that changes each second seldom changes the limit.
    """
    if condition.queue_bytes is not None:
        return condition.queue_bytes
    if condition.rate_bps is None:
        return QUEUE_UNLIMITED_BYTES
    wanted = condition.rate_bps / 8 * (1 + condition.delay_ms / 1000)
    return min(1 << (max(QUEUE_MIN_BYTES, math.ceil(wanted)) - 1).bit_length(), QUEUE_MAX_BYTES)


def line_packets(rate: int | None, condition: Condition) -> int:
    """Return netem's limit: more packets than the delay line can ever hold at this rate."""
    size = FRAME_BYTES if rate is None else SMALLEST_FRAME_BYTES
    # A normal or pareto table reaches about four, respectively eight, times the jitter.
    longest_s = (condition.delay_ms + 8 * condition.jitter_ms) / 1000
    held = (UNLIMITED_BYTES if rate is None else rate) * longest_s / size
    return min(max(LINE_MIN_PACKETS, math.ceil(held * 2) + 100), LINE_MAX_PACKETS)


def netem_options(condition: Condition, rate: int | None) -> NetemOptions:
    """Return netem's parameters for a condition at the rate (bytes/s) its serialisation has, but for losses in bursts."""
    delay_ticks = round(condition.delay_ms * TICKS_PER_MS)
    limit_packets = line_packets(rate, condition)
    if condition.plain:
        return NetemOptions(delay_ticks, limit_packets, _share(condition.loss_ratio), 0, rate or 0)
    return NetemOptions(
        delay_ticks=delay_ticks,
        limit_packets=limit_packets,
        loss=0 if condition.gilbert_elliott is not None else _share(condition.loss_ratio),
        jitter_ticks=round(condition.jitter_ms * TICKS_PER_MS),
        rate_bytes=rate or 0,
        # Every packet is a candidate (gap 1); reorder is then the share sent at once.
        gap=1 if condition.reorder_ratio else 0,
        duplicate=_share(condition.duplicate_ratio),
        reorder=_share(condition.reorder_ratio),
        table=distributions.table(condition.distribution),
    )


def burst_options(bursts: GilbertElliott | None, *, bad: bool) -> NetemOptions:
    """Return the parameters of a netem that loses in bursts and does nothing else.

    Args:
        bursts: None loses nothing.
        bad: whether it begins in the bad state. The kernel begins in the good one (sch_netem.c, get_loss_clg): the two are
            told with their places exchanged then.
    """
    if bursts is None:
        return NetemOptions(limit_packets=LINE_MAX_PACKETS)
    good_to_bad, bad_to_good = bursts.good_to_bad_ratio, bursts.bad_to_good_ratio
    good_loss, bad_loss = bursts.good_loss_ratio, bursts.bad_loss_ratio
    if bad:
        good_to_bad, bad_to_good, good_loss, bad_loss = bad_to_good, good_to_bad, bad_loss, good_loss
    # struct tc_netem_gemodel: p, r, h = 1 - loss in bad, k1 = loss in good.
    model = (_share(good_to_bad), _share(bad_to_good), _share(1 - bad_loss), _share(good_loss))
    return NetemOptions(limit_packets=LINE_MAX_PACKETS, gilbert_elliott=model)


def _share(ratio: float) -> int:
    return round(ratio * 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Meter:
    """What one direction of one vehicle was last told, and what it is owed below the floor.

    Attributes:
        asked: the condition that it was told for.
        nested: whether its losses in bursts have a netem of their own, and `bursts` what that is told.
    """

    queue_bytes: int = QUEUE_MIN_BYTES
    rate: int | None = None
    held: bool = False
    credit_bytes: float = 0.0
    asked_at_s: float = 0.0
    asked: Condition | None = None
    nested: bool = False
    bursts: GilbertElliott | None = None

    def following(self, condition: Condition, at_s: float) -> Meter:
        """Return what it is told for a condition from `at_s` on: `rate` (bytes/s, None unlimited), `held`, `queue_bytes`."""
        queue_bytes = condition.queue_bytes
        if queue_bytes is None:
            # Never smaller than before: a slow second must not drop what a fast one has queued.
            queue_bytes = max(self.queue_bytes, queue_bytes_of(condition))
        rate, held, credit_bytes = self.rate, False, self.credit_bytes
        if condition.rate_bps is None:
            rate = None
        elif condition.rate_bps == 0:
            held = True  # the rate stays: it is the one that counts when the outage is over
        elif (asked := rate_bytes(condition.rate_bps)) >= FLOOR_BYTES:
            rate = asked
        else:
            # Below the floor: hold, and open at the floor's rate for each interval that has been earned.
            rate = FLOOR_BYTES
            credit_bytes += asked * (min(at_s - self.asked_at_s, 1.5) if self.asked_at_s else 1.0)
            held = credit_bytes < FLOOR_BYTES
            if not held:
                credit_bytes -= FLOOR_BYTES
        bursts = condition.gilbert_elliott
        nested = self.nested or bursts is not None
        return Meter(queue_bytes, rate, held, credit_bytes, at_s, condition, nested, bursts)
