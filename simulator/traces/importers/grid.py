"""From rows at any time to equal steps, under policies somebody stated; no hole is filled in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from simulator.traces.importers.base import Source
from simulator.traces.importers.options import Options
from simulator.traces.model import CEILINGS, FLOORS, RATE_COLUMNS, Floats, Trace, allowed

Lines = npt.NDArray[np.int64]
Columns = dict[str, Floats]


@dataclass
class Rows:
    """Rows of a log: value NaN = missing. `start_s` and `end_s` are the span a value speaks for.

    For a stamp without a span, both are the stamp. `line` is the file's line number, all shapes (n,).
    """

    start_s: Floats
    end_s: Floats
    line: Lines
    values: Columns

    def keep(self, mask: npt.NDArray[np.bool_]) -> Rows:
        values = {name: column[mask] for name, column in self.values.items()}
        return Rows(self.start_s[mask], self.end_s[mask], self.line[mask], values)


@dataclass
class _Grid:
    """Equal steps; NaN where the log says nothing. `line` is 0 there.

    `beyond` is by how many steps a gap is longer than the steps without a value: instants that are n steps apart leave
    n - 1 of them, spans leave all.
    """

    values: Columns
    line: Lines
    notes: list[str]
    beyond: int = 1

    def missing(self) -> npt.NDArray[np.bool_]:
        holes: npt.NDArray[np.bool_] = np.any([np.isnan(v) for v in self.values.values()], axis=0)
        return holes


def from_samples(source: Source, rows: Rows, options: Options, importer: str, **header: str) -> Trace:
    """Stamped values to steps: every value of a step counts the same."""
    step_s = options.step_s or 1.0
    rows, notes = _forward(source, rows, options)
    rows = rows.keep(~np.all([np.isnan(v) for v in rows.values.values()], axis=0))
    if not len(rows.line):
        raise Refusal(f"{source.path}: no row with a value of {', '.join(rows.values)} is left")
    position = np.floor((rows.start_s - rows.start_s[0]) / step_s + 1e-9)
    source.checked_steps(int(rows.line[-1]), position[-1] + 1)
    bins = position.astype(np.int64)
    grid = _gather(source, rows, bins, options.duplicates or "average")
    grid.notes[:0] = notes
    return _finish(source, grid, options, importer, header)


def from_intervals(
    source: Source, rows: Rows, options: Options, importer: str, *, notes: Sequence[str] = (), **header: str
) -> Trace:
    """Values over spans to steps: the mean weighted by time; a step covered by less than half is a hole.

    `notes` are an importer's own words for the policy.
    """
    step_s = options.step_s or 1.0
    rows, told = _forward(source, rows, options)
    origin = rows.start_s[0]
    start_s = np.maximum(rows.start_s - origin, np.concatenate(([0.0], (rows.end_s - origin)[:-1])))
    end_s = np.maximum(rows.end_s - origin, start_s)
    knots = np.stack([start_s, end_s], axis=1).ravel()
    whole_steps = np.floor(end_s[-1] / step_s + 1e-9)
    steps = max(1, source.checked_steps(int(rows.line[-1]), whole_steps))
    edges = np.arange(steps + 1, dtype=np.float64) * step_s
    left_s = end_s[-1] - edges[-1]
    dropped = [f"the last {left_s:.4g} s, less than a step, dropped"] if left_s > 0.01 * step_s else []
    covered = _integral(knots, end_s - start_s, edges)
    hole = covered < step_s / 2
    values = {}
    for name, column in rows.values.items():
        total = _integral(knots, column * (end_s - start_s), edges)
        values[name] = np.where(hole, np.nan, total / np.where(hole, 1.0, covered))
    first = np.minimum(np.searchsorted(end_s, edges[:-1], side="right"), len(end_s) - 1)
    grid = _Grid(
        values,
        np.where(hole, 0, rows.line[first]),
        [*told, *notes, *dropped, "spans weighted by time"],
        beyond=0,
    )
    return _finish(source, grid, options, importer, header)


def _integral(knots: Floats, amounts: Floats, edges: Floats) -> Floats:
    """Amount that falls between neighbouring edges; amounts are spread evenly over knots 2k to 2k+1."""
    growth = np.zeros(len(knots))
    growth[1::2] = amounts
    return np.diff(np.interp(edges, knots, np.cumsum(growth)))


def _forward(source: Source, rows: Rows, options: Options) -> tuple[Rows, list[str]]:
    """Rows whose clock never steps back, under the stated policy."""
    if not len(rows.line):
        raise Refusal(f"{source.path}: no data rows")
    _check_values(source, rows)
    newest = np.maximum.accumulate(rows.end_s)
    back = np.flatnonzero(rows.end_s < newest)
    if not len(back):
        return rows, []
    line, by_s = int(rows.line[back[0]]), newest[back[0]] - rows.end_s[back[0]]
    if options.clock_back != "drop":
        raise source.refusal(
            line, f"the clock steps back by {by_s:g} s (--clock-back drop leaves such rows out)"
        )
    return rows.keep(rows.end_s >= newest), [f"{len(back)} rows behind a clock that stepped back dropped"]


def _check_values(source: Source, rows: Rows) -> None:
    """No value out of its column's range may hide in a mean."""
    for name, column in rows.values.items():
        bad = np.flatnonzero((column < FLOORS[name]) | (column > CEILINGS[name]))
        if len(bad):
            reason = f"{name} is {column[bad[0]]:g}, must be {allowed(name)}"
            raise source.refusal(int(rows.line[bad[0]]), reason)


