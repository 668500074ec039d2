"""Two results of a study side by side, with the difference and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ivsim.study.clusters import (
    MIN_REPETITIONS,
    REPETITION,
    difference_of_intervals,
    difference_of_means,
    repetition_clusters,
)
from ivsim.study.messages import by_message, quantile_of
from ivsim.study.model import Study
from ivsim.study.pairs import APART, Row, Verdict
from ivsim.study.results import CellResult
from ivsim.study.statistics import Comparison, Interval, holm
from ivsim.study.store import Store
from ivsim.study.summary import DASH, short, written
from schemas.errors import Refusal

# A difference of less than this share of the first figure is of no interest, however sure it is.
RELEVANT: Final = 0.05
# By what two cells are compared, beside pairs.APART.
MESSAGE: Final = "message"
# Below that many, figures that a repetition has once are compared by their intervals, too.
MIN_PAIRED_REPETITIONS: Final = 4


class Compared(NamedTuple):
    """What the two results are different in beside their figures, a line each; and every metric of every common cell."""

    notes: list[str]
    rows: list[Row]


Measured = tuple[Store, Sequence[CellResult]]


def compare(first: Measured, second: Measured, relevant: float = RELEVANT) -> Compared:
    """Compare the cells that both have, each metric of the first study; Refusal when they share no cell.

    The unit is that of the figures' intervals (ivsim.study.clusters): vehicles within repetitions, repetitions where a
    figure is of a whole one. Under the same seed messages, vehicles and repetitions are compared with themselves. All tests of
    the table together keep 5 % (Holm), so that two studies that differ in their seed alone show any difference at all
    in at most one table of twenty. Below MIN_REPETITIONS on either side there is no verdict.

    Args:
        first: a store with what was measured.
        second: another.
        relevant: smallest difference of interest, as a share of the first figure; differences of ratios (a share of
            messages) have none, and are judged by significance alone.
    """
    there = {result.cell.name: result for result in second[1]}
    common = [(one, there[one.cell.name]) for one in first[1] if one.cell.name in there]
    if not common:
        raise Refusal(f"{first[0].path} and {second[0].path}: no cell is in both")
    rows = [row_of(metric, a, b) for a, b in common for metric in first[0].study.metrics]
    return Compared(list(_notes(first, second, common)), judged(rows, first[0].study, relevant))


def judged(
    rows: Sequence[Row], study: Study, relevant: float = RELEVANT, tests: int | None = None
) -> list[Row]:
    """Return the rows of a table with their verdicts: all tests together keep 5 % (Holm).

    Args:
        rows: of the table.
        study: whose metrics they are.
        relevant: smallest difference of interest, as a share of the first figure.
        tests: how many there would be, where the rows are chosen by their figures.
    """
    rows = list(rows)
    testable = [k for k, row in enumerate(rows) if row.verdict == "no" and row.comparison is not None]
    p_values = [c.p_value for k in testable if (c := rows[k].comparison) is not None]
    for k, significant in zip(testable, holm(p_values, tests), strict=True):
        if significant:
            large = study.metric(rows[k].metric).unit == "ratio" or _relevant(rows[k], relevant)
            rows[k] = rows[k]._replace(verdict="yes" if large else "too small")
    return rows


def _relevant(row: Row, share: float) -> bool:
    assert row.comparison is not None
    return abs(row.comparison.difference) >= share * abs(row.first.estimate or 0.0)


def _seeds(result: CellResult) -> dict[int, int | None]:
    return {one.task.repetition: one.seed for one in result.done}


def _both(a: CellResult, b: CellResult) -> tuple[CellResult, CellResult]:
    """Return two cells as their valid repetitions have them; under the same seeds as those that both have."""
    left, right = a.sound, b.sound
    seeds = _seeds(left), _seeds(right)
    common = seeds[0].keys() & seeds[1].keys()
    if not common or any(seeds[0][one] != seeds[1][one] for one in common):
        return left, right
    first, second = (
        side.of([one for one in side.kept if one.task.repetition in common]) for side in (left, right)
    )
    return first, second


def row_of(metric: str, a: CellResult, b: CellResult) -> Row:
    """Return one metric of two cells with their difference, not judged beside others yet.

    Repetitions that are not valid have no part in it; a cell of which none is valid has no verdict.
    """
    whole = a, b
    a, b = _both(a, b)
    left, right = a.interval(metric), b.interval(metric)

    def row(verdict: Verdict, found: Comparison | None = None, by: str = APART) -> Row:
        return Row(a.cell.name, metric, left, right, found, verdict, by)

    unsound = {one.validity for one in whole if one.kept and not one.valid}
    if unsound & {"invalid", "degraded"}:
        return row("invalid" if "invalid" in unsound else "degraded")
    if left.estimate is None or right.estimate is None:
        return row("not measured")
    found, by = _difference(metric, a, b)
    if not a.enough or not b.enough:
        return row("too few repetitions", found, by)
    return row("cannot tell" if found is None else "no", found, by)


def _difference(metric: str, a: CellResult, b: CellResult) -> tuple[Comparison | None, str]:
    """Return second minus first, and by what it was found.

    Under the same seeds what both have is compared with itself: each message in a mean or a median of latencies, each
    vehicle in a mean, each repetition in what it has once. What the link and the hour did to both is then in neither's error.
    """
    same_seeds = _seeds(a) == _seeds(b)
    if same_seeds and (found := by_message(metric, a.observations, b.observations)) is not None:
        return found, MESSAGE
    first, second = (side.observations.clusters(metric) for side in (a, b))
    if first is not None and second is not None:
        same_units = same_seeds and (first.repetitions, first.units) == (second.repetitions, second.units)
        found = difference_of_means(first, second, same_units=same_units)
        return found, first.kind if same_units else APART
    left, right = a.interval(metric), b.interval(metric)
    if same_seeds and _of_whole_repetitions(metric, left, right):
        found = _by_repetition(a.figures(metric), b.figures(metric))
        if found is not None:
            return found, REPETITION
    return difference_of_intervals(left, right), APART


def _of_whole_repetitions(metric: str, left: Interval, right: Interval) -> bool:
    """Return whether each repetition has a figure that can be set against the other cell's: no share, and no unsure quantile."""
    if left.unit == right.unit == REPETITION:
        return True
    return quantile_of(metric) is not None and None not in (left.low, right.low)


