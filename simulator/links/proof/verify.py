"""Drives probe traffic through a link and judges, step by step, what it did; it makes no link itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from simulator.links.base import DIRECTIONS, Condition, Conditions, Direction, Link, LinkCounts, LinkError
from simulator.links.proof import checks, probes
from simulator.links.proof.bulk_tcp import tcp_rate_bps
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.probes import Flow
from simulator.links.proof.run_loss import Loss
from simulator.links.proof.verify_rate import judge_rate
from simulator.links.queueing import FLOOR_BYTES, FRAME_BYTES, rate_bytes

LIGHT_FRAME_BYTES: Final = 114
LIGHT_LOAD: Final = 0.1  # share of the rate that delay and loss probes may take
LIGHT_INTERVAL_S: Final = 0.01
LOSS_PACKETS: Final = 1_000  # each way: of one in a hundred lost, twice as many would show with 600
SATURATION: Final = 1.15
TOTAL_BPS: Final = 60e6  # of all saturating probes at once: what a router in user-mode Linux carries easily
TCP_SHORTFALL: Final = 0.15
TCP_LEAST_BPS: Final = 200e3
DELAY_TOLERANCE_MS: Final = 1.0
DRAIN_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Step:
    """A pair of conditions to prove, and where it comes from; `saturated` has `verify_limits` fill it, else count losses."""

    name: str
    uplink: Condition
    downlink: Condition
    saturated: bool = True

    def condition(self, direction: Direction) -> Condition:
        return self.uplink if direction == "uplink" else self.downlink


@dataclass
class Proof:
    """One step with the checks that were made of it."""

    step: Step
    vehicle: int
    checks: list[Check] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return checks.overall(self.checks)


def representative(name: str, series: Sequence[tuple[Condition, Condition]], count: int = 5) -> list[Step]:
    """Return up to `count` seconds of a trace as steps, as `representative_seconds` chooses them."""
    chosen = representative_seconds(series, count)
    return [Step(f"{name} second {second}", *series[second]) for second in chosen]


def representative_seconds(series: Sequence[tuple[Condition, Condition]], count: int) -> list[int]:
    """Return the numbers of up to `count` seconds: an outage, the slowest, the fastest and even ranks between.

    Ranked by the uplink's rate where it has one, else the downlink's, else the delay.
    """

    def rank(second: int) -> tuple[float, float]:
        up, down = series[second]
        rate = up.rate_bps if up.rate_bps is not None else down.rate_bps
        return (math.inf if rate is None else rate, up.delay_ms + down.delay_ms)

    order = sorted(range(len(series)), key=rank)
    dark = [second for second in order if series[second][0].outage or series[second][1].outage]
    lit = [second for second in order if second not in set(dark)]
    wanted = count - bool(dark)
    chosen = dark[:1]
    if lit:
        spread = max(1, wanted - 1)
        chosen += [lit[round(index * (len(lit) - 1) / spread)] for index in range(wanted)]
    return list(dict.fromkeys(chosen))


def verify(link: Link, steps: Sequence[Step], seconds: float, first_vehicle: int = 1) -> list[Proof]:
    """Prove each step on a vehicle of its own, all at once: light probes, saturating UDP, then TCP.

    TCP is left out where more than rate, delay and independent loss is asked: reordering, bursts and short queues slow
    it by themselves.

    Args:
        link: open; has at least `first_vehicle + len(steps) - 1` vehicles.
        steps: what to prove.
        seconds: length of each of the three kinds of traffic.
        first_vehicle: number of the vehicle that takes the first step.
    """
    proofs = [Proof(step, first_vehicle + index) for index, step in enumerate(steps)]
    conditions: Conditions = {p.vehicle: (p.step.uplink, p.step.downlink) for p in proofs}
    link.update(conditions)
    _prove_delay_and_loss(link, proofs, seconds)
    _prove_slow(link, proofs, seconds)
    for group in _groups(proofs):
        _prove_rate(link, group, seconds)
    for direction in DIRECTIONS:
        # One direction at a time: a full queue one way holds up the acknowledgements of the other.
        for group in _groups(proofs):
            _prove_tcp(link, group, direction, seconds)
        drain(link, conditions)
        link.update(conditions)
    drain(link, conditions)
    return proofs


def verify_limits(link: Link, steps: Sequence[Step], seconds: float, first_vehicle: int = 1) -> list[Proof]:
    """Prove rates, outages and losses alone, each step on a vehicle of its own, all at once and both ways.

    Where a step is saturated flows are above its rate; else they are light, and so many that a loss would show.
    Arguments as those of `verify`; the steps' rates together are at most TOTAL_BPS, and none is below the meter's floor.
    """
    proofs = [Proof(step, first_vehicle + index) for index, step in enumerate(steps)]
    link.update({p.vehicle: (p.step.uplink, p.step.downlink) for p in proofs})
    saturated = [proof for proof in proofs if proof.step.saturated]
    others = [proof for proof in proofs if not proof.step.saturated]
    dark = [(p, d) for p in saturated for d in DIRECTIONS if p.step.condition(d).outage]
    each_s = seconds / LOSS_PACKETS
    driven = [
        *_above_rates(saturated, seconds),
        *(_Driven(p, _light(p.vehicle, d, p.step.condition(d), seconds), _judge_light) for p, d in dark),
        *(
            _Driven(p, _light(p.vehicle, d, p.step.condition(d), seconds, each_s), _judge_losses)
            for p in others
            for d in DIRECTIONS
        ),
    ]
    _drive(link, driven, seconds)
    return proofs


def drain(link: Link, vehicles: Iterable[int]) -> None:
    """Open the link wide for these vehicles and return when nothing is left inside; LinkError if it stays."""
    free = Condition()
    wanted = sorted(vehicles)
    link.update(dict.fromkeys(wanted, (free, free)))
    end = time.monotonic() + DRAIN_TIMEOUT_S
    while _inside(link.counters(), wanted):
        if time.monotonic() > end:
            raise LinkError(
                f"link {link.name}: packets still inside {DRAIN_TIMEOUT_S:g} s after the last step"
            )
        time.sleep(0.05)
    # The meter may still owe the frame it let out last at a low rate.
    time.sleep(FRAME_BYTES / FLOOR_BYTES)


def _inside(counts: LinkCounts, vehicles: Sequence[int]) -> bool:
    return bool(counts.column("backlog_packets")[np.isin(counts.vehicles, vehicles)].any())


def _prove_delay_and_loss(link: Link, proofs: Sequence[Proof], seconds: float) -> None:
    flows = [
        (p, _light(p.vehicle, d, p.step.condition(d), seconds))
        for p in proofs
        for d in DIRECTIONS
        if not slow(p.step.condition(d))
    ]
    longest_s = max(p.step.condition(d).delay_ms for p in proofs for d in DIRECTIONS) / 1000
    probes.run(link, [flow for _proof, flow in flows], settle_s=0.5 + longest_s)
    for proof, flow in flows:
        condition = proof.step.condition(flow.direction)
        proof.checks += _judge_light(flow, condition)


def slow(condition: Condition) -> bool:
    """Return whether the rate is one at which the meter serves whole frames as they are earned."""
    return bool(condition.rate_bps) and rate_bytes(condition.rate_bps or 0) < FLOOR_BYTES


def _light(
    vehicle: int,
    direction: Direction,
    condition: Condition,
    seconds: float,
    interval_s: float = LIGHT_INTERVAL_S,
) -> Flow:
    if condition.rate_bps:
        interval_s = max(interval_s, LIGHT_FRAME_BYTES * 8 / (LIGHT_LOAD * condition.rate_bps))
    return Flow(vehicle, direction, LIGHT_FRAME_BYTES, interval_s, max(5, round(seconds / interval_s)))


def _judge_light(flow: Flow, condition: Condition) -> Iterator[Check]:
    direction = flow.direction
    if condition.outage:
        came = len(flow.received_at_ns)
        verdict: Verdict = "off" if came else "pass"
        yield Check("outage", direction, "nothing passes", f"{came} of {flow.count}", "0", verdict, 0, came)
        return
    asked_ms = condition.delay_ms
    if condition.rate_bps:
        asked_ms += flow.frame_bytes * 8e3 / condition.rate_bps
    # The median of a spread delay is as uncertain as the spread allows.
    spread_ms = 4 * condition.jitter_ms / math.sqrt(flow.count)
    tolerance_ms = DELAY_TOLERANCE_MS + 0.01 * asked_ms + spread_ms
    if condition.jitter_ms == 0 and condition.reorder_ratio == 0:
        yield checks.check_delay(direction, asked_ms, flow.delays_ms(), tolerance_ms)
    lost = flow.count - len(flow.received_at_ns)
    yield checks.check_loss(
        direction, condition.mean_loss_ratio, lost, flow.count, bursts=condition.burst_packets
    )


def _prove_slow(link: Link, proofs: Sequence[Proof], seconds: float) -> None:
    """Judge rates below the meter's floor: right to one frame in the mean, when set each second."""
    low = [(p, d) for p in proofs for d in DIRECTIONS if slow(p.step.condition(d))]
    if not low:
        return
    stop = threading.Event()
    conditions: Conditions = {p.vehicle: (p.step.uplink, p.step.downlink) for p, _direction in low}

    def repeat() -> None:
        while not stop.wait(1):
            link.update(conditions)

    repeating = threading.Thread(target=repeat, daemon=True)
    repeating.start()
    flows = [Flow(p.vehicle, d, LIGHT_FRAME_BYTES, 0.1, round(seconds * 10)) for p, d in low]
    try:
        probes.run(link, flows, settle_s=0)
    finally:
        stop.set()
        repeating.join()
    for (proof, direction), flow in zip(low, flows, strict=True):
        condition = proof.step.condition(direction)
        asked = (condition.rate_bps or 0) / 8 * seconds
        came = len(flow.received_at_ns) * flow.frame_bytes
        # What is lost, or still on its way at the end, does not come; the grain is one full frame.
        least = asked * (1 - condition.mean_loss_ratio) * max(0.0, 1 - condition.delay_ms / 1e3 / seconds)
        grain = FRAME_BYTES + LIGHT_FRAME_BYTES
        good = least - grain <= came <= asked + grain
        seen = f"{came} bytes in {seconds:g} s"
        wanted, allowed = f"{least:.0f} to {asked:.0f} bytes", "one full frame"
        verdict: Verdict = "pass" if good else "off"
        proof.checks.append(Check("rate, mean", direction, wanted, seen, allowed, verdict, asked, came))


