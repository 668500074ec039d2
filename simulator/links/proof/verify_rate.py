"""Judges the rate at which a link let a saturating flow pass; pure."""

from __future__ import annotations

import math
from typing import Final

from simulator.links.base import Condition
from simulator.links.proof.checks import Check
from simulator.links.proof.probes import Flow
from simulator.links.queueing import CREDIT_NS

RATE_TOLERANCE: Final = 0.015
LEAST_OFFERED: Final = 1.05  # below that it is the sender that is measured
# Share of the flow's time in which a late sender may have left the link nothing to do.
MOST_IDLE: Final = 0.005


def judge_rate(flow: Flow, condition: Condition) -> Check:
    """Return the check of a flow above the rate; "unproven" where its sender was too slow to keep the link busy."""
    rate, lost = condition.rate_bps, condition.mean_loss_ratio
    assert rate
    asked = rate * (1 - lost)
    served_s = flow.count * flow.frame_bytes * 8 / rate
    reason = _too_slow(flow, rate, served_s)
    if reason is not None:
        return Check("rate, UDP", flow.direction, _rate(rate), reason, "needs 5 % more", "unproven", asked)
    # One frame more or less at the ends, the chance in how many were lost (of bursts fewer are independent), and a
    # spread of delays between the first frame and the last.
    worth = 2 * condition.burst_packets - 1
    chance = 3.3 * math.sqrt(lost * (1 - lost) * worth / flow.count) if lost else 0.0
    tolerance = RATE_TOLERANCE + 1 / flow.count + chance + 2 * condition.jitter_ms / 1e3 / served_s
    # The meter's credit shows where netem lost frames, and never above the rate.
    credit = rate * min(lost, CREDIT_NS / 1e9 / served_s)
    achieved = flow.rate_bps()
    good = -tolerance * asked <= achieved - asked <= tolerance * asked + credit
    return Check(
        "rate, UDP",
        flow.direction,
        _rate(asked),
        f"{_rate(achieved)} ({(achieved / asked - 1) * 100:+.2f} %)",
        f"within {tolerance * 100:.1f} %" + (f", credit {_rate(credit)}" if credit else ""),
        "pass" if good else "off",
        asked,
        achieved,
    )


def _too_slow(flow: Flow, rate_bps: float, served_s: float) -> str | None:
    offered = flow.offered_bps()
    if offered < rate_bps * LEAST_OFFERED:
        return f"the sender offered {_rate(offered)}"
    idle_s = flow.idle_s(rate_bps)
    if idle_s > MOST_IDLE * served_s:
        return f"the sender left the link idle for {idle_s * 1e3:.0f} ms"
    return None


def _rate(bps: float) -> str:
    return f"{bps / 1e6:.3f} Mbit/s" if bps >= 1e6 else f"{bps / 1e3:.2f} kbit/s"
