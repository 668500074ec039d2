"""How each claim about bytes is decided: functions from the evidence to findings."""

from __future__ import annotations

import itertools
from typing import Final

from ivsim.study.evidence import Evidence, compare_overhead
from ivsim.study.ifip.paper import (
    AMQP,
    CON,
    FLAT_SHARE,
    MODES,
    NON,
    SIZES,
    at,
    difference,
)
from ivsim.study.ifip.verdicts import (
    CANNOT_TELL,
    Finding,
    Ordering,
    as_interval,
    inside,
    ordered,
)
from ivsim.study.statistics import ratio_of_means_interval

ORDER: Final = (NON, "mqtt qos0", CON, *AMQP, "mqtt qos2")
SAME_BYTES: Final = 15.0
ABOUT_BYTES: Final = 25.0


def overhead_order(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{size}: {high} - {low}",
            difference(compare_overhead, at(evidence, size, low, 0.0), at(evidence, size, high, 0.0)),
            "B",
        )
        for size in SIZES
        for low, high in itertools.pairwise(ORDER)
    ]
    found = ordered(orders)
    for size in SIZES:
        pair = (at(evidence, size, mode, 0.0) for mode in ("mqtt qos1", CON))
        apart = as_interval(difference(compare_overhead, *pair))
        found.append(inside(f"{size}: coap con - mqtt qos1", apart, -ABOUT_BYTES, ABOUT_BYTES, "B"))
    return found


def above_auto(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, ("amqp manual", "mqtt qos2")):
        pair = (at(evidence, size, m, 0.0) for m in ("amqp auto", mode))
        apart = as_interval(difference(compare_overhead, *pair))
        found.append(inside(f"{size}: {mode} - amqp auto", apart, 50.0, 100.0, "B"))
    return found


def amqp_above_mqtt(evidence: Evidence) -> list[Finding]:
    pairs = (("amqp auto", "mqtt qos0"), ("amqp auto", "mqtt qos1"), ("amqp manual", "mqtt qos1"))
    return ordered(
        [
            Ordering(
                f"{size}: {high} - {low}",
                difference(compare_overhead, at(evidence, size, low, 0.0), at(evidence, size, high, 0.0)),
                "B",
            )
            for size in SIZES
            for high, low in pairs
        ]
    )


def steady_overhead(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, MODES):
        still, lossy = (at(evidence, size, mode, loss) for loss in (0.0, 0.25))
        if still is None or lossy is None:
            found.append(Finding(CANNOT_TELL, f"{size} {mode}: not measured"))
            continue
        ratio = ratio_of_means_interval(lossy.overhead_bytes, still.overhead_bytes)
        words = f"{size} {mode}, 25% / 0%"
        if mode == CON:
            found.append(inside(words, ratio, 1 + FLAT_SHARE, float("inf")))
        else:
            found.append(inside(words, ratio, 1 - FLAT_SHARE, 1 + FLAT_SHARE))
    return found


def overhead_by_size(evidence: Evidence) -> list[Finding]:
    def pair(mode: str, low: str, high: str) -> Ordering:
        cells = (at(evidence, size, mode, 0.0) for size in (low, high))
        return Ordering(f"{mode}: {high} - {low}", difference(compare_overhead, *cells), "B")

    found = ordered(
        [pair(mode, "small", "large") for mode in AMQP]
        + [pair(mode, "large", "small") for mode in ("mqtt qos1", "mqtt qos2")]
    )
    for mode in (NON, CON, "mqtt qos0"):
        apart = as_interval(pair(mode, "small", "large").comparison)
        found.append(inside(f"{mode}: large - small", apart, -SAME_BYTES, SAME_BYTES, "B"))
    return found