def _groups(proofs: Sequence[Proof]) -> Iterator[list[Proof]]:
    """Yield groups whose rates together stay below TOTAL_BPS; a step without a rate is in none."""
    group: list[Proof] = []
    total = 0.0
    for proof in proofs:
        rate = sum(proof.step.condition(d).rate_bps or 0 for d in DIRECTIONS)
        if not rate or any(slow(proof.step.condition(d)) for d in DIRECTIONS):
            continue
        if group and total + rate > TOTAL_BPS:
            yield group
            group, total = [], 0.0
        group.append(proof)
        total += rate
    if group:
        yield group


class _Driven(NamedTuple):
    """A flow of a step, and what judges it."""

    proof: Proof
    flow: Flow
    judge: Callable[[Flow, Condition], Iterable[Check]]


def _prove_rate(link: Link, proofs: Sequence[Proof], seconds: float) -> None:
    _drive(link, _above_rates(proofs, seconds), seconds)


def _above_rates(proofs: Sequence[Proof], seconds: float) -> list[_Driven]:
    return [
        _Driven(p, _heavy(p.vehicle, d, rate, seconds), _judge_rate)
        for p in proofs
        for d in DIRECTIONS
        if (rate := p.step.condition(d).rate_bps)
    ]


def _drive(link: Link, driven: Sequence[_Driven], seconds: float) -> None:
    """Send flows of so many seconds at once, the heavy ones above their rates, and judge each."""
    longest_s = max(one.proof.step.condition(d).delay_ms for one in driven for d in DIRECTIONS) / 1000
    # What the saturation has put into the queue leaves at the asked rate.
    settle_s = 0.5 + seconds * SATURATION - seconds + longest_s
    probes.run(link, [one.flow for one in driven], settle_s=settle_s)
    for proof, flow, judge in driven:
        proof.checks += judge(flow, proof.step.condition(flow.direction))


