"""Which figures a study's report shows; charts draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ivsim.options import load_traces
from ivsim.report.style import mode_style
from ivsim.study import charts
from ivsim.study.ages import mean_age
from ivsim.study.model import mode_of
from ivsim.study.statistics import Interval
from ivsim.study.store import Store
from ivsim.study.summary import CellResult, scaled

Pictures = dict[str, tuple[str, str]]


def of(store: Store, found: Sequence[CellResult]) -> Pictures:
    """Return file name -> (SVG, caption): bars of every metric over the axis that is not the mode."""
    pictures: Pictures = {}
    done = [result for result in found if result.done]
    if not done:
        return pictures
    for metric in store.study.metrics[:4]:
        groups = grouped(done, metric)
        if any(i.estimate is not None for by in groups.values() for i in by.values()):
            unit = scaled(metric, Interval(None, None, None, 0))[1]
            label = metric.removesuffix(f"_{unit}").replace("_", " ") + (f", {unit}" if unit else "")

            def draw(axes: Any, groups: Any = groups, label: str = label) -> None:
                charts.bars(axes, groups, label)
                charts.legend(axes)

            pictures[f"{metric}.svg"] = (
                charts.drawn(draw),
                f"{label}, with 95 % intervals where there are any",
            )
    ecdfs = {mode_of(r.cell): r.measured for r in done if r.measured is not None}
    if len(ecdfs) > 1 and len(done) <= len(ecdfs):
        pictures["ecdf.svg"] = (charts.drawn(lambda axes: _ecdf(axes, ecdfs)), "Latency of every message due")
    return pictures | _ages(done) | roads(done)


def _ages(done: Sequence[CellResult]) -> Pictures:
    """Return the age of information over time where a run had an outage."""
    out = [result for result in done if result.cell.options.outage and result.measured is None]
    if not out:
        return {}

    def draw(axes: Any) -> None:
        for result in out:
            seconds, ages = mean_age(result.done[0].directory)
            style = mode_style(mode_of(result.cell))
            axes.plot(seconds, ages, color=style["color"], linestyle=style["linestyle"], label=style["label"])
        for start, length in out[0].cell.options.outage:
            axes.axvspan(start, start + length, color="#999999", alpha=0.2, label="no link")
        axes.set(xlabel="s after the start", ylabel="age of information, s", ylim=(0, None))
        charts.legend(axes)

    return {"age.svg": (charts.drawn(draw), "Age of information, mean over the vehicles")}


def grouped(done: Sequence[CellResult], metric: str) -> dict[str, dict[str, Interval]]:
    """Return group (the other axes' values) -> mode, or series -> interval."""
    groups: dict[str, dict[str, Interval]] = {}
    for result in done:
        others = {axis: value for axis, value in result.cell.values.items() if axis != "mode"}
        name = ", ".join(_word(axis, value) for axis, value in others.items()) or "all"
        groups.setdefault(name, {})[mode_of(result.cell)] = scaled(metric, result.interval(metric))[0]
    return groups


def _word(axis: str, value: Any) -> str:
    if isinstance(value, bool):
        return axis.replace("_", " ") if value else f"no {axis.replace('_', ' ')}"
    return str(value)


def _ecdf(axes: Any, cells: Any) -> None:
    charts.ecdf(axes, cells, "latency, ms")
    charts.legend(axes)


def roads(done: Sequence[CellResult]) -> Pictures:
    """Return the trace of every road that was driven, the rate over time, one panel each."""
    names = dict.fromkeys(result.cell.options.trace for result in done)
    series = {}
    for name in names:
        trace = load_traces(next(r.cell.options for r in done if r.cell.options.trace == name))[0]
        seconds = np.arange(min(600, int(trace.duration_s)))
        steps = [trace.step_at(int(s)) for s in seconds]
        if "uplink_kbps" in trace.columns():
            series[f"{name}: uplink, kbit/s"] = (seconds, [step.uplink_kbps for step in steps])
        if "rtt_ms" in trace.columns() and len(names) == 1:
            series[f"{name}: RTT, ms"] = (seconds, [step.rtt_ms for step in steps])
    if not series:
        return {}

    def draw(axes: Any) -> None:
        for ax, (name, (seconds, values)) in zip(np.atleast_1d(axes), series.items(), strict=True):
            charts.trace([ax], {name: (seconds, values)})

    svg = charts.drawn(draw, (3.4 * len(series) + 0.6, 2.4), len(series), share=False)
    return {"road.svg": (svg, "The road: what the trace asks of the link, its first ten minutes")}
