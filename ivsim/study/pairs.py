"""Cells of a study set against each other: along an axis, all other axes alike; and how a report names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from ivsim.study.clusters import REPETITION
from ivsim.study.engines.base import Engine
from ivsim.study.results import CellResult
from ivsim.study.statistics import Comparison, Interval

# By what two cells are compared that have nothing in common.
APART: Final = "apart"
Verdict = Literal[
    "yes", "no", "too small", "too few repetitions", "cannot tell", "invalid", "degraded", "not measured"
]
# Verdicts that are some.
JUDGED: Final = ("yes", "no", "too small")
# Of cells without a valid repetition: no further block of a cell that goes on like that makes a verdict of them.
WITHOUT_FIGURES: Final = ("degraded", "invalid", "not measured")


class Row(NamedTuple):
    """One metric of one cell in both results.

    Attributes:
        by: what was set against itself, message, vehicle or repetition; APART where the two have nothing in common.
        verdict: whether the second differs by more than noise: `yes` needs significance and relevance; `too small` is
            significant and not relevant. `too few repetitions`, `cannot tell` (no interval), `invalid` and
            `degraded` (of a run that says so itself) and `not measured` are no verdicts.
    """

    cell: str
    metric: str
    first: Interval
    second: Interval
    comparison: Comparison | None
    verdict: Verdict
    by: str = APART

    @property
    def more_than_noise(self) -> bool:
        return self.verdict == "yes"

    @property
    def sure(self) -> bool:
        """Return whether there is a difference, however small."""
        return self.verdict in ("yes", "too small")


class Pair(NamedTuple):
    """Two cells that a headline sets against each other.

    Attributes:
        step: what is different, from and to, as the report names it.
        beside: the sweep and the values of the other axes, "" where there are none.
        below, above: the cells.
    """

    step: str
    beside: str
    below: CellResult
    above: CellResult


class Difference(NamedTuple):
    """A metric of two cells that a headline sets against each other, with their difference (the second minus the first)."""

    pair: Pair
    row: Row


def label(engine: Engine, axis: str, value: Any) -> str:
    """Return a value of an axis as sentences and legends show it."""
    return str(engine.series_style(str(value))["label"] if axis == engine.series_axis else value)


def named(engine: Engine, axis: str, value: str) -> str:
    """Return a value of an axis as it is understood by itself: a number, or true or false, behind the axis."""
    shown = label(engine, axis, value)
    return shown if shown[:1].isalpha() and value not in ("True", "False") else f"{axis} {shown}"


def cell_label(engine: Engine, result: CellResult) -> str:
    """Return a cell by its values."""
    return ", ".join(named(engine, axis, str(value)) for axis, value in result.cell.values.items())


def by_axis(done: Sequence[CellResult], axis: str) -> dict[str, list[CellResult]]:
    """Return the cells of each value of an axis, in the order of the results."""
    found: dict[str, list[CellResult]] = {}
    for result in done:
        found.setdefault(str(result.cell.values.get(axis)), []).append(result)
    return found


def along(
    engine: Engine, done: Sequence[CellResult], axis: str, levels: Sequence[tuple[str, str]]
) -> list[Pair]:
    """Return the cells of these pairs of levels of an axis that are alike in all others."""
    at = {(others(one, axis), str(one.cell.values.get(axis))): one for one in done}
    found = []
    for low, high in levels:
        step = f"{named(engine, axis, low)} to {label(engine, axis, high)}"
        for beside in dict.fromkeys(key for key, _ in at):
            sweep, values = beside
            words = ", ".join(filter(None, (sweep, *(named(engine, name, value) for name, value in values))))
            below, above = at.get((beside, low)), at.get((beside, high))
            if below is not None and above is not None:
                found.append(Pair(step, words, below, above))
    return found


def others(result: CellResult, axis: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return what of a cell is not that axis: its sweep, and the values of the other axes."""
    values = tuple((name, str(value)) for name, value in result.cell.values.items() if name != axis)
    return (result.cell.sweep, values)


def units_of(rows: Sequence[Row]) -> str:
    """Return how many units stand on either side of differences, with what they are: `14 to 15 vehicles`."""
    found: dict[str, list[int]] = {}
    for row in rows:
        paired = row.comparison.repetitions if row.comparison is not None else 0
        for side in (row.first, row.second):
            # One repetition may hold a unit of each kind of message: that makes it no more than one repetition.
            if REPETITION in (row.by, side.unit):
                found.setdefault(REPETITION, []).append(paired or side.repetitions or side.units)
            else:
                number = side.units if side.unit else side.n
                found.setdefault(side.unit or "measurement", []).append(number)
    return " and ".join(
        f"{' to '.join(f'{number:,}' for number in sorted({min(some), max(some)}))} {plural(kind)}"
        for kind, some in found.items()
    )


def plural(noun: str) -> str:
    """Return a noun's plural; of `batch of messages` that of its first word. An axis such as `bytes` is one already."""
    word, gap, rest = noun.partition(" ")
    if word.endswith("s") and not word.endswith("ss"):
        return noun
    if word.endswith("y") and word[-2:-1] not in set("aeiou"):
        return f"{word[:-1]}ies{gap}{rest}"
    return f"{word}{'es' if word.endswith(('ss', 'ch', 'x')) else 's'}{gap}{rest}"
