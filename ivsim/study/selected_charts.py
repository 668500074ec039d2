"""Which charts a study's report shows; ivsim.study.charts draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ivsim.report.drawing import Charts
from ivsim.study import charts
from ivsim.study.engines.base import Engine
from ivsim.study.model import Study
from ivsim.study.results import CellResult, done_of
from ivsim.study.statistics import Interval
from ivsim.study.summary import scaled

MOST: Final = 4


def selected_charts(study: Study, found: Sequence[CellResult]) -> Charts:
    """Return bars of the first metrics over the axes that are no series, and the engine's own charts."""
    done, engine = done_of(found), study.measured_by
    drawn: Charts = {}
    if not done:
        return drawn
    for metric in study.metrics[:MOST]:
        groups = grouped(engine, done, metric)
        if any(i.estimate is not None for by in groups.values() for i in by.values()):
            unit = scaled(Interval(None, None, None, 0), study.metric(metric).unit)[1]
            label = metric.removesuffix(f"_{unit}").replace("_", " ") + (f", {unit}" if unit else "")

            def draw(axes: Any, groups: Any = groups, label: str = label) -> None:
                charts.bars(axes, groups, label, engine.series_style)
                charts.legend(axes)

            drawn[f"{metric}.svg"] = (charts.drawn(draw), f"{label}, with 95 % intervals where there are any")
    return drawn | engine.charts(found)


def grouped(engine: Engine, done: Sequence[CellResult], metric: str) -> dict[str, dict[str, Interval]]:
    """Return group (the values of the axes that are no series) -> series -> interval."""
    unit = engine.metrics[metric].unit
    several = len({result.cell.sweep for result in done}) > 1
    groups: dict[str, dict[str, Interval]] = {}
    for result in done:
        cell = result.cell
        parts = [cell.sweep] if several else []
        parts += [_shown(axis, v) for axis, v in cell.values.items() if axis != engine.series_axis]
        group = groups.setdefault(", ".join(parts) or "all", {})
        group[engine.series(cell)] = scaled(result.interval(metric), unit)[0]
    return groups


def _shown(axis: str, value: Any) -> str:
    if isinstance(value, bool):
        return axis.replace("_", " ") if value else f"no {axis.replace('_', ' ')}"
    return str(value)
