"""Differences between the cells that a study's headline compares, each with interval, n and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ivsim.study.clusters import MIN_REPETITIONS, REPETITION
from ivsim.study.compare import RELEVANT, Row, judged, row_of
from ivsim.study.headline import about
from ivsim.study.markdown import table
from ivsim.study.model import Study
from ivsim.study.pairs import Pair
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH, scaled, short

# So many are written out beside the headline; of more it says how many are more than noise.
MOST_SAID: Final = 4
# Verdicts that are some.
JUDGED: Final = ("yes", "no", "too small")


class Difference(NamedTuple):
    """A metric of two cells that the headline sets against each other, with their difference (the second minus the first)."""

    pair: Pair
    row: Row


def differences(study: Study, found: Sequence[CellResult]) -> list[Difference]:
    """Return what the headline's metrics differ in between the cells that it compares, all tests together at 5 % (Holm)."""
    chosen = study.headline_kind
    named = [name for name in chosen.named_metrics() if name in study.metrics]
    pairs = chosen.pairs(study.measured_by, about(chosen, found))
    both = [(pair, metric) for pair in pairs for metric in named]
    rows = judged([row_of(metric, pair.below, pair.above) for pair, metric in both], study)
    return [Difference(pair, row) for (pair, _), row in zip(both, rows, strict=True)]


def told(study: Study, found: Sequence[Difference]) -> str:
    """Return the differences as a sentence behind the headline: each, or how many of each metric are more than noise."""
    known = [one for one in found if one.row.comparison is not None]
    if not known:
        return ""
    if len(known) <= MOST_SAID:
        return f"Differences: {'; '.join(f'{_place(one)} {_said(study, one.row)}' for one in known)}."
    if all(one.row.verdict not in JUDGED for one in known):
        return "No verdict on any difference: too few repetitions."
    counts = []
    for metric in dict.fromkeys(one.row.metric for one in known):
        own = [one.row for one in known if one.row.metric == metric and one.row.verdict in JUDGED]
        sure = [row for row in own if row.more_than_noise]
        counts.append(f"{len(sure)} of {len(own)} in {metric}")
    return f"Differences that are more than noise: {', '.join(counts)}."


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
                _n(one.row),
                one.row.verdict,
            ]
        )
    note = (
        "The second minus the first [95 % interval]. By: what both have and is compared with itself, as repetitions of one seed"
        " have the same messages over the same seconds of the trace: each message (of a mean its mean difference, of a median the"
        " median of the differences), each vehicle, or each repetition. n: units on either side."
        " More than noise: significant, with all tests of this table together at 5 % (Holm), and at least"
        f" {RELEVANT * 100:g} % of the first figure (of shares of messages any); below {MIN_REPETITIONS} repetitions there is no"
        " verdict."
    )
    return f"## Differences\n\n{table(head, rows)}\n\n{note}"


def _place(one: Difference) -> str:
    return f"{one.pair.step} ({one.pair.beside})" if one.pair.beside else one.pair.step


def _said(study: Study, row: Row) -> str:
    return f"{row.metric} {_difference(study, row)}, n = {_n(row)}"


def _difference(study: Study, row: Row) -> str:
    compared = row.comparison
    if compared is None:
        return DASH
    unit = scaled(row.first, study.metric(row.metric).unit)[1]
    scale = 100.0 if unit == "%" else 1.0
    figure, low, high = (value * scale for value in (compared.difference, compared.low, compared.high))
    sign = "-" if figure < 0 else "+"
    return f"{sign}{short(abs(figure))} [{short(low)}, {short(high)}] {unit}".strip()


def _n(row: Row) -> str:
    """Return how many units either side has, with what they are."""
    if row.by == REPETITION != row.first.unit and row.comparison is not None:
        return f"{row.comparison.repetitions:,} ({REPETITION})"
    sides = [side.units if side.unit else side.n for side in (row.first, row.second)]
    numbers = f"{sides[0]:,}" if sides[0] == sides[1] else " and ".join(f"{side:,}" for side in sides)
    kinds = sorted({side.unit for side in (row.first, row.second)} - {""})
    return f"{numbers} ({', '.join(kinds)})" if kinds else numbers
