"""How each claim about latency, delivery and bytes is decided: functions from the evidence to findings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy import stats

from ivsim.study.evidence import Evidence, Measured, compare_latency, compare_overhead
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
from ivsim.study.statistics import (
    Comparison,
    Interval,
    compare_means,
    holm,
    ratio_interval,
    ratio_of_means_interval,
)

MQTT: Final = ("mqtt qos0", "mqtt qos1", "mqtt qos2")
AMQP: Final = ("amqp auto", "amqp manual")
NON, CON = "coap non", "coap con"
TCP: Final = (*MQTT, *AMQP)
MODES: Final = (*TCP, NON, CON)
LOSSES: Final = (0.0, 0.01, 0.05, 0.1, 0.25)
SIZES: Final = ("large", "small")
FLAT_SHARE = 0.15
NEAR_SHARE = 0.25
SAME_BYTES = 15.0
ABOUT_BYTES = 25.0
ENOUGH = 0.005

Pair = Callable[[Measured, Measured], Comparison | None]


def _at(evidence: Evidence, size: str, mode: str, loss: float) -> Measured | None:
    return evidence.get(f"loss_{size}", mode, loss=loss)


def _difference(test: Pair, lower: Measured | None, higher: Measured | None) -> Comparison | None:
    return None if lower is None or higher is None else test(lower, higher)


def _percent(loss: float) -> str:
    return f"{loss:.0%}"


def lowest_non(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{mode} - {NON}, {_percent(loss)}",
            _difference(
                compare_latency, _at(evidence, "large", NON, loss), _at(evidence, "large", mode, loss)
            ),
        )
        for loss in LOSSES
        for mode in MODES
        if mode != NON
    ]
    return ordered(orders)


def flat_non(evidence: Evidence) -> list[Finding]:
    base = _at(evidence, "large", NON, 0.0)
    found = []
    for loss in LOSSES[1:]:
        other = _at(evidence, "large", NON, loss)
        if base is None or other is None:
            found.append(Finding(CANNOT_TELL, f"{_percent(loss)}: not measured"))
            continue
        ratio = ratio_of_means_interval(other.received_ms, base.received_ms)
        found.append(inside(f"{_percent(loss)} / 0%", ratio, 1 - FLAT_SHARE, 1 + FLAT_SHARE))
    return found


def small_below_large(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{mode}, {_percent(loss)}: large - small",
            _difference(
                compare_latency, _at(evidence, "small", mode, loss), _at(evidence, "large", mode, loss)
            ),
        )
        for mode in MODES
        for loss in LOSSES
    ]
    return ordered(orders)


def growth_con(evidence: Evidence) -> list[Finding]:
    ratios = {}
    for mode in MODES:
        still, lossy = (_at(evidence, "small", mode, loss) for loss in (0.0, 0.25))
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
        con = _at(evidence, size, CON, loss)
        others = [_at(evidence, size, mode, loss) for mode in TCP]
        means = [mean for o in others if o is not None and (mean := o.latency().estimate) is not None]
        if con is None or not means:
            found.append(Finding(CANNOT_TELL, f"{size}, {_percent(loss)}: not measured"))
            continue
        low, high = (1 - NEAR_SHARE) * min(means), (1 + NEAR_SHARE) * max(means)
        words = f"{size}, {_percent(loss)}, allowed {low:.0f} to {high:.0f}"
        found.append(inside(words, con.latency(), low, high, "ms"))
    return found


def tcp_delivers(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, TCP):
        cells = [_at(evidence, size, mode, loss) for loss in LOSSES]
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
        cells = [(loss, _at(evidence, size, NON, loss)) for loss in LOSSES[1:]]
        expected = sum(loss * c.due for loss, c in cells if c is not None)
        missing = sum(c.missing for _, c in cells if c is not None)
        if not expected:
            found.append(Finding(CANNOT_TELL, f"{size}: not measured"))
            continue
        # The exact Poisson interval of a count (Garwood 1936), over the count the link's loss ratio predicts.
        low = stats.chi2.ppf(0.025, 2 * missing) / 2 if missing else 0.0
        high = stats.chi2.ppf(0.975, 2 * missing + 2) / 2
        ratio = Interval(missing / expected, low / expected, high / expected, missing)
        each = ", ".join(f"{c.missing / c.due:.1%} at {_percent(loss)}" for loss, c in cells if c is not None)
        found.append(inside(f"{size}: {each}; lost / expected", ratio, 0.75, 1.25))
    return found


def con_loses(evidence: Evidence) -> list[Finding]:
    some = {("large", 0.1), ("large", 0.25), ("small", 0.25)}
    found = []
    for size, loss in itertools.product(SIZES, LOSSES):
        cell = _at(evidence, size, CON, loss)
        if cell is None:
            found.append(Finding(CANNOT_TELL, f"{size}, {_percent(loss)}: not measured"))
            continue
        words = f"{size}, {_percent(loss)}: {cell.missing} of {cell.due}"
        high = cell.unsuccessful().high or 1.0
        if (size, loss) in some:
            verdict = AGREE if cell.missing else CANNOT_TELL if high > ENOUGH else DISAGREE
        else:
            verdict = DISAGREE if cell.missing else AGREE
        found.append(Finding(verdict, words))
    return found


ORDER: Final = (NON, "mqtt qos0", CON, *AMQP, "mqtt qos2")


def overhead_order(evidence: Evidence) -> list[Finding]:
    orders = [
        Ordering(
            f"{size}: {high} - {low}",
            _difference(compare_overhead, _at(evidence, size, low, 0.0), _at(evidence, size, high, 0.0)),
            "B",
        )
        for size in SIZES
        for low, high in itertools.pairwise(ORDER)
    ]
    found = ordered(orders)
    for size in SIZES:
        pair = (_at(evidence, size, mode, 0.0) for mode in ("mqtt qos1", CON))
        apart = as_interval(_difference(compare_overhead, *pair))
        found.append(inside(f"{size}: coap con - mqtt qos1", apart, -ABOUT_BYTES, ABOUT_BYTES, "B"))
    return found


def above_auto(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, ("amqp manual", "mqtt qos2")):
        pair = (_at(evidence, size, m, 0.0) for m in ("amqp auto", mode))
        apart = as_interval(_difference(compare_overhead, *pair))
        found.append(inside(f"{size}: {mode} - amqp auto", apart, 50.0, 100.0, "B"))
    return found


def amqp_above_mqtt(evidence: Evidence) -> list[Finding]:
    pairs = (("amqp auto", "mqtt qos0"), ("amqp auto", "mqtt qos1"), ("amqp manual", "mqtt qos1"))
    return ordered(
        [
            Ordering(
                f"{size}: {high} - {low}",
                _difference(compare_overhead, _at(evidence, size, low, 0.0), _at(evidence, size, high, 0.0)),
                "B",
            )
            for size in SIZES
            for high, low in pairs
        ]
    )


def steady_overhead(evidence: Evidence) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, MODES):
        still, lossy = (_at(evidence, size, mode, loss) for loss in (0.0, 0.25))
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
        cells = (_at(evidence, size, mode, 0.0) for size in (low, high))
        return Ordering(f"{mode}: {high} - {low}", _difference(compare_overhead, *cells), "B")

    found = ordered(
        [pair(mode, "small", "large") for mode in AMQP]
        + [pair(mode, "large", "small") for mode in ("mqtt qos1", "mqtt qos2")]
    )
    for mode in (NON, CON, "mqtt qos0"):
        apart = as_interval(pair(mode, "small", "large").comparison)
        found.append(inside(f"{mode}: large - small", apart, -SAME_BYTES, SAME_BYTES, "B"))
    return found


def _order_stays(conditions: Sequence[tuple[str, dict[str, Measured | None]]]) -> list[Finding]:
    """Decide that the modes keep their order: no pair is significantly one way here and the other way there."""
    pairs = list(itertools.combinations(MODES, 2))
    tests = [
        (name, a, b, _difference(compare_latency, cells[a], cells[b]))
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
    conditions = [("10 B", {m: _at(evidence, "small", m, 0.0) for m in MODES})]
    for size in (100, 500, 1000, 2500, 5000):
        cells = {m: evidence.get("sizes", m, message_bytes=size) for m in MODES}
        conditions.append((f"{size} B", cells))
    return _order_stays(conditions)


def order_over_rates(evidence: Evidence) -> list[Finding]:
    conditions = [("x1", {m: _at(evidence, "large", m, 0.0) for m in MODES})]
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
        first = _at(evidence, size, "mqtt qos0", loss)
        for mode in others:
            there = _at(evidence, size, mode, loss)
            name = f"{size}, {_percent(loss)}: {mode} - mqtt qos0"
            orders += [
                Ordering(name, _difference(compare_latency, first, there), "ms"),
                Ordering(name, _difference(compare_overhead, first, there), "B"),
            ]
    bytes_of_non = [
        Ordering(
            f"{size}: mqtt qos0 - coap non",
            _difference(
                compare_overhead, _at(evidence, size, NON, 0.0), _at(evidence, size, "mqtt qos0", 0.0)
            ),
            "B",
        )
        for size in SIZES
    ]
    fast = [
        Ordering(
            f"{size}, {_percent(loss)}: mqtt qos0 - coap non",
            _difference(
                compare_latency, _at(evidence, size, NON, loss), _at(evidence, size, "mqtt qos0", loss)
            ),
        )
        for size, loss in itertools.product(SIZES, LOSSES)
    ]
    # "Best" allows a tie in latency: what is not significantly worse is not worse.
    found = ordered(orders + bytes_of_non + fast)
    return [
        f if f.verdict != CANNOT_TELL or "not measured" in f.words else Finding(AGREE, f.words) for f in found
    ]
