"""How each claim about latency and delivery is decided: functions from the evidence to findings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import stats

from ivsim.study.evidence import Evidence, Measured, compare_latency, compare_overhead
from ivsim.study.ifip.paper import (
    CON,
    FLAT_SHARE,
    LOSSES,
    MODES,
    NEAR_SHARE,
    NON,
    SIZES,
    TCP,
    at,
    difference,
    percent,
)
from ivsim.study.ifip.verdicts import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    Finding,
    Ordering,
    as_interval,
    inside,
    ordered,
)
from ivsim.study.statistics import Interval, compare_means, holm, ratio_interval, ratio_of_means_interval

# An upper limit of the loss ratio above which "none was lost" says too little.
ENOUGH: Final = 0.005


def lowest_non(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{mode} - {NON}, {percent(loss)}",
            difference(compare_latency, at(evidence, "large", NON, loss), at(evidence, "large", mode, loss)),
        )
        for loss in LOSSES
        for mode in MODES
        if mode != NON
    ]
    return ordered(orders)


def flat_non(evidence: Evidence) -> list[Finding]:
    base = at(evidence, "large", NON, 0.0)
    found = []
    for loss in LOSSES[1:]:
        other = at(evidence, "large", NON, loss)
        if base is None or other is None:
            found.append(Finding(CANNOT_TELL, f"{percent(loss)}: not measured"))
            continue
        ratio = ratio_of_means_interval(other.received_ms, base.received_ms)
        found.append(inside(f"{percent(loss)} / 0%", ratio, 1 - FLAT_SHARE, 1 + FLAT_SHARE))
    return found


def small_below_large(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{mode}, {percent(loss)}: large - small",
            difference(compare_latency, at(evidence, "small", mode, loss), at(evidence, "large", mode, loss)),
        )
        for mode in MODES
        for loss in LOSSES
    ]
    return ordered(orders)


def growth_con(evidence: Evidence) -> list[Finding]:
    ratios = {}
    for mode in MODES:
        still, lossy = (at(evidence, "small", mode, loss) for loss in (0.0, 0.25))
        if still is None or lossy is None:
            return [Finding(CANNOT_TELL, f"{mode}: not measured")]
        ratios[mode] = ratio_of_means_interval(lossy.received_ms, still.received_ms)
    found = [inside("coap con, mean at 25% / mean at 0%", ratios[CON], 5.0, 9.0)]
    own = ratios[CON]
    for mode, other in ratios.items():
        if mode == CON or None in (own.low, own.high, other.low, other.high):
            continue
        words = f"{mode}: {other.estimate:.2f} [{other.low:.2f}, {other.high:.2f}]"
        above, below = own.low > other.high, own.high < other.low  # type: ignore[operator]
        found.append(Finding(AGREE if above else DISAGREE if below else CANNOT_TELL, words))
    return found


def near_con(evidence: Evidence) -> list[Finding]:
    found = []
    for size, loss in itertools.product(SIZES, LOSSES[:3]):
        con = at(evidence, size, CON, loss)
        others = [at(evidence, size, mode, loss) for mode in TCP]
        means = [mean for o in others if o is not None and (mean := o.latency().estimate) is not None]
        if con is None or not means:
            found.append(Finding(CANNOT_TELL, f"{size}, {percent(loss)}: not measured"))
            continue
        low, high = (1 - NEAR_SHARE) * min(means), (1 + NEAR_SHARE) * max(means)
        words = f"{size}, {percent(loss)}, allowed {low:.0f} to {high:.0f}"
        found.append(inside(words, con.latency(), low, high, "ms"))
    return found


def tcp_delivers(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, TCP):
        cells = [at(evidence, size, mode, loss) for loss in LOSSES]
        due = sum(c.due for c in cells if c is not None)
        missing = sum(c.missing for c in cells if c is not None)
        lost = sum(c.overtaken for c in cells if c is not None)
        bound = ratio_interval(lost, due).high
        words = f"{size} {mode}: {lost} of {due} lost" + (f" (at most {bound:.2%})" if bound else "")
        if missing > lost:
            words += f", {missing - lost} perhaps still on the way at the end"
        verdict = CANNOT_TELL if None in cells else DISAGREE if lost else CANNOT_TELL if missing else AGREE
        found.append(Finding(verdict, words))
    return found


def non_loses(evidence: Evidence) -> list[Finding]:
    found = []
    for size in SIZES:
        cells = [(loss, at(evidence, size, NON, loss)) for loss in LOSSES[1:]]
        expected = sum(loss * c.due for loss, c in cells if c is not None)
        missing = sum(c.missing for _, c in cells if c is not None)
        if not expected:
            found.append(Finding(CANNOT_TELL, f"{size}: not measured"))
            continue
        # The exact Poisson interval of a count (Garwood 1936), over the count the link's loss ratio predicts.
        low = stats.chi2.ppf(0.025, 2 * missing) / 2 if missing else 0.0
        high = stats.chi2.ppf(0.975, 2 * missing + 2) / 2
        ratio = Interval(missing / expected, low / expected, high / expected, missing)
        each = ", ".join(f"{c.missing / c.due:.1%} at {percent(loss)}" for loss, c in cells if c is not None)
        found.append(inside(f"{size}: {each}; lost / expected", ratio, 0.75, 1.25))
    return found


def con_loses(evidence: Evidence) -> list[Finding]:
    some = {("large", 0.1), ("large", 0.25), ("small", 0.25)}
    found = []
    for size, loss in itertools.product(SIZES, LOSSES):
        cell = at(evidence, size, CON, loss)
        if cell is None:
            found.append(Finding(CANNOT_TELL, f"{size}, {percent(loss)}: not measured"))
            continue
        words = f"{size}, {percent(loss)}: {cell.missing} of {cell.due}"
        high = cell.unsuccessful().high or 1.0
        if (size, loss) in some:
            verdict = AGREE if cell.missing else CANNOT_TELL if high > ENOUGH else DISAGREE
        else:
            verdict = DISAGREE if cell.missing else AGREE
        found.append(Finding(verdict, words))
    return found


def _order_stays(conditions: Sequence[tuple[str, dict[str, Measured | None]]]) -> list[Finding]:
    """Decide that the modes keep their order: no pair is significantly one way here and the other way there."""
    pairs = list(itertools.combinations(MODES, 2))
    tests = [
        (name, a, b, difference(compare_latency, cells[a], cells[b]))
        for name, cells in conditions
        for a, b in pairs
    ]
    if any(found is None for *_, found in tests):
        return [Finding(CANNOT_TELL, "not all measured")]
    rejected = holm([found.p_value for *_, found in tests if found is not None])
    signs: dict[tuple[str, str], dict[str, float]] = {}
    for (name, a, b, found), significant in zip(tests, rejected, strict=True):
        if significant and found is not None:
            signs.setdefault((a, b), {})[name] = found.difference
    turned = [
        Finding(DISAGREE, f"{a} / {b}: " + ", ".join(f"{n} {d:+.1f} ms" for n, d in by.items()))
        for (a, b), by in signs.items()
        if min(by.values()) < 0 < max(by.values())
    ]
    means = [
        [c.latency().estimate or 0.0 for m in MODES if (c := cells[m]) is not None] for _, cells in conditions
    ]
    least = min(float(stats.spearmanr(a, b).statistic) for a, b in itertools.combinations(means, 2))
    rank = f"lowest rank correlation of two conditions {least:.2f}"
    return turned or [Finding(AGREE if least >= 0.7 else CANNOT_TELL, rank)]


def order_over_sizes(evidence: Evidence) -> list[Finding]:
    conditions = [("10 B", {m: at(evidence, "small", m, 0.0) for m in MODES})]
    for size in (100, 500, 1000, 2500, 5000):
        cells = {m: evidence.get("sizes", m, message_bytes=size) for m in MODES}
        conditions.append((f"{size} B", cells))
    return _order_stays(conditions)


def order_over_rates(evidence: Evidence) -> list[Finding]:
    conditions = [("x1", {m: at(evidence, "large", m, 0.0) for m in MODES})]
    for factor in (0.5, 2.0, 5.0, 10.0):
        cells = {m: evidence.get("rates", m, rate_factor=factor) for m in MODES}
        conditions.append((f"x{factor:g}", cells))
    return _order_stays(conditions)


def best_case(evidence: Evidence) -> list[Finding]:
    ping_ms = evidence.ping_ms
    found = []
    for mode in MODES:
        cell = evidence.get("best_case", mode, link="direct")
        if cell is None or not len(ping_ms):
            found.append(Finding(CANNOT_TELL, f"{mode}: not measured"))
            continue
        added = as_interval(compare_means(ping_ms, cell.delay_ms[np.isfinite(cell.delay_ms)]))
        found.append(inside(f"{mode} - ping", added, 2.0, 5.0, "ms"))
    return found


def best_choice(evidence: Evidence) -> list[Finding]:
    orders = []
    others = [mode for mode in TCP if mode != "mqtt qos0"]
    for size, loss in itertools.product(SIZES, LOSSES):
        first = at(evidence, size, "mqtt qos0", loss)
        for mode in others:
            there = at(evidence, size, mode, loss)
            name = f"{size}, {percent(loss)}: {mode} - mqtt qos0"
            orders += [
                Ordering(name, difference(compare_latency, first, there), "ms"),
                Ordering(name, difference(compare_overhead, first, there), "B"),
            ]
    bytes_of_non = [
        Ordering(
            f"{size}: mqtt qos0 - coap non",
            difference(compare_overhead, at(evidence, size, NON, 0.0), at(evidence, size, "mqtt qos0", 0.0)),
            "B",
        )
        for size in SIZES
    ]
    fast = [
        Ordering(
            f"{size}, {percent(loss)}: mqtt qos0 - coap non",
            difference(compare_latency, at(evidence, size, NON, loss), at(evidence, size, "mqtt qos0", loss)),
        )
        for size, loss in itertools.product(SIZES, LOSSES)
    ]
    # "Best" allows a tie in latency: what is not significantly worse is not worse.
    found = ordered(orders + bytes_of_non + fast)
    return [
        f if f.verdict != CANNOT_TELL or "not measured" in f.words else Finding(AGREE, f.words) for f in found
    ]