def _judge_rate(flow: Flow, condition: Condition) -> list[Check]:
    return [judge_rate(flow, condition)]


def _judge_losses(flow: Flow, condition: Condition) -> Iterator[Check]:
    """Judge the loss of a light flow as a run's own is judged: "pass" only where another would have shown."""
    lost = flow.count - len(flow.received_at_ns)
    loss = Loss(flow.count, lost, condition.mean_loss_ratio, condition.burst_packets)
    yield Check(
        "loss",
        flow.direction,
        f"{condition.mean_loss_ratio:.4f}",
        loss.words(),
        "chance",
        loss.verdict,
        loss.asked,
        loss.ratio,
        loss.power_words(),
    )


def _heavy(vehicle: int, direction: Direction, rate_bps: float, seconds: float) -> Flow:
    """Return a flow above the rate, its frames small enough that at least a hundred fit."""
    frame = min(1514, max(LIGHT_FRAME_BYTES, round(rate_bps / 8 * seconds / 100)))
    interval_s = frame * 8 / (rate_bps * SATURATION)
    return Flow(vehicle, direction, frame, interval_s, max(10, round(seconds / interval_s)))


def _prove_tcp(link: Link, proofs: Sequence[Proof], direction: Direction, seconds: float) -> None:
    threads = [
        threading.Thread(target=_tcp, args=(link, proof, direction, seconds), daemon=True)
        for proof in proofs
        if proof.step.condition(direction).rate_bps and _carries_tcp(proof.step)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _carries_tcp(step: Step) -> bool:
    """Return whether both directions are plain, and fast enough for a connection to settle in a few seconds."""
    both = (step.uplink, step.downlink)
    return all(c.plain and (c.rate_bps is None or c.rate_bps >= TCP_LEAST_BPS) for c in both)


def _tcp(link: Link, proof: Proof, direction: Direction, seconds: float) -> None:
    """TCP must not exceed the rate; without loss it must also come near it."""
    condition = proof.step.condition(direction)
    asked = condition.rate_bps
    assert asked
    lossy = any(proof.step.condition(d).loss_ratio for d in DIRECTIONS)
    skipped = 0.0 if lossy else 0.25
    try:
        # 1,448 bytes of payload in a full frame of 1,514.
        achieved = tcp_rate_bps(link, proof.vehicle, direction, seconds, skipped) * 1514 / 1448
    except OSError as error:
        proof.checks.append(Check("rate, TCP", direction, "", f"failed: {error}", "", "off", asked))
        return
    # Receive calls are not aligned with the measured interval: one buffer of 64 kB more or less.
    slack = 0.02 + 65536 * 8 / (asked * seconds)
    good = achieved <= asked * (1 + slack) and (lossy or achieved >= asked * (1 - TCP_SHORTFALL))
    allowed = f"at most +{slack * 100:.0f} %" + ("" if lossy else f", at least -{TCP_SHORTFALL * 100:.0f} %")
    proof.checks.append(
        Check(
            "rate, TCP",
            direction,
            f"{asked / 1e6:.3f} Mbit/s",
            f"{achieved / 1e6:.3f} Mbit/s ({(achieved / asked - 1) * 100:+.1f} %)",
            allowed,
            "pass" if good else "off",
            asked,
            achieved,
        )
    )
