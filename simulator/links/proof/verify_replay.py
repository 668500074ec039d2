"""Judges a replay: seconds of a trace played under a saturating flow, the bytes of each second counted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow.compute as pc

from simulator.links.base import Condition, Conditions, Link
from simulator.links.proof import probes
from simulator.links.proof.certificate import check_punctual
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.probes import Flow
from simulator.links.proof.verify import SATURATION, drain
from simulator.links.replay import LINK_STEPS, SECOND_NS, LinkReplay, Schedule
from simulator.links.step_log import Second

# Frames that were given their time at the old rate still leave by it: 50 ms of them were seen.
SETTLE_S: Final = 0.06


def verify_replay(link: Link, vehicle: int, series: Sequence[tuple[Condition, Condition]]) -> list[Check]:
    """Play seconds of a trace while a UDP flow saturates the uplink; judge how late, and the bytes of each second.

    A second's bytes are held against the rates that were in force in it: a change that came late is off as such,
    and the seconds on both sides of it still say whether the link served what it was set to. Where it served less, and
    the sender stood still for long enough to be the reason, the second is "unproven".
    """
    rates = [up.rate_bps or 0.0 for up, _down in series]
    start_at_ns = time.time_ns() + 500_000_000
    frame = 1514 if min(rates) > 100e3 else 314
    interval_s = frame * 8 / (max(rates) * SATURATION)
    flow = Flow(vehicle, "uplink", frame, interval_s, round(len(rates) / interval_s))

    def schedule(second: int) -> Conditions:
        return {vehicle: series[min(second, len(series) - 1)]}

    with TemporaryDirectory() as directory:
        with LinkReplay(link, schedule, start_at_ns, Path(directory) / LINK_STEPS) as replay:
            time.sleep(max(0.0, start_at_ns / 1e9 - time.time()))  # until the replay begins, no guess
            probes.run(link, [flow], settle_s=0.3)
        drain(link, [vehicle])
        if replay.failure is not None:
            raise replay.failure
        steps = [
            Second(-1, schedule(0), start_at_ns, start_at_ns, 0),
            *_played(replay, schedule, start_at_ns),
        ]
    seconds = [judge_second(flow, second, steps) for second in range(len(series))]
    return [check_punctual(replay.properties()), *seconds]


def _played(replay: LinkReplay, schedule: Schedule, start_at_ns: int) -> Iterator[Second]:
    """Yield the steps of a replay of one vehicle."""
    for table in replay.rows():
        for row in table.filter(pc.equal(table["direction"], "uplink")).to_pylist():
            second = row["second"]
            due_at_ns, update_ns = start_at_ns + second * SECOND_NS, round(row["update_ms"] * 1e6)
            yield Second(second, schedule(second), due_at_ns, row["applied_at_ns"], update_ns)


def judge_second(flow: Flow, second: int, steps: Sequence[Second]) -> Check:
    """Return whether as many bits came in a second of a replay as its conditions let through.

    `steps` begins with what was in force before second 0.
    """
    step, before = steps[second + 1], steps[second]
    condition = step.asked[flow.vehicle][0]
    rate, rate_before = condition.rate_bps or 0.0, before.asked[flow.vehicle][0].rate_bps or 0.0
    begins = step.due_at_ns
    # Frames sent in this second arrive one delay later.
    delay_ns = round(condition.delay_ms * 1e6)
    came = sum(begins <= at - delay_ns < begins + SECOND_NS for at in flow.received_at_ns.values())
    late_s = min(1.0, (step.applied_at_ns - begins) / SECOND_NS)
    lost, bits = condition.loss_ratio, flow.frame_bytes * 8.0
    asked, seen = (rate + late_s * (rate_before - rate)) * (1 - lost), came * bits
    # The first second fills the pipe; the kernel had the change within the update; the frame in service ends at its rate.
    chance = 3.3 * math.sqrt(lost * max(1, came)) * bits
    unknown_s = SETTLE_S + step.update_ns / SECOND_NS
    allowed = 0.02 * asked + unknown_s * abs(rate - rate_before) + 2 * bits + chance
    if second == 0:
        allowed += SETTLE_S * rate
    achieved, verdict = f"{seen / 1e6:.3f} Mbit", _verdict(seen - asked, allowed)
    if seen < asked - allowed:
        idle_s = flow.idle_s(rate, (begins, begins + SECOND_NS))
        if idle_s * rate * (1 - lost) >= asked - allowed - seen:
            achieved += f"; the sender left the link idle for {idle_s * 1e3:.0f} ms"
            verdict = "unproven"
    tolerance = f"within {allowed / 1e6:.3f} Mbit"
    return Check(
        f"second {second}", "uplink", f"{asked / 1e6:.3f} Mbit", achieved, tolerance, verdict, asked, seen
    )


def _verdict(difference: float, allowed: float) -> Verdict:
    return "pass" if abs(difference) <= allowed else "off"