def _by_repetition(left: Mapping[int, float], right: Mapping[int, float]) -> Comparison | None:
    """Return the mean difference of what each repetition has; None where MIN_PAIRED_REPETITIONS do not have both."""
    both = sorted(left.keys() & right.keys())
    if len(both) < MIN_PAIRED_REPETITIONS:
        return None
    return repetition_clusters([right[one] - left[one] for one in both]).mean_comparison()


def _notes(
    first: Measured, second: Measured, common: Sequence[tuple[CellResult, CellResult]]
) -> Iterator[str]:
    """Yield what differs beside the figures: who reads them should know what else may have made the difference."""
    one, two = first[0], second[0]
    if one.study.seed == two.study.seed:
        yield f"seed {one.study.seed} in both: each vehicle is compared with itself"
    else:
        yield f"seeds differ ({one.study.seed} and {two.study.seed}): other content, other stretches of the trace"
    for what in ("versions", "machine", "host"):
        here, there = one.head.get(what), two.head.get(what)
        if here and there and (changed := _changed(here, there)):
            yield f"{what} differ: {changed}; a difference may be theirs"
    if one.quick != two.quick:
        yield "one of the two was a quick run: its samples are smaller"
    ignored = {"seed", "title", "question", "caveats", "headline", "metrics", "service_levels"}
    settings = [{k: v for k, v in s.study.model_dump().items() if k not in ignored} for s in (one, two)]
    if changed := _changed(*settings):
        yield f"the studies differ: {changed}"
    fewest = min(len(side.done) for pair in common for side in pair)
    if fewest < MIN_REPETITIONS:
        yield f"a cell has {fewest} repetitions: below {MIN_REPETITIONS} there is no verdict"
    for pair in common:
        for store, side in zip((one, two), pair, strict=True):
            if side.validity != "valid":
                left = len(side.valid)
                yield f"{store.path}: {side.cell.name} is {side.validity}: {left or 'none'} of its repetitions compared"


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    return ", ".join(f"{name} ({a.get(name)} and {b.get(name)})" for name in names)


def as_table_row(row: Row) -> tuple[str, str, str, str, str, str]:
    """Return a row as a table shows it."""
    difference = DASH
    if row.comparison is not None:
        c = row.comparison
        difference = f"{c.difference:+.3g} [{short(c.low)}, {short(c.high)}]"
    elif row.first.estimate is not None and row.second.estimate is not None:
        difference = f"{row.second.estimate - row.first.estimate:+.3g}"
    return row.cell, row.metric, written(row.first), written(row.second), difference, row.verdict
