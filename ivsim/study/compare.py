"""Two results of a study side by side, with the difference and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ivsim.study.statistics import Comparison, Interval, compare_means, holm
from ivsim.study.store import Store
from ivsim.study.summary import DASH, CellResult, short, written
from schemas.errors import Refusal

# Fewer values than this have less than five above their 99th percentile: its bootstrap interval is too narrow.
FEW: Final = 500


class Row(NamedTuple):
    """One metric of one cell in both results."""

    cell: str
    metric: str
    first: Interval
    second: Interval
    comparison: Comparison | None
    more_than_noise: bool | None


def compare(
    first: tuple[Store, Sequence[CellResult]], second: tuple[Store, Sequence[CellResult]]
) -> list[Row]:
    """Compare the cells that both have, each metric of the first study; Refusal when they share no cell.

    Means are compared by Welch's test over messages, other figures over repetitions; all tests of the table
    together keep 5 % (Holm), so that a long table shows no difference by its length alone. A figure with
    neither, such as a quantile of one run, is more than noise when the 95 % intervals do not meet.
    """
    there = {result.cell.name: result for result in second[1]}
    common = [(one, there[one.cell.name]) for one in first[1] if one.cell.name in there]
    if not common:
        raise Refusal(f"{first[0].path} and {second[0].path}: no cell is in both")
    rows = [_row(metric, a, b) for a, b in common for metric in first[0].study.metrics]
    tested = [row for row in rows if row.comparison is not None]
    rejected = holm([row.comparison.p_value for row in tested if row.comparison is not None])
    verdicts = {id(row): verdict for row, verdict in zip(tested, rejected, strict=True)}
    return [row._replace(more_than_noise=verdicts.get(id(row), row.more_than_noise)) for row in rows]


def _row(metric: str, a: CellResult, b: CellResult) -> Row:
    left, right = a.interval(metric), b.interval(metric)
    found = None
    if metric == "latency_mean_ms" and a.measured is not None and b.measured is not None:
        found = compare_means(a.measured.received_ms, b.measured.received_ms)
    elif metric == "crossing_overhead_bytes" and a.measured is not None and b.measured is not None:
        found = compare_means(a.measured.overhead_bytes, b.measured.overhead_bytes)
    elif left.n == a.values(metric).size:
        found = compare_means(a.values(metric), b.values(metric))
    apart = None if "p99" in metric and min(left.n, right.n) < FEW else _apart(left, right)
    return Row(a.cell.name, metric, left, right, found, apart)


def _apart(a: Interval, b: Interval) -> bool | None:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return None
    return a.high < b.low or b.high < a.low


def words(row: Row) -> tuple[str, str, str, str, str, str]:
    """Return a row as a table shows it."""
    difference = DASH
    if row.comparison is not None:
        c = row.comparison
        difference = f"{c.difference:+.3g} [{short(c.low)}, {short(c.high)}]"
    elif row.first.estimate is not None and row.second.estimate is not None:
        difference = f"{row.second.estimate - row.first.estimate:+.3g}"
    noise = {True: "yes", False: "no", None: "cannot tell"}[row.more_than_noise]
    return row.cell, row.metric, written(row.first), written(row.second), difference, noise
