"""Which charts a study's report shows; ivsim.study.charts draws them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

from ivsim.report.drawing import Charts
from ivsim.report.style import GREY, SERIES_LOOKS
from ivsim.study import charts
from ivsim.study.engines.base import Engine
from ivsim.study.headline import about
from ivsim.study.model import Study
from ivsim.study.results import CellResult, done_of
from ivsim.study.statistics import Interval
from ivsim.study.summary import scaled

MOST: Final = 4
MEGA: Final = 1e6

Groups = dict[str, dict[str, Interval]]


def selected_charts(study: Study, found: Sequence[CellResult]) -> Charts:
    """Return bars of the first metrics over the axes that are no series, and the engine's own charts.

    The bars are those of the sweep that the headline is about, where it names one.
    """
    done, engine = done_of(about(study.headline_kind, found)), study.measured_by
    drawn: Charts = {}
    if not done:
        return drawn
    looks = _looks(engine, done)
    for metric in study.metrics[:MOST]:
        groups = known_groups(grouped(engine, done, metric))
        if groups:
            unit = scaled(Interval(None, None, None, 0), study.metric(metric).unit)[1]
            name = metric.removesuffix(f"_{unit}").replace("_", " ")
            groups, unit = _readable(groups, unit)
            label = name + (f", {unit}" if unit else "")

            def draw(axes: Any, groups: Groups = groups, label: str = label) -> None:
                charts.bars(axes, groups, label, looks.__getitem__, _grouping(engine, done))
                charts.legend(axes)

            drawn[f"{metric}.svg"] = (charts.drawn(draw), f"{label}, with 95 % intervals where there are any")
    return drawn | engine.charts(found)


def _looks(engine: Engine, done: Sequence[CellResult]) -> dict[str, dict[str, Any]]:
    """Return series -> how it looks; those without a look of their own get one each."""
    looks = {
        name: engine.series_style(name) for name in dict.fromkeys(engine.series(one.cell) for one in done)
    }
    plain = [name for name, style in looks.items() if style["color"] == GREY]
    for name, look in zip(plain, cycle(SERIES_LOOKS), strict=False):
        looks[name] = looks[name] | look
    return looks


def known_groups(groups: Groups) -> Groups:
    """Return the groups in which some figure is known: what is not measured in a sweep has no place in its chart."""
    return {
        name: by_series
        for name, by_series in groups.items()
        if any(interval.estimate is not None for interval in by_series.values())
    }


def _readable(groups: Groups, unit: str) -> tuple[Groups, str]:
    """Return bytes as megabytes (1,000,000 bytes) where the largest is one or more."""
    estimates = (abs(i.estimate or 0.0) for by_series in groups.values() for i in by_series.values())
    if unit != "B" or max(estimates) < MEGA:
        return groups, unit
    return {
        name: {series: _in_millions(interval) for series, interval in by_series.items()}
        for name, by_series in groups.items()
    }, "MB"


def _in_millions(interval: Interval) -> Interval:
    estimate, low, high = (None if value is None else value / MEGA for value in interval[:3])
    return interval._replace(estimate=estimate, low=low, high=high)


def _grouping(engine: Engine, done: Sequence[CellResult]) -> str:
    """Return what the names of the groups are values of."""
    several = len({result.cell.sweep for result in done}) > 1
    axes = dict.fromkeys(axis for one in done for axis in one.cell.values if axis != engine.series_axis)
    return ", ".join((["sweep"] if several else []) + [axis.replace("_", " ") for axis in axes])


def grouped(engine: Engine, done: Sequence[CellResult], metric: str) -> Groups:
    """Return group (the values of the axes that are no series) -> series -> interval."""
    unit = engine.metrics[metric].unit
    several = len({result.cell.sweep for result in done}) > 1
    groups: Groups = {}
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
