"""The page of a comparison of two runs: it opens offline; each figure with n, effect and interval, each time drawn twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from markupsafe import Markup

from ivsim.labels import words_of
from ivsim.library.compare import Compared, Row
from ivsim.library.results import Results
from ivsim.report import charts
from ivsim.report.html import rendered
from ivsim.report.style import number, spoken_in
from ivsim.study.statistics import Comparison, Interval
from ledger.metrics import LATENCIES

_HEAD = ("figure", "unit", "first", "n", "second", "n", "effect", "effect / first")
_DASH = "\N{EN DASH}"


class Cell(NamedTuple):
    """A cell of the table of figures, and its interval below, "" for none."""

    text: str
    interval: str = ""


def comparison_page(first: Results, second: Results, compared: Compared) -> str:
    """Return the page as HTML without a link to anything outside it."""
    titles = (f"first: {_name(first)}", f"second: {_name(second)}")
    return rendered(
        "compare.html",
        title=f"ivsim compare {_name(first)} {_name(second)}",
        cautions=compared.cautions,
        notes=[note for note in compared.notes if note not in compared.cautions],
        sides_head=["", *titles],
        sides=_sides(first, second),
        figures=[
            (caption, _drawn(first, second, name, titles)) for name, caption in _latencies(first, second)
        ],
        head=_HEAD,
        rows=[_cells(row) for row in compared.rows],
    )


def _name(run: Results) -> str:
    return str(run.manifest["options"].get("name") or Path(run.directory).absolute().name)


def _sides(first: Results, second: Results) -> list[list[str]]:
    """Return what each run is, row by row."""
    words: dict[str, Callable[[Results], Any]] = {
        "run": lambda run: run.manifest["run"],
        "directory": lambda run: run.directory,
        "name, tags": lambda run: words_of(run.manifest["options"]) or _DASH,
        "vehicles": lambda run: (
            f"{run.manifest['options']['vehicles']:,}, {spoken_in(run.manifest['options'])}"
        ),
        "seed": lambda run: run.manifest["seed"],
        "validity": lambda run: (run.metrics.get("validity") or {}).get("verdict", "unknown"),
    }
    return [[name, *(str(word(run)) for run in (first, second))] for name, word in words.items()]


def _latencies(first: Results, second: Results) -> list[tuple[str, str]]:
    """Return the times that one of the two has, each with its caption."""
    return [
        (
            name,
            f"{name.replace('_', ' ').capitalize()}: {meaning}. Population: {population}, due in the window",
        )
        for name, (column, population, meaning) in LATENCIES.items()
        if any(_times_ms(run, column).size for run in (first, second))
    ]


def _drawn(first: Results, second: Results, name: str, titles: tuple[str, str]) -> Markup:
    column = LATENCIES[name][0]
    sides = [
        (f"{title}, n {number(values.size)}", values)
        for title, run in zip(titles, (first, second), strict=True)
        for values in [_times_ms(run, column)]
    ]
    # matplotlib has escaped what it writes.
    return Markup(charts.distributions(name.replace("_", " "), sides).svg())  # noqa: S704


def _times_ms(run: Results, column: str) -> npt.NDArray[np.float64]:
    """Return the times that the run's quantiles are of, in ms; of a ledger without them none."""
    path = run.directory / "ledger.parquet"
    if not path.is_file() or not {column, "in_window"} <= set(pq.read_schema(path).names):
        return np.empty(0)
    rows = pq.read_table(path, columns=[column, "in_window"])
    return np.asarray(rows[column].filter(rows["in_window"]).drop_null(), np.float64) / 1e6


def _cells(row: Row) -> list[Cell]:
    unit = row.metric.unit

    def side(found: Interval) -> list[Cell]:
        # A figure without an interval is one number of one run.
        n = None if found.low is None else found.n
        return [Cell(_figure(found.estimate, unit), _bounds(found, _figure, unit)), Cell(number(n))]

    effect = Cell(_signed(row.difference, unit), _bounds(row.comparison, _signed, unit))
    named = Cell(row.metric.name), Cell("" if unit == "1" else unit)
    return [*named, *side(row.first), *side(row.second), effect, Cell(_relative(row))]


def _bounds(
    found: Interval | Comparison | None, written: Callable[[float | None, str], str], unit: str
) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{written(found.low, unit)} to {written(found.high, unit)}"


def _figure(value: float | None, unit: str) -> str:
    if value is not None and unit != "ratio" and float(value).is_integer():
        return number(int(value))
    return number(value, "ratio" if unit == "ratio" else "")


def _signed(value: float | None, unit: str) -> str:
    return f"+{_figure(value, unit)}" if value is not None and value > 0 else _figure(value, unit)


def _relative(row: Row) -> str:
    """Return the effect as a share of the first figure; of a share, and of 0, there is none."""
    first: Any = row.first.estimate
    if row.difference is None or not first or row.metric.unit == "ratio":
        return _DASH
    return f"{row.difference / abs(first):+.1%}".replace("%", " %") if row.difference else "0 %"
