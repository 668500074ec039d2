"""Differences between the cells that a study's headline compares, each with interval, n and verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.compare import RELEVANT, judged, row_of
from ivsim.study.headline import about
from ivsim.study.markdown import table
from ivsim.study.model import Study
from ivsim.study.pairs import Difference, Row, units_of
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH, scaled, short


def differences(study: Study, found: Sequence[CellResult]) -> list[Difference]:
    """Return what the headline's metrics differ in between the cells that it compares, all tests together at 5 % (Holm).

    A metric is compared where the table of the cells' sweep shows it and the cells have it: more tests would only cost power.
    """
    chosen = study.headline_kind
    cells = [r for r in about(chosen, found) if any(_shows(study, r, metric) for metric in chosen.compared)]
    both = [
        (pair, metric)
        for pair in chosen.pairs(study.measured_by, cells)
        for metric in chosen.compared
        if _shows(study, pair.below, metric) and _shows(study, pair.above, metric)
    ]
    rows = [row_of(metric, pair.below, pair.above) for pair, metric in both]
    rows = judged(rows, study, tests=chosen.tests(cells))
    return [Difference(pair, row) for (pair, _), row in zip(both, rows, strict=True)]


def _shows(study: Study, result: CellResult, metric: str) -> bool:
    cell = result.cell
    return metric in study.metrics_of(cell.sweep) and study.measured_by.unmeasurable(cell, metric) is None


def section(study: Study, found: Sequence[Difference]) -> str:
    """Return the table of all of them, "" where there are none."""
    if not found:
        return ""
    head = [
        "from, to",
        *(["beside"] if any(one.pair.beside for one in found) else []),
        "metric",
        "difference",
        "by",
        "n",
        "more than noise",
    ]
    rows = []
    for one in found:
        beside = [one.pair.beside] if "beside" in head else []
        rows.append(
            [
                one.pair.step,
                *beside,
                one.row.metric,
                _difference(study, one.row),
                one.row.by,
                units_of([one.row]),
                one.row.verdict,
            ]
        )
    note = (
        "The second minus the first [95 % interval]. By: what both have and is compared with itself, as repetitions of one seed"
        " have the same messages over the same seconds of the trace: each message (of a mean its mean difference, of a median the"
        " median of the differences), each vehicle, or each repetition. n: units on either side."
        " More than noise: significant, with all tests of this table, and of the pairs of cells that it was chosen from, together"
        " at 5 % (Holm), and at least"
        f" {RELEVANT * 100:g} % of the first figure (of shares of messages any); below {MIN_REPETITIONS} repetitions there is no"
        " verdict."
    )
    return f"## Differences\n\n{table(head, rows)}\n\n{note}"


def _difference(study: Study, row: Row) -> str:
    compared = row.comparison
    if compared is None:
        return DASH
    unit = scaled(row.first, study.metric(row.metric).unit)[1]
    scale = 100.0 if unit == "%" else 1.0
    figure, low, high = (value * scale for value in (compared.difference, compared.low, compared.high))
    sign = "-" if figure < 0 else "+"
    return f"{sign}{short(abs(figure))} [{short(low)}, {short(high)}] {unit}".strip()
