"""Claims 1 to 9: what a batch does to latency, and which law says how much of it is late; see `claims`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ivsim.papers.parts import ANY, DIFFERENCE, Part, differences, found_of, ratios
from ivsim.papers.reactive_batching.cells import (
    AGED,
    COUNTS,
    FILLED,
    HINGE_RATES,
    MEAN,
    RATE,
    Cells,
    deviations,
    means,
    slopes,
)
from ivsim.papers.reactive_batching.laws import (
    CAUCHY,
    GAMMA,
    PHASE,
    RUNS,
    UNIFORM,
    Errors,
    errors,
    hinge_of,
    long_errors,
    mean_errors,
    shares_outside,
)
from ivsim.study.claims import AGREE, ALPHA, CANNOT_TELL, DISAGREE, Finding, together

# What l2 may change, and the mean above the hinge.
SAME_MS: Final = 5.0
# The published hinge, give or take.
HINGE: Final = (8.0, 12.0)
# A tenth of the paper's 200 ms, and what it calls many beyond.
MISLEADING_MS: Final = 20.0
MANY: Final = 0.2
GAMMA_MAE: Final = 0.01
PHASE_MAE: Final = 0.005
TENTH: Final = 0.1
UNIFORM_MAE: Final = 0.01
OUTSIDE: Final = 0.001


def split(cells: Cells) -> list[Finding]:
    """Decide claim 1."""
    runs = {count: cells.count_runs(count) for count in COUNTS}
    to_partition = {count: means(one, lambda run: run.to_partition) for count, one in runs.items()}
    after = {count: means(one, lambda run: run.from_partition) for count, one in runs.items()}
    total = {count: means(one, lambda run: run.latency) for count, one in runs.items()}
    found = [
        Part(f"B_S {count}, l1/L", ratios(to_partition[count], total[count]), 0.5, ANY) for count in COUNTS
    ]
    early = {float(count): to_partition[count] for count in (1, *FILLED)}
    found.append(Part("slope of l1 over B_S 1 to 10, ms", slopes(early), 0.0, ANY, DIFFERENCE))
    found += [
        Part(
            f"l2 at B_S {count} minus 1, ms",
            differences(after[count], after[1]),
            -SAME_MS,
            SAME_MS,
            DIFFERENCE,
        )
        for count in COUNTS[1:]
    ]
    return found_of(found)


def rise_and_plateau(cells: Cells) -> list[Finding]:
    """Decide claim 2."""
    by_count = {count: cells.figures(MEAN, "latency", batch_messages=count) for count in COUNTS}
    early = {float(count): by_count[count] for count in (1, *FILLED)}
    first, last = AGED[-2:]
    return found_of(
        [
            Part("slope of the mean over B_S 1 to 10, ms", slopes(early), 0.0, ANY, DIFFERENCE),
            Part(
                f"mean at B_S {last} minus {first}, ms",
                differences(by_count[last], by_count[first]),
                -SAME_MS,
                SAME_MS,
                DIFFERENCE,
            ),
        ]
    )


def hinges(cells: Cells, rate: float) -> list[float]:
    """Return the hinge of each repetition that has the means at all counts, at a rate of a partition."""
    by_count = cells.hinge_means(rate)
    both = set.intersection(*(set(one) for one in by_count.values()))
    counts = np.array(list(by_count), dtype=np.float64)
    return [
        hinge_of(counts, np.array([one[repetition] for one in by_count.values()]))
        for repetition in sorted(both)
    ]


def hinge(cells: Cells) -> list[Finding]:
    """Decide claim 3."""
    return found_of(
        [
            Part(f"hinge at {rate:g}/s, records", hinges(cells, rate), *HINGE, DIFFERENCE)
            for rate in (RATE, *HINGE_RATES)
        ]
    )


def wider(cells: Cells) -> list[Finding]:
    """Decide claim 4."""
    spread = {count: deviations(cells.count_runs(count)) for count in FILLED}
    return found_of(
        [
            Part(f"SD, B_S {more}/{fewer}", ratios(spread[more], spread[fewer]), 1.0, ANY)
            for fewer, more in itertools.pairwise(FILLED)
        ]
    )


def misleading(cells: Cells) -> list[Finding]:
    """Decide claim 5: it is enough that one count is as claimed."""
    each = []
    for count in FILLED:
        runs = cells.count_runs(count)
        late = [float((run.latency > MISLEADING_MS).mean()) for run in runs.values()]
        mean = list(means(runs, lambda run: run.latency).values())
        parts = [
            Part(f"B_S {count}, mean ms", mean, 0.0, MISLEADING_MS, DIFFERENCE),
            Part(f"share above {MISLEADING_MS:g} ms", late, MANY, ANY, DIFFERENCE),
        ]
        each.append(found_of(parts))
    text = "; ".join(", ".join(finding.text for finding in one) for one in each)
    # Any count may be the one that is as claimed, any part of a count the contrary one: both by chance (Bonferroni).
    agreeing = [max(part.p_value for part in one) for one in each if together(one) == AGREE]
    agree = len(each) * min(agreeing, default=1.0)
    contrary = max(
        len(one) * min((part.p_value for part in one if part.verdict == DISAGREE), default=1.0)
        for one in each
    )
    for verdict, p_value in ((AGREE, agree), (DISAGREE, contrary)):
        if p_value < ALPHA:
            return [Finding(verdict, text, p_value)]
    return [Finding(CANNOT_TELL, text)]


ErrorsOf = Callable[[Cells, str, int], Errors]


def _told(
    cells: Cells,
    asked: Sequence[tuple[str, int]],
    most: float,
    rival: str | None = None,
    errors_of: ErrorsOf = errors,
) -> list[Part]:
    """Return the parts that each law's MAE at its count, or its ratio to a rival's, is up to a bound."""
    parts = []
    for law, count in asked:
        own = mean_errors(errors_of(cells, law, count))
        if rival is None:
            parts.append(Part(f"B_S {count}, {law}, MAE", list(own.values()), 0.0, most, DIFFERENCE))
        else:
            values = ratios(own, mean_errors(errors_of(cells, rival, count)))
            parts.append(Part(f"B_S {count}, {law}/{rival}", values, 0.0, most))
    return parts


def _judged(
    cells: Cells,
    asked: Sequence[tuple[str, int]],
    most: float,
    tenth: str | None = None,
    errors_of: ErrorsOf = errors,
) -> list[Finding]:
    """Decide errors of laws; an error that the runs themselves have against each other contradicts nothing.

    Args:
        cells: measured.
        asked: law and count.
        most: bound of the MAE.
        tenth: a rival whose MAE is to be ten times as large at least.
        errors_of: of which runs.
    """
    chance = [(RUNS, count) for _, count in asked]
    parts, floors = (_told(cells, one, most, errors_of=errors_of) for one in (asked, chance))
    if tenth is not None:
        parts += _told(cells, asked, TENTH, tenth, errors_of)
        floors += _told(cells, chance, TENTH, tenth, errors_of)
    return [_unless_chance(finding, floor) for finding, floor in zip(found_of(parts), floors, strict=True)]


def _unless_chance(finding: Finding, floor: Part) -> Finding:
    least = floor.interval().estimate
    if finding.verdict != DISAGREE or least is None or least <= floor.high:
        return finding
    return Finding(CANNOT_TELL, f"{finding.text}, and the other runs themselves {least:.3g}")


def gamma(cells: Cells) -> list[Finding]:
    """Decide claim 6."""
    return _judged(cells, [(GAMMA, 1)], GAMMA_MAE)


def phase_type(cells: Cells) -> list[Finding]:
    """Decide claim 7, by runs that are long enough to differ by less than its bounds."""
    return _judged(cells, [(PHASE, count) for count in FILLED], PHASE_MAE, CAUCHY, long_errors)


def uniform(cells: Cells) -> list[Finding]:
    """Decide claim 8."""
    return _judged(cells, [(UNIFORM, count) for count in AGED], UNIFORM_MAE)


def bounded(cells: Cells) -> list[Finding]:
    """Decide claim 9."""
    values = shares_outside(cells, COUNTS)
    return found_of([Part("share outside", values, -ANY, OUTSIDE, DIFFERENCE)])
