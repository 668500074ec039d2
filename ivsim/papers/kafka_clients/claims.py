"""The twelve claims, and the rule by which each is decided; J is the Java client in the process, L librdkafka.

The unit is a pair of runs of the same size, count and repetition. A ratio agrees or disagrees by the 95 % interval of
its mean logarithm over at least 20 pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ivsim.papers.kafka_clients.cells import (
    BATCHED,
    CONSUME,
    COUNTS,
    DOCUMENT,
    JAVA,
    LABELS,
    PRODUCE,
    ROUND_TRIP,
    SETTINGS,
    SIZES,
    Cells,
    named,
)
from ivsim.papers.kafka_clients.statistics import Spread, spread_ratio
from ivsim.papers.parts import ANY, Part, found_of
from ivsim.study.claims import AGREE, ALPHA, CANNOT_TELL, DISAGREE, Claim, Finding, together
from ivsim.study.statistics import holm

PAIRS: Final = 20
SAME: Final = (1 / 1.1, 1.1)
BELOW: Final = (0.0, 1.0)
ABOVE: Final = (1.0, ANY)
TWICE: Final = (2.0, ANY)
THIRD: Final = (0.0, 1 / 3)
HALF: Final = (0.0, 1 / 2)
# How many of the eight cells are claimed: produce, consume (J varies more), round trip (less).
MORE: Final = 6
BRIDGE: Final = "bridge"
BRIDGE_SIZES: Final = (100, 1_000)
BRIDGE_COUNT: Final = 10_000

Bounds = tuple[float, float]
Ratios = Mapping[int, float]


def decided(parts: Sequence[Part]) -> list[Finding]:
    """Decide parts together; one with fewer than PAIRS pairs is not told, and costs the others nothing."""
    enough = [part for part in parts if len(part.values) >= PAIRS]
    found = iter(found_of(enough))
    return [next(found) if part in enough else _few(part) for part in parts]


def _few(part: Part) -> Finding:
    if not part.values:
        return Finding(CANNOT_TELL, f"{part.text}: not measured")
    return Finding(CANNOT_TELL, f"{part.text}: {len(part.values)} of at least {PAIRS} pairs")


def _part(cells: Cells, metric: str, size: int, count: int, bounds: Bounds) -> Part:
    return Part(
        f"{named(metric, size, count)} J/L", list(cells.ratios(metric, size, count).values()), *bounds
    )


def _ratios(
    cells: Cells, metric: str, sizes: Sequence[int], counts: Sequence[int], bounds: Bounds
) -> list[Finding]:
    return decided([_part(cells, metric, size, count, bounds) for size in sizes for count in counts])


def _change(text: str, later: Ratios, earlier: Ratios, bounds: Bounds) -> Part:
    """Return the part that a ratio over another of the same repetition lies within the bounds."""
    both = sorted(later.keys() & earlier.keys())
    return Part(text, [later[one] / earlier[one] for one in both], *bounds)


def _per_message(cells: Cells) -> list[Finding]:
    parts = [
        _change(
            f"{count:,}: J/L of 1,000 B over that of 100 B",
            cells.ratios(PRODUCE, 1_000, count),
            cells.ratios(PRODUCE, 100, count),
            BELOW,
        )
        for count in COUNTS
    ]
    return decided(parts)


def _rises(cells: Cells, metric: str) -> list[Finding]:
    few, many = COUNTS
    parts = [
        _change(
            f"{LABELS[metric]} {size:,} B: J/L of {many:,} over that of {few:,}",
            cells.ratios(metric, size, many),
            cells.ratios(metric, size, few),
            ABOVE,
        )
        for size in SIZES
    ]
    return decided(parts)


def _spreads(cells: Cells) -> list[Finding]:
    keys = [(metric, size, count) for metric in LABELS for count in COUNTS for size in SIZES]
    found: list[Spread | None] = []
    for key in keys:
        pairs = list(cells.pairs(*key).values())
        found.append(spread_ratio(pairs) if len(pairs) >= PAIRS else None)
    told = holm([1.0 if one is None else one.p_value for one in found])
    sides: dict[str, list[int]] = {metric: [] for metric in LABELS}
    p_values: dict[str, list[tuple[bool, float]]] = {metric: [] for metric in LABELS}
    for (metric, _, _), one, significant in zip(keys, found, told, strict=True):
        sure = one is not None and significant and not one.low <= 1 <= one.high
        sides[metric].append(0 if one is None or not sure else 1 if one.ratio > 1 else -1)
        if one is not None:
            p_values[metric].append((one.ratio > 1, one.p_value))
    asked = (("produce", PRODUCE, 1, MORE), ("consume", CONSUME, 1, MORE))
    whole = ("round trip", ROUND_TRIP, -1, len(sides[ROUND_TRIP]))
    return [
        _counted(what, sides[metric], claimed, least, p_values[metric])
        for what, metric, claimed, least in (*asked, whole)
    ]


def _counted(
    what: str, sides: Sequence[int], claimed: int, least: int, p_values: Sequence[tuple[bool, float]]
) -> Finding:
    """Return whether so many cells are on the claimed side: shown, out of reach, or neither.

    That at least r of n cells are on a side has the p-value n - r + 1 times the r-th smallest of theirs (partial conjunction,
    Benjamini and Heller 2008).
    """
    yes, no = sides.count(claimed), sides.count(-claimed)
    word = "more" if claimed > 0 else "less"
    text = f"{what}: J varies {word} in {yes}, the other way in {no}, not told in {len(sides) - yes - no} of {len(sides)}"

    def at_least(r: int, above: bool) -> float:
        own = sorted(p for side, p in p_values if side == above)
        return min(1.0, (len(sides) - r + 1) * own[r - 1]) if len(own) >= r else 1.0

    if yes >= least:
        return Finding(AGREE, text, at_least(least, above=claimed > 0))
    if len(sides) - no < least:
        return Finding(DISAGREE, text, at_least(len(sides) - least + 1, above=claimed < 0))
    return Finding(CANNOT_TELL, text)


def _bridge(cells: Cells) -> list[Finding]:
    def part(metric: str, size: int, bounds: Bounds) -> Part:
        found = cells.ratios(metric, size, BRIDGE_COUNT, sweep=BRIDGE, above=BATCHED, below=JAVA)
        return Part(
            f"{named(metric, size, BRIDGE_COUNT)}, a call for 500 over one for each",
            list(found.values()),
            *bounds,
        )

    parts = [part(PRODUCE, size, BELOW) for size in BRIDGE_SIZES]
    return decided(parts + [part(CONSUME, size, SAME) for size in BRIDGE_SIZES])


def _everywhere(cells: Cells) -> list[Finding]:
    """Return a finding: one of the settings has L ahead in all cells; contrary where each has a cell with J ahead."""
    verdicts, texts, p_values, agreeing = [], [], list[float](), list[float]()
    for sweep in SETTINGS:
        counts = COUNTS if sweep == DOCUMENT else COUNTS[:1]
        parts = [
            Part(
                named(metric, size, count),
                list(cells.ratios(metric, size, count, sweep=sweep).values()),
                *ABOVE,
            )
            for metric in LABELS
            for count in counts
            for size in SIZES
        ]
        found = decided(parts)
        verdicts.append(together(found))
        # One contrary cell of many is enough, and may be by chance (Bonferroni).
        if verdicts[-1] == AGREE:
            agreeing.append(max(one.p_value for one in found))
        contrary = [one.p_value for one in found if one.verdict == DISAGREE]
        p_values.append(len(found) * min(contrary, default=1.0))
        ahead = sum(one.verdict == AGREE for one in found)
        behind = sum(one.verdict == DISAGREE for one in found)
        texts.append(f"{sweep}: L ahead in {ahead}, J in {behind} of {len(found)}")
    text = "; ".join(texts)
    # Any of the settings may have L ahead everywhere by chance (Bonferroni).
    p_value = len(SETTINGS) * min(agreeing, default=1.0)
    if p_value < ALPHA:
        return [Finding(AGREE, text, p_value)]
    p_value = max(p_values)
    return [Finding(DISAGREE, text, p_value) if p_value < ALPHA else Finding(CANNOT_TELL, text)]


def _of(
    metric: str, sizes: Sequence[int], counts: Sequence[int], bounds: Bounds
) -> Callable[[Cells], list[Finding]]:
    return partial(_ratios, metric=metric, sizes=sizes, counts=counts, bounds=bounds)


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        1,
        "produce, 100 B: J takes over twice L's time",
        "ratios above 2",
        _of(PRODUCE, (100,), COUNTS, TWICE),
    ),
    Claim(
        2,
        "produce, 1,000 B and 100,000 B: J is faster",
        "four ratios below 1",
        _of(PRODUCE, (1_000, 100_000), COUNTS, BELOW),
    ),
    Claim(
        3,
        "produce, 10,000 x 10,000 B: no advantage of J",
        "ratio within 10 %: two one-sided tests",
        _of(PRODUCE, (10_000,), (10_000,), SAME),
    ),
    Claim(
        4,
        "produce: J's ratio falls from 100 B to 1,000 B, as the bridge costs by the message",
        "ratio of ratios below 1, both counts",
        _per_message,
    ),
    Claim(
        5,
        "consume, 100 and 1,000 B: J takes less than a third of L's time",
        "ratios below 1/3",
        _of(CONSUME, (100, 1_000), COUNTS, THIRD),
    ),
    Claim(6, "consume, 100,000 B: L is faster", "ratios above 1", _of(CONSUME, (100_000,), COUNTS, ABOVE)),
    Claim(
        7,
        "consume: J's ratio rises from 1,000 to 10,000 messages at every size",
        "four ratios of ratios above 1",
        partial(_rises, metric=CONSUME),
    ),
    Claim(
        8,
        "round trip: J's mean latency is below half of L's at every size and count",
        "eight ratios below 1/2",
        _of(ROUND_TRIP, SIZES, COUNTS, HALF),
    ),
    Claim(
        9,
        "round trip: J's ratio rises with the count at every size",
        "four ratios of ratios above 1",
        partial(_rises, metric=ROUND_TRIP),
    ),
    Claim(
        10,
        "J's times vary more than L's in produce and consume (6 of 8 cells each), less in the round trip (8 of 8)",
        "ratios of standard deviations, bootstrap over pairs",
        _spreads,
    ),
    Claim(
        11,
        "fewer bridge calls a message make produce faster; for consume they do little",
        "produce: ratios below 1; consume: within 10 %",
        _bridge,
    ),
    Claim(
        12,
        "with other settings L wins every cell",
        "one of the four named settings with all ratios above 1",
        _everywhere,
    ),
)
