"""The charts of studies, known from papers; they hold no number of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from ivsim.report.drawing import Drawing
from ivsim.report.style import BLUE, mode_style
from ivsim.study.statistics import Interval

MOST_POINTS = 300


def drawn(
    draw: Callable[[Any], None],
    size: tuple[float, float] = (7.2, 3.6),
    columns: int = 1,
    *,
    share: bool = True,
) -> Drawing:
    """Return a chart of a study; `draw` gets the axes, or their row."""
    return Drawing(draw, size, columns, share=share, text=True)


def _errors(intervals: Sequence[Interval]) -> list[list[float]]:
    below = [0.0 if i.low is None or i.estimate is None else i.estimate - i.low for i in intervals]
    above = [0.0 if i.high is None or i.estimate is None else i.high - i.estimate for i in intervals]
    return [below, above]


def curves(
    axes: Axes, series: Mapping[str, Sequence[tuple[float, Interval]]], x: str, y: str, *, log_y: bool = True
) -> None:
    """Draw one line per mode with 95 % error bars, a little apart so that bars do not hide each other."""
    for index, (mode, points) in enumerate(series.items()):
        known = [(at, interval) for at, interval in points if interval.estimate is not None]
        if not known:
            continue
        axes.errorbar(
            [at for at, _ in known],
            [interval.estimate or 0.0 for _, interval in known],
            yerr=_errors([interval for _, interval in known]),
            markersize=5,
            linewidth=1.1,
            elinewidth=0.9,
            capsize=2,
            zorder=3 + index,
            **mode_style(mode),
        )
    axes.set(xlabel=x, ylabel=y)
    if log_y:
        axes.set_yscale("log", nonpositive="clip")
        least = min((i.low or i.estimate or 1.0 for by in series.values() for _, i in by), default=1.0)
        means = [i.estimate for by in series.values() for _, i in by if i.estimate]
        # An interval that reaches below zero would stretch a log axis without end.
        axes.set_ylim(bottom=max(least, min(means, default=1.0) / 3) * 0.9)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")


def bars(
    axes: Axes,
    groups: Mapping[str, Mapping[str, Interval]],
    y: str,
    style_of: Callable[[str], dict[str, Any]] = mode_style,
) -> None:
    """Draw grouped bars: one group per key of `groups`, one bar per series, with 95 % error bars."""
    names = list(dict.fromkeys(name for by_series in groups.values() for name in by_series))
    width = 0.8 / max(1, len(names))
    for k, name in enumerate(names):
        style = style_of(name)
        intervals = [by.get(name, Interval(None, None, None, 0)) for by in groups.values()]
        axes.bar(
            [g - 0.4 + (k + 0.5) * width for g in range(len(groups))],
            [i.estimate or 0.0 for i in intervals],
            width * 0.92,
            yerr=_errors(intervals),
            color=style["color"],
            hatch={"--": "//", ":": ".."}.get(style["linestyle"], ""),
            edgecolor="white",
            error_kw={"elinewidth": 0.9, "capsize": 2},
            label=style["label"],
        )
    axes.set(ylabel=y, xticks=range(len(groups)), xticklabels=list(groups))
    if len(groups) > 5:
        axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    axes.grid(axis="x", visible=False)


def ecdf(axes: Axes, samples: Mapping[str, tuple[npt.NDArray[np.float64], int]], x: str) -> None:
    """Draw each mode's distribution over all messages due: what never came keeps it below 1.

    Args:
        axes: where to draw.
        samples: mode -> (values of what came, how many were due).
        x: label of the values.
    """
    for mode, (found, due) in samples.items():
        values = np.sort(found)
        if not values.size:
            continue
        share = np.arange(1, values.size + 1) / due
        keep = np.unique(np.linspace(0, values.size - 1, MOST_POINTS).astype(int))
        style = mode_style(mode)
        axes.step(
            values[keep],
            share[keep],
            where="post",
            color=style["color"],
            linestyle=style["linestyle"],
            label=style["label"],
            linewidth=1.2,
        )
    axes.set(xlabel=x, ylabel="share of messages due", xscale="log", ylim=(0, 1.02))


def legend(axes: Axes, columns: int = 1) -> None:
    """Put the legend beside the axes, where it hides nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=columns, fontsize=8)


def steps(axes: Axes, label: str, seconds: Any, values: Any) -> None:
    """Draw a quantity that holds for a second each over time."""
    axes.step(seconds, values, where="post", color=BLUE, linewidth=0.7)
    axes.set(xlabel="s", ylabel=label)
