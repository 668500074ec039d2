"""Cells of a study set against each other: along an axis, all other axes alike; and how a report names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ivsim.study.engines.base import Engine
from ivsim.study.results import CellResult


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


def label(engine: Engine, axis: str, value: Any) -> str:
    """Return a value of an axis as sentences and legends show it."""
    return str(engine.series_style(str(value))["label"] if axis == engine.series_axis else value)


def cell_label(result: CellResult) -> str:
    """Return a cell by its values."""
    return ", ".join(str(value) for value in result.cell.values.values())


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
        step = f"{label(engine, axis, low)} to {label(engine, axis, high)}"
        for beside in dict.fromkeys(key for key, _ in at):
            sweep, values = beside
            words = ", ".join(filter(None, (sweep, *(label(engine, name, value) for name, value in values))))
            below, above = at.get((beside, low)), at.get((beside, high))
            if below is not None and above is not None:
                found.append(Pair(step, words, below, above))
    return found


def others(result: CellResult, axis: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return what of a cell is not that axis: its sweep, and the values of the other axes."""
    values = tuple((name, str(value)) for name, value in result.cell.values.items() if name != axis)
    return (result.cell.sweep, values)