def _gather(source: Source, rows: Rows, bins: Lines, policy: str) -> _Grid:
    steps = int(bins[-1]) + 1
    repeats = np.flatnonzero(np.diff(bins) == 0)
    if len(repeats) and policy == "refuse":
        raise source.refusal(
            int(rows.line[repeats[0] + 1]), "a second row for one step (--duplicates average)"
        )
    line = np.zeros(steps, dtype=np.int64)
    line[bins[::-1]] = rows.line[::-1]
    values = {name: _per_step(bins, column, steps, policy) for name, column in rows.values.items()}
    notes = [f"{len(repeats)} duplicate rows: {policy}"] if len(repeats) else []
    return _Grid(values, line, notes)


def _per_step(bins: Lines, column: Floats, steps: int, policy: str) -> Floats:
    present = ~np.isnan(column)
    bins, column = bins[present], column[present]
    result = np.full(steps, np.nan)
    if policy == "average":
        count = np.bincount(bins, minlength=steps)
        total = np.bincount(bins, weights=column, minlength=steps)
        result[count > 0] = total[count > 0] / count[count > 0]
    elif policy == "first":
        result[bins[::-1]] = column[::-1]
    else:
        result[bins] = column
    return result


def _finish(source: Source, grid: _Grid, options: Options, importer: str, header: dict[str, str]) -> Trace:
    step_s = options.step_s or 1.0
    _hold_short(grid, step_s, options.hold_s or 2.0)
    _trim(source, grid)
    _close_gaps(source, grid, step_s, options.gaps or "refuse")
    steps = len(grid.line)
    policy = "; ".join(grid.notes) or "every step as logged"
    rounded = {name: np.round(column, 6) for name, column in grid.values.items()}
    return Trace(
        np.round(np.arange(steps) * step_s, 9),
        header=source.header(importer, policy, **header),
        last_step_s=step_s,
        source=str(source.path),
        **rounded,
    )


def _runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The (first, past-the-end) of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _hold_short(grid: _Grid, step_s: float, hold_s: float) -> None:
    held = np.zeros(len(grid.line), dtype=np.bool_)
    for column in grid.values.values():
        for first, end in _runs(np.isnan(column)):
            # Rows `end - first + 1` steps apart leave `end - first` steps without one.
            if first > 0 and end < len(column) and (end - first + 1) * step_s <= hold_s + 1e-9:
                column[first:end] = column[first - 1]
                held[first:end] = True
    if held.any():
        grid.notes.append(f"{int(held.sum())} missing steps held (rows up to {hold_s:g} s apart)")


def _trim(source: Source, grid: _Grid) -> None:
    present = np.flatnonzero(~grid.missing())
    if not len(present):
        raise Refusal(f"{source.path}: no step with a value of every column {', '.join(grid.values)}")
    _slice(grid, slice(int(present[0]), int(present[-1]) + 1))


def _slice(grid: _Grid, part: slice | npt.NDArray[np.bool_]) -> None:
    grid.values = {name: column[part] for name, column in grid.values.items()}
    grid.line = grid.line[part]


def _close_gaps(source: Source, grid: _Grid, step_s: float, policy: str) -> None:
    missing = grid.missing()
    gaps = _runs(missing)
    if not gaps:
        return
    if policy == "refuse":
        first, end = gaps[0]
        longest = max(b - a + grid.beyond for a, b in gaps) * step_s
        raise source.refusal(
            int(grid.line[end]),
            f"no data for {(end - first + grid.beyond) * step_s:g} s before this line"
            f" ({len(gaps)} gaps, longest {longest:g} s): choose --gaps hold, zero, cut or longest",
        )
    grid.notes.append(f"{len(gaps)} gaps, {int(missing.sum())} steps in all: {policy}")
    if policy == "cut":
        _slice(grid, ~missing)
    elif policy == "longest":
        _slice(grid, slice(*max(_runs(~missing), key=lambda run: run[1] - run[0])))
    else:
        for name, column in grid.values.items():
            _fill(column, zero=policy == "zero" and name in RATE_COLUMNS)


def _fill(column: Floats, *, zero: bool) -> None:
    for first, end in _runs(np.isnan(column)):
        column[first:end] = 0.0 if zero else column[first - 1]
