"""How each claim about bytes is decided: functions from the observations to findings."""

from __future__ import annotations

import itertools
from typing import Final

from ivsim.papers.ifip2020.paper import (
    AMQP,
    CON,
    FLAT_SHARE,
    MODES,
    NON,
    SAME_BYTES,
    SIZES,
    at,
    difference,
    leaner,
)
from ivsim.study.claims import CANNOT_TELL, Finding, Ordering, as_interval, inside, ordered
from ivsim.study.engines.echo.observations import Observations, compare_overhead, overhead_ratio

ORDER: Final = (NON, "mqtt qos0", CON, *AMQP, "mqtt qos2")
ABOUT_BYTES: Final = 25.0


def _pair(observations: Observations, size: str, low: str, high: str, margin: float = SAME_BYTES) -> Ordering:
    lower, higher = (at(observations, size, mode, 0.0) for mode in (low, high))
    return leaner(f"{size}: {high} - {low}", lower, higher, margin)


def overhead_order(observations: Observations) -> list[Finding]:
    found = ordered(
        [
            _pair(observations, size, low, high, ABOUT_BYTES)
            for size in SIZES
            for low, high in itertools.pairwise(ORDER)
        ]
    )
    for size in SIZES:
        pair = (at(observations, size, mode, 0.0) for mode in ("mqtt qos1", CON))
        apart = as_interval(difference(compare_overhead, *pair))
        found.append(inside(f"{size}: coap con - mqtt qos1", apart, -ABOUT_BYTES, ABOUT_BYTES, "B"))
    return found


def above_auto(observations: Observations) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, ("amqp manual", "mqtt qos2")):
        pair = (at(observations, size, m, 0.0) for m in ("amqp auto", mode))
        apart = as_interval(difference(compare_overhead, *pair))
        found.append(inside(f"{size}: {mode} - amqp auto", apart, 50.0, 100.0, "B"))
    return found


def amqp_above_mqtt(observations: Observations) -> list[Finding]:
    pairs = (("amqp auto", "mqtt qos0"), ("amqp auto", "mqtt qos1"), ("amqp manual", "mqtt qos1"))
    return ordered([_pair(observations, size, low, high) for size in SIZES for high, low in pairs])


def steady_overhead(observations: Observations) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, MODES):
        still, lossy = (at(observations, size, mode, loss) for loss in (0.0, 0.25))
        if still is None or lossy is None:
            found.append(Finding(CANNOT_TELL, f"{size} {mode}: not measured"))
            continue
        ratio = overhead_ratio(lossy, still)
        text = f"{size} {mode}, 25% / 0%"
        if mode == CON:
            found.append(inside(text, ratio, 1 + FLAT_SHARE, float("inf")))
        else:
            found.append(inside(text, ratio, 1 - FLAT_SHARE, 1 + FLAT_SHARE))
    return found


def overhead_by_size(observations: Observations) -> list[Finding]:
    def pair(mode: str, low: str, high: str) -> Ordering:
        lower, higher = (at(observations, size, mode, 0.0) for size in (low, high))
        return leaner(f"{mode}: {high} - {low}", lower, higher)

    found = ordered(
        [pair(mode, "small", "large") for mode in AMQP]
        + [pair(mode, "large", "small") for mode in ("mqtt qos1", "mqtt qos2")]
    )
    for mode in (NON, CON, "mqtt qos0"):
        apart = as_interval(pair(mode, "small", "large").comparison)
        found.append(inside(f"{mode}: large - small", apart, -SAME_BYTES, SAME_BYTES, "B"))
    return found
