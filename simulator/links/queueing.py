"""Turns a condition into what the kernel is told: meter rate, hold, queue limit, netem's parameters; pure.

Two stages in the order of a real link. The meter (HTB class, plug leaf) holds the queue in front of the
rate; netem, behind it, adds serialisation, delay, loss, reordering and duplicates. netem alone would fix the
send time of a packet when it arrives: after one slow second its queue would stay slow
(docs/decisions/link-rate.md).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.links import distributions
from simulator.links.base import QUEUE_MAX_BYTES, Condition, Direction, GilbertElliott, check
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


def line_packets(rate: int, condition: Condition) -> int:
    """Return netem's limit: more packets than the delay line can ever hold at this rate."""
    size = FRAME_BYTES if rate == UNLIMITED else SMALLEST_FRAME_BYTES
    # A normal or pareto table reaches about four, respectively eight, times the jitter.
    longest_s = (condition.delay_ms + 8 * condition.jitter_ms) / 1000
    held = (rate or UNLIMITED_BYTES) * longest_s / size
    return min(max(LINE_MIN_PACKETS, math.ceil(held * 2) + 100), LINE_MAX_PACKETS)


def netem_options(condition: Condition, rate: int) -> NetemOptions:
    """Return netem's parameters for a condition at the rate (bytes/s) its serialisation has, but for losses in bursts."""
    delay_ticks = round(condition.delay_ms * TICKS_PER_MS)
    limit_packets = line_packets(rate, condition)
    if condition.plain:
        return NetemOptions(delay_ticks, limit_packets, _share(condition.loss_ratio), 0, rate)
    return NetemOptions(
        delay_ticks=delay_ticks,
        limit_packets=limit_packets,
        loss=0 if condition.gilbert_elliott is not None else _share(condition.loss_ratio),
        jitter_ticks=round(condition.jitter_ms * TICKS_PER_MS),
        rate_bytes=rate,
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


TERMS: Final = np.dtype([("queue_bytes", "<i8"), ("queue_is_asked", "?"), ("rate", "<i8"), ("bursts", "<i4")])
UNLIMITED, OUTAGE = 0, -1  # in place of a rate in bytes/s
NO_BURSTS: Final = -1
# Columns of what each vehicle was told: `rate` in bytes/s, or UNLIMITED; `asked` is the number of the condition that it was
# told for, and `asked_at_s` when; `credit_bytes` is what it is owed below the floor; `nested`: its losses in bursts have a
# netem of their own, which was told those of the number `bursts`.
METER: Final = np.dtype(
    [
        ("queue_bytes", "<i8"), ("rate", "<i8"), ("held", "?"), ("credit_bytes", "<f8"), ("asked_at_s", "<f8"),
        ("asked", "<i4"), ("nested", "?"), ("bursts", "<i4"),
    ]
)  # fmt: skip
FORGOTTEN: Final = -2  # a number that is nobody's
Meters = npt.NDArray[np.void]  # of METER


class Terms:
    """Every condition that a link was asked for, numbered, and what each means for a meter.

    Attributes:
        columns: a row of `TERMS` for each number.
        bursts: models of losses in bursts, by their number in `columns`.
    """

    def __init__(self) -> None:
        self.columns = np.zeros(64, TERMS)
        self.bursts: list[GilbertElliott] = []
        self._of_bursts: dict[GilbertElliott, int] = {}
        self._conditions: list[Condition] = []
        self._numbers: dict[Condition, int] = {}
        self._by_identity: dict[int, int] = {}  # of the kept ones: a schedule hands out the same objects

    def __len__(self) -> int:
        return len(self._conditions)

    def __getitem__(self, number: int) -> Condition:
        return self._conditions[number]

    def number(self, condition: Condition, vehicle: int, direction: Direction) -> int:
        """Return a condition's number; Refusal that names the vehicle unless the kernel can do it."""
        found = self._by_identity.get(id(condition))
        if found is None:
            found = self._numbers.get(condition)
        if found is None:
            check(condition, vehicle, direction)
            found = self._numbers[condition] = self._by_identity[id(condition)] = len(self._conditions)
            self._conditions.append(condition)
            if found == len(self.columns):
                self.columns = np.concatenate((self.columns, np.zeros(found, TERMS)))
            self.columns[found] = self._terms(condition)
        return found

    def _terms(self, condition: Condition) -> tuple[int, bool, int, int]:
        rate_bps, model, number = condition.rate_bps, condition.gilbert_elliott, NO_BURSTS
        if model is not None:
            number = self._of_bursts.setdefault(model, len(self.bursts))
            if number == len(self.bursts):
                self.bursts.append(model)
        rate = UNLIMITED if rate_bps is None else OUTAGE if rate_bps == 0 else rate_bytes(rate_bps)
        return queue_bytes_of(condition), condition.queue_bytes is not None, rate, number


def new_meters(count: int) -> Meters:
    """Return meters as they are when they are made."""
    made = np.zeros(count, METER)
    made["queue_bytes"], made["asked"], made["bursts"] = QUEUE_MIN_BYTES, FORGOTTEN, NO_BURSTS
    return made


def following(before: Meters, terms: Terms, asked: npt.NDArray[np.int64], at_s: float) -> Meters:
    """Return what meters are told for conditions, by their numbers, from `at_s` on."""
    told, term = before.copy(), terms.columns[asked]
    rate, owed = term["rate"], before["credit_bytes"]
    # Never smaller than before: a slow second must not drop what a fast one has queued.
    queue_bytes = np.maximum(before["queue_bytes"], term["queue_bytes"])
    told["queue_bytes"] = np.where(term["queue_is_asked"], term["queue_bytes"], queue_bytes)
    # In an outage the rate stays: it is the one that counts when that is over.
    out, below = rate == OUTAGE, (rate > 0) & (rate < FLOOR_BYTES)
    told["rate"] = np.where(out, before["rate"], np.where(below, FLOOR_BYTES, rate))
    # Below the floor: hold, and open at the floor's rate for each interval that has been earned.
    since_s = np.where(before["asked_at_s"] != 0, np.minimum(at_s - before["asked_at_s"], 1.5), 1.0)
    owed = owed + np.where(below, rate * since_s, 0.0)
    told["held"] = out | (below & (owed < FLOOR_BYTES))
    told["credit_bytes"] = owed - np.where(below & ~told["held"], FLOOR_BYTES, 0)
    told["asked"], told["asked_at_s"], told["bursts"] = asked, at_s, term["bursts"]
    told["nested"] |= term["bursts"] != NO_BURSTS
    return told
