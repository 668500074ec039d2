"""How each claim about latency and delivery is decided: functions from the observations to findings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from scipy import stats

from ivsim.papers.ifip2020.paper import (
    CON,
    FACTORS,
    FLAT_SHARE,
    LOSSES,
    MESSAGE_BYTES,
    MODES,
    NEAR_SHARE,
    NON,
    PING,
    SIZES,
    TCP,
    PaperCells,
    at,
    difference,
    faster,
    leaner,
    margin_ms,
    percent,
)
from ivsim.study.claims import (
    AGREE,
    ALPHA,
    CANNOT_TELL,
    DISAGREE,
    Finding,
    as_interval,
    inside,
    none_of,
    not_comparable,
    ordered,
    p_beyond,
    p_of_border,
    some_of,
)
from ivsim.study.clusters import difference_of_means
from ivsim.study.engines.echo.observations import (
    EchoObservations,
    Observations,
    compare_latency,
    latency_ratio,
)
from ivsim.study.statistics import Comparison, Interval

# The share of lost messages between "none" and "some".
ENOUGH: Final = 0.005
# The `rtt` of the cells whose ping is the paper's, and what the protocols added to it there, in ms.
PAPER_RTT: Final = "2.52"
ADDED_MS: Final = (2.0, 5.0)


def lowest_non(observations: Observations) -> list[Finding]:
    orders = [
        faster(
            f"{mode} - {NON}, {percent(loss)}",
            at(observations, "large", NON, loss),
            at(observations, "large", mode, loss),
        )
        for loss in LOSSES
        for mode in MODES
        if mode != NON
    ]
    # None is lower: "lowest" allows an equal.
    return ordered(orders, ties=True)


def flat_non(observations: Observations) -> list[Finding]:
    base = at(observations, "large", NON, 0.0)
    found = []
    for loss in LOSSES[1:]:
        other = at(observations, "large", NON, loss)
        if base is None or other is None:
            found.append(Finding(CANNOT_TELL, f"{percent(loss)}: not measured"))
            continue
        ratio = latency_ratio(other, base)
        found.append(inside(f"{percent(loss)} / 0%", ratio, 1 - FLAT_SHARE, 1 + FLAT_SHARE))
    return found


def small_below_large(observations: Observations) -> list[Finding]:
    return ordered(
        [
            faster(
                f"{mode}, {percent(loss)}: large - small",
                at(observations, "small", mode, loss),
                at(observations, "large", mode, loss),
            )
            for mode in MODES
            for loss in LOSSES
        ]
    )


def growth_con(observations: Observations) -> list[Finding]:
    ratios = {}
    for mode in MODES:
        still, lossy = (at(observations, "small", mode, loss) for loss in (0.0, 0.25))
        if still is None or lossy is None:
            return [Finding(CANNOT_TELL, f"{mode}: not measured")]
        ratios[mode] = latency_ratio(lossy, still)
    found = [inside("coap con, mean at 25% / mean at 0%", ratios[CON], 5.0, 9.0)]
    own = ratios[CON]
    for mode, other in ratios.items():
        if mode == CON or None in (own.low, own.high, other.low, other.high):
            continue
        text = f"{mode}: {other.estimate:.2f} [{other.low:.2f}, {other.high:.2f}]"
        above, below = own.low > other.high, own.high < other.low  # type: ignore[operator]
        # Intervals that do not meet: neither reaches the other's nearer bound, which is the less sure of the two.
        p_value = max(p_of_border(own, other.estimate or 0.0), p_of_border(other, own.estimate or 0.0))
        found.append(Finding(AGREE if above else DISAGREE if below else CANNOT_TELL, text, p_value))
    return found


def near_con(observations: Observations) -> list[Finding]:
    found = []
    for size, loss in itertools.product(SIZES, LOSSES[:3]):
        con = at(observations, size, CON, loss)
        others = [at(observations, size, mode, loss) for mode in TCP]
        means = [mean for o in others if o is not None and (mean := o.latency().estimate) is not None]
        if con is None or not means:
            found.append(Finding(CANNOT_TELL, f"{size}, {percent(loss)}: not measured"))
            continue
        low, high = (1 - NEAR_SHARE) * min(means), (1 + NEAR_SHARE) * max(means)
        text = f"{size}, {percent(loss)}, allowed {low:.0f} to {high:.0f}"
        found.append(inside(text, con.latency(), low, high, "ms"))
    return found


def tcp_delivers(observations: Observations) -> list[Finding]:
    found = []
    for size, mode in itertools.product(SIZES, TCP):
        cells = [at(observations, size, mode, loss) for loss in LOSSES]
        due = sum(c.due for c in cells if c is not None)
        missing = sum(c.missing for c in cells if c is not None)
        lost = sum(c.overtaken for c in cells if c is not None)
        verdict, text, p_value = none_of(f"{size} {mode} lost", lost, due, ENOUGH)
        if missing > lost:
            text += f", {missing - lost} perhaps still on the way at the end"
        # It agrees where it does though all that may be on its way is counted as lost.
        at_worst = none_of("", missing, due, ENOUGH)
        if verdict == AGREE:
            open_ = None in cells or at_worst.verdict != AGREE
            verdict, p_value = (CANNOT_TELL, 1.0) if open_ else (AGREE, at_worst.p_value)
        found.append(Finding(verdict, text, p_value))
    return found


def non_loses(observations: Observations) -> list[Finding]:
    found = []
    for size in SIZES:
        cells = [(loss, at(observations, size, NON, loss)) for loss in LOSSES[1:]]
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


def con_loses(observations: Observations) -> list[Finding]:
    some = {("large", 0.1), ("large", 0.25), ("small", 0.25)}
    found = []
    for size, loss in itertools.product(SIZES, LOSSES):
        cell = at(observations, size, CON, loss)
        if cell is None:
            found.append(Finding(CANNOT_TELL, f"{size}, {percent(loss)}: not measured"))
            continue
        rule = some_of if (size, loss) in some else none_of
        found.append(rule(f"{size}, {percent(loss)}", cell.missing, cell.due, ENOUGH))
    return found


def _order_stays(conditions: Sequence[tuple[str, dict[str, EchoObservations | None]]]) -> list[Finding]:
    """Decide for each pair of modes that it keeps its order.

    It is turned round when, by more than the margin, it is significantly one way under one condition and the other way
    under another. It keeps its order when that is ruled out: under all conditions the whole interval is above the
    negative margin, or under all below the positive one.
    """
    pairs = list(itertools.combinations(MODES, 2))
    tests = [
        (name, (a, b), difference(compare_latency, cells[a], cells[b]), margin_ms(cells[a], cells[b]))
        for name, cells in conditions
        for a, b in pairs
    ]
    measured = [(name, pair, found, margin) for name, pair, found, margin in tests if found is not None]
    if len(measured) < len(tests):
        return [Finding(CANNOT_TELL, "not all measured")]
    # Of each pair, by condition: how sure it is that the first is slower, and faster, by more than the margin.
    turned: dict[tuple[str, str], list[tuple[str, Comparison, float]]] = {pair: [] for pair in pairs}
    kept: dict[tuple[str, str], tuple[bool, bool]] = dict.fromkeys(pairs, (True, True))
    for name, pair, found, margin in measured:
        turned[pair].append((name, found, margin))
        above, below = kept[pair]
        kept[pair] = (above and found.low > -margin, below and found.high < margin)
    means = [
        [c.latency().estimate or 0.0 for m in MODES if (c := cells[m]) is not None] for _, cells in conditions
    ]
    least = min(float(stats.spearmanr(a, b).statistic) for a, b in itertools.combinations(means, 2))
    rank = f"lowest rank correlation {least:.2f}"
    return [_pair_stays(pair, turned[pair], kept=any(kept[pair]), rank=rank) for pair in pairs]


def _pair_stays(
    pair: tuple[str, str], found: Sequence[tuple[str, Comparison, float]], *, kept: bool, rank: str
) -> Finding:
    """Decide one pair: it is turned round where it is one way somewhere and the other way elsewhere.

    Either may be by chance under any of the conditions (Bonferroni).
    """
    name = f"{pair[0]} / {pair[1]}"
    up, down = (
        min(
            (p_beyond(c, sign * margin) for _, c, margin in found if sign * c.difference > margin),
            default=1.0,
        )
        for sign in (1, -1)
    )
    p_value = min(1.0, len(found) * max(up, down))
    if p_value < ALPHA:
        apart = ", ".join(f"{n} {c.difference:+.1f} ms" for n, c, m in found if c.low > m or c.high < -m)
        return Finding(DISAGREE, f"{name}: {apart}", p_value)
    return (
        Finding(AGREE, f"{name} stays ({rank})") if kept else Finding(CANNOT_TELL, f"{name} is open ({rank})")
    )


def order_over_sizes(observations: Observations) -> list[Finding]:
    conditions = [("10 B", {m: at(observations, "small", m, 0.0) for m in MODES})]
    for size in MESSAGE_BYTES:
        cells = {m: observations.get("sizes", m, message_bytes=size) for m in MODES}
        conditions.append((f"{size} B", cells))
    return _order_stays(conditions)


def order_over_rates(observations: Observations) -> list[Finding]:
    conditions = [("x1", {m: at(observations, "large", m, 0.0) for m in MODES})]
    for factor in FACTORS:
        cells = {m: observations.get("rates", m, rate_factor=factor) for m in MODES}
        conditions.append((f"x{factor:g}", cells))
    return _order_stays(conditions)


def best_case(observations: PaperCells) -> list[Finding]:
    """Decide what is added to a ping as long as the paper's, on a wire between two namespaces.

    A second machine's network card and interrupts can only add: more than published here is contrary, less is not
    comparable.
    """
    found = []
    for mode in MODES:
        cell = observations.get("paper_ping", mode, rtt=PAPER_RTT)
        if cell is None or not observations.paper_pings.n:
            found.append(Finding(CANNOT_TELL, f"{mode}: not measured"))
            continue
        added = as_interval(difference_of_means(observations.paper_pings, cell.delays))
        one = inside(f"{mode} - ping", added, *ADDED_MS, "ms", published=PING)
        if one.verdict == DISAGREE and added.estimate is not None and added.estimate < ADDED_MS[0]:
            one = not_comparable(one.text, "less than two machines can add")
        found.append(one)
    return found


def best_choice(observations: Observations) -> list[Finding]:
    orders = []
    others = [mode for mode in TCP if mode != "mqtt qos0"]
    for size, loss in itertools.product(SIZES, LOSSES):
        first = at(observations, size, "mqtt qos0", loss)
        for mode in others:
            there = at(observations, size, mode, loss)
            name = f"{size}, {percent(loss)}: {mode} - mqtt qos0"
            orders += [faster(name, first, there), leaner(name, first, there)]
    for size in SIZES:
        non, qos0 = (at(observations, size, mode, 0.0) for mode in (NON, "mqtt qos0"))
        orders.append(leaner(f"{size}: mqtt qos0 - coap non", non, qos0))
    for size, loss in itertools.product(SIZES, LOSSES):
        non, qos0 = (at(observations, size, mode, loss) for mode in (NON, "mqtt qos0"))
        orders.append(faster(f"{size}, {percent(loss)}: mqtt qos0 - coap non", non, qos0))
    # "Best" allows an equal.
    return ordered(orders, ties=True)
