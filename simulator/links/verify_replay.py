"""Judges a replay: seconds of a trace played under a saturating flow, the bytes of each second counted."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from simulator.links import probes
from simulator.links.base import Condition, Conditions, Link
from simulator.links.judging import Check
from simulator.links.probes import Flow
from simulator.links.replay import LinkReplay
from simulator.links.verify import SATURATION, drain


def verify_replay(link: Link, vehicle: int, series: Sequence[tuple[Condition, Condition]]) -> list[Check]:
    """Play seconds of a trace while a UDP flow saturates the uplink, and judge the bytes of each second.

    Both the rate and the moment of each change show: a second that starts 100 ms late is off by a tenth of
    the difference.
    """
    rates = [up.rate_bps or 0.0 for up, _down in series]
    start_at_ns = time.time_ns() + 500_000_000
    frame = 1514 if min(rates) > 100e3 else 314
    interval_s = frame * 8 / (max(rates) * SATURATION)
    flow = Flow(vehicle, "uplink", frame, interval_s, round(len(rates) / interval_s))

    def schedule(second: int) -> Conditions:
        return {vehicle: series[min(second, len(series) - 1)]}

    with LinkReplay(link, schedule, start_at_ns) as replay:
        time.sleep(max(0.0, start_at_ns / 1e9 - time.time()))
        probes.run(link, [flow], settle_s=0.3)
    drain(link, [vehicle])
    if replay.failure is not None:
        raise replay.failure
    return [_judge_second(flow, second, series, start_at_ns) for second in range(len(series))]


def _judge_second(
    flow: Flow, second: int, series: Sequence[tuple[Condition, Condition]], start_at_ns: int
) -> Check:
    condition = series[second][0]
    rate = condition.rate_bps or 0.0
    before = series[second - 1][0].rate_bps or 0.0 if second else rate
    # Frames sent in this second arrive one delay later.
    begins = start_at_ns + second * 1_000_000_000 + round(condition.delay_ms * 1e6)
    came = sum(begins <= at < begins + 1_000_000_000 for at in flow.received_at_ns.values())
    asked, seen = rate * (1 - condition.loss_ratio), came * flow.frame_bytes * 8.0
    # The first second fills the pipe; a change may come 50 ms late; the frame in service ends at its rate.
    lost = condition.loss_ratio
    chance = 3.3 * math.sqrt(lost * max(1, came)) * flow.frame_bytes * 8
    allowed = 0.02 * asked + 0.06 * abs(rate - before) + 2 * flow.frame_bytes * 8 + chance
    if second == 0:
        allowed += 0.06 * rate
    return Check(
        f"second {second}",
        "uplink",
        f"{asked / 1e6:.3f} Mbit",
        f"{seen / 1e6:.3f} Mbit",
        f"within {allowed / 1e6:.3f} Mbit",
        "pass" if abs(seen - asked) <= allowed else "off",
        asked,
        seen,
    )
