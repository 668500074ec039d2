"""The page of a comparison of two results of studies: it opens offline; each figure with n, effect, interval and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from ivsim.report.html import rendered
from ivsim.study import charts
from ivsim.study.compare import Compared, Measured
from ivsim.study.pairs import Row
from ivsim.study.results import CellResult
from ivsim.study.statistics import Comparison, Interval
from ivsim.study.summary import DASH, scaled, short

# Single measurements are drawn of so many figures; those that differ by more than noise come first.
MOST_DISTRIBUTIONS: Final = 12
SAME_SEED: Final = "seed "
_HEAD: Final = (
    "cell", "figure", "unit", "first", "n", "second", "n", "effect", "effect / first", "more than noise",
)  # fmt: skip


class Cell(NamedTuple):
    """A cell of the table of figures, and its interval below, "" for none."""

    text: str
    interval: str = ""


def comparison_page(first: Measured, second: Measured, compared: Compared) -> str:
    """Return the page as HTML without a link to anything outside it."""
    names = [f"{side[0].head['name']} ({side[0].path})" for side in (first, second)]
    titles = ("first", "second")
    units = {name: first[0].study.metric(name).unit for name in first[0].study.metrics}
    shown, several = _distributions(first, second, compared.rows)
    return rendered(
        "compare_study.html",
        title="ivsim study compare",
        # What is the same in both weakens nothing.
        cautions=[note for note in compared.notes if not note.startswith(SAME_SEED)],
        notes=[note for note in compared.notes if note.startswith(SAME_SEED)],
        sides_head=["", *titles],
        sides=[["results", *names], *_sides(first, second)],
        intervals=[_intervals(compared.rows, metric, unit) for metric, unit in units.items() if _known(compared.rows, metric)],
        distributions=shown,
        left_out=several - len(shown),
        head=_HEAD,
        rows=[_cells(row, units[row.metric]) for row in compared.rows],
    )  # fmt: skip


def _sides(first: Measured, second: Measured) -> Iterator[list[str]]:
    for what, words in (
        ("title", lambda store: store.study.title),
        ("seed", lambda store: str(store.study.seed)),
        ("repetitions", lambda store: str(store.study.repetitions) + (", quick" if store.quick else "")),
    ):
        yield [what, *(words(side[0]) for side in (first, second))]


def _known(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows of a metric that either side has a figure of."""
    return [
        row
        for row in rows
        if row.metric == metric and (row.first.estimate is not None or row.second.estimate is not None)
    ]


def _intervals(rows: Sequence[Row], metric: str, unit: str) -> tuple[str, Markup]:
    """Return the figure of a metric with a line a cell, and its caption."""
    known = _known(rows, metric)
    shown = scaled(known[0].first, unit)[1]
    label = metric.removesuffix(f"_{shown}").replace("_", " ") + (f", {shown}" if shown else "")
    cells = {row.cell: (scaled(row.first, unit)[0], scaled(row.second, unit)[0]) for row in known}
    drawing = charts.drawn(
        lambda axes: charts.side_by_side(axes, cells, ("first", "second"), label),
        (charts.SIZE[0], 1.2 + 0.3 * len(cells)),
    )
    # matplotlib has escaped what it writes.
    return f"{label}, with 95 % intervals where there are any", Markup(drawing.svg())  # noqa: S704


def _distributions(
    first: Measured, second: Measured, rows: Sequence[Row]
) -> tuple[list[tuple[str, Markup]], int]:
    """Return the distributions to be shown, each with its caption, and of how many figures there are any."""
    one, two = ({result.cell.name: result for result in side[1]} for side in (first, second))
    there = [row for row in rows if _samples(one[row.cell], two[row.cell], row.metric) is not None]
    chosen = sorted(there, key=lambda row: not row.more_than_noise)[:MOST_DISTRIBUTIONS]
    found = []
    for row in chosen:
        samples = _samples(one[row.cell], two[row.cell], row.metric)
        assert samples is not None
        unit = first[0].study.metric(row.metric).unit
        sides = {
            f"{side}, n = {values.size:,}": values
            for side, values in zip(("first", "second"), samples, strict=True)
        }
        label = f"{_of_one(row.metric, unit)}{f', {unit}' if unit != '1' else ''}"
        drawing = charts.drawn(lambda axes, sides=sides, label=label: charts.overlaid(axes, sides, label))  # type: ignore[misc]
        found.append((f"{row.cell}: {label}", Markup(drawing.svg())))  # noqa: S704 - as above
    return found, len(there)


def _samples(one: CellResult, two: CellResult, metric: str) -> tuple[Any, Any] | None:
    """Return the single measurements of both; None unless both have some."""
    if not one.done or not two.done:
        return None
    found = [side.observations.sample(metric) for side in (one, two)]
    return None if any(values is None or not values.size for values in found) else (found[0], found[1])


def _of_one(metric: str, unit: str) -> str:
    """Return what a single measurement behind a mean is called."""
    return metric.removesuffix(f"_{unit}").removesuffix("_mean").replace("_", " ")


def _cells(row: Row, unit: str) -> list[Cell]:
    first, shown = scaled(row.first, unit)
    second = scaled(row.second, unit)[0]
    scale = 100.0 if shown == "%" else 1.0

    def side(found: Interval) -> list[Cell]:
        return [
            Cell(_figure(found.estimate), _bounds(found, _figure)),
            Cell(f"{found.n:,}" if found.n else DASH),
        ]

    effect = None if first.estimate is None or second.estimate is None else second.estimate - first.estimate
    compared = row.comparison
    if compared is not None:
        effect = compared.difference * scale
        compared = compared._replace(low=compared.low * scale, high=compared.high * scale)
    share = (
        DASH
        if effect is None or not first.estimate or shown == "%"
        else f"{effect / abs(first.estimate):+.1%}"
    )
    return [
        Cell(row.cell), Cell(row.metric), Cell(shown), *side(first), *side(second),
        Cell(_signed(effect), _bounds(compared, _signed)), Cell(share.replace("%", " %")), Cell(row.verdict),
    ]  # fmt: skip


def _bounds(found: Interval | Comparison | None, written: Any) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{written(found.low)} to {written(found.high)}"


def _figure(value: float | None) -> str:
    return DASH if value is None else f"{value:.3g}" if abs(value) < 1 else short(value)


def _signed(value: float | None) -> str:
    return f"+{_figure(value)}" if value is not None and value > 0 else _figure(value)
