"""The charts of studies, known from papers; they hold no number of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from ivsim.report.drawing import Drawing
from ivsim.report.style import BLUE, GREY, VERMILION, mode_style
from ivsim.study.statistics import Interval

MOST_POINTS = 300
DECADE = 10.0
# A column of a paper is some 3.5 inches wide: letters of 9 points are then more than 6.
SIZE = (5.0, 3.4)
# What a legend's line above the axes holds of letters per inch of the axes' part of the figure, and what a key takes beside
# its words.
LEGEND_LETTERS_PER_INCH, KEY_LETTERS = 11, 6
# More names of groups, or longer ones, stand aslant.
LEVEL_GROUPS, LEVEL_LETTERS = 5, 60


def drawn(
    draw: Callable[[Any], None],
    size: tuple[float, float] = SIZE,
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


def counted(intervals: Iterable[Interval]) -> str:
    """Return how many stand behind each of these figures, such as "n = 30 to 90 (vehicle)"; "" where nobody says it."""
    known = [i for i in intervals if i.estimate is not None]
    numbers = sorted({i.units if i.unit else i.n for i in known} - {0})
    if not numbers:
        return ""
    span = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
    units = {i.unit for i in known} - {""}
    return f"n = {span}" + (f" ({', '.join(sorted(units))})" if units else "")


def labelled(label: str, count: str) -> str:
    """Return an axis' label with the count behind it."""
    return "; ".join(filter(None, (label, count)))


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
    axes.set(
        xlabel=labelled(x, counted(interval for points in series.values() for _, interval in points)),
        ylabel=y,
    )
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
    x: str = "",
) -> None:
    """Draw grouped bars: one group per key of `groups`, one bar per series, with 95 % error bars.

    Each group has places for its own series alone. An unknown figure is a dash, no bar. One group alone has no name.
    """
    names = list(dict.fromkeys(name for by_series in groups.values() for name in by_series))
    width = 0.8 / max(1, *(len(by_series) for by_series in groups.values()))
    places: dict[str, list[tuple[float, Interval]]] = {name: [] for name in names}
    for g, by_series in enumerate(groups.values()):
        first = g - len(by_series) * width / 2
        for k, name in enumerate(sorted(by_series, key=names.index)):
            places[name].append((first + (k + 0.5) * width, by_series[name]))
    for name, own in places.items():
        _bars_of(axes, [(at, i) for at, i in own if i.estimate is not None], width, style_of(name))
        for at in (at for at, i in own if i.estimate is None):
            axes.text(at, 0.0, "\N{EN DASH}", ha="center", va="bottom", color=GREY)
    count = counted(interval for by_series in groups.values() for interval in by_series.values())
    axes.set(ylabel=y, xlabel=labelled(x, count))
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.set_xticks(range(len(groups)) if len(groups) > 1 else [], list(groups) if len(groups) > 1 else [])
    if len(groups) > LEVEL_GROUPS or sum(map(len, groups)) > LEVEL_LETTERS:
        axes.tick_params(axis="x", labelsize=7)
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    axes.grid(axis="x", visible=False)


def _bars_of(
    axes: Axes, known: Sequence[tuple[float, Interval]], width: float, style: Mapping[str, Any]
) -> None:
    """Draw the bars of one series, at their places."""
    if known:
        axes.bar(
            [at for at, _ in known],
            [interval.estimate or 0.0 for _, interval in known],
            width * 0.92,
            yerr=_errors([interval for _, interval in known]),
            color=style["color"],
            hatch={"--": "//", ":": ".."}.get(style["linestyle"], ""),
            edgecolor="white",
            error_kw={"elinewidth": 0.9, "capsize": 2},
            label=style["label"],
        )


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
    count = counted(Interval(1.0, None, None, due) for _, due in samples.values())
    axes.set(xlabel=labelled(x, count), ylabel="share of messages due", xscale="log", ylim=(0, 1.02))


def side_by_side(
    axes: Axes, cells: Mapping[str, tuple[Interval, Interval]], sides: tuple[str, str], x: str
) -> None:
    """Draw two figures a cell under each other, each with its 95 % interval; an unknown one is not there."""
    for k, (side, colour, marker) in enumerate(zip(sides, (BLUE, VERMILION), ("o", "s"), strict=True)):
        known = [
            (row + 0.3 * k - 0.15, pair[k])
            for row, pair in enumerate(cells.values())
            if pair[k].estimate is not None
        ]
        axes.errorbar(
            [interval.estimate or 0.0 for _, interval in known],
            [at for at, _ in known],
            xerr=_errors([interval for _, interval in known]),
            color=colour, marker=marker, linestyle="", markersize=4, elinewidth=0.9, capsize=2, label=side,
        )  # fmt: skip
    axes.set_yticks(range(len(cells)), list(cells), fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(labelled(x, counted(interval for pair in cells.values() for interval in pair)))
    axes.xaxis.set_major_formatter("{x:,.10g}")
    legend(axes)


def overlaid(axes: Axes, sides: Mapping[str, npt.NDArray[np.float64]], x: str) -> None:
    """Draw the distributions of single measurements over each other, on a log axis where they span more than a decade."""
    for (side, found), colour, line in zip(sides.items(), (BLUE, VERMILION), ("-", "--"), strict=True):
        values = np.sort(found)
        keep = np.unique(np.linspace(0, values.size - 1, MOST_POINTS).astype(int))
        # From 0, so that one value alone is a step, too.
        places, shares = np.append(values[:1], values[keep]), np.append(0.0, (keep + 1) / values.size)
        axes.step(places, shares, where="post", color=colour, linestyle=line, linewidth=1.2, label=side)
    least, most = (pick(float(pick(values)) for values in sides.values()) for pick in (min, max))
    axes.set(xlabel=x, ylabel="share of measurements", ylim=(0, 1.02))
    if least > 0 and most / least > DECADE:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.10g}")
    legend(axes)


def legend(axes: Axes) -> None:
    """Put the legend above the axes, where it hides nothing and takes none of their width."""
    longest = max(map(len, axes.get_legend_handles_labels()[1]), default=0)
    place, width_inches = axes.get_subplotspec(), axes.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    letters = LEGEND_LETTERS_PER_INCH * width_inches / (1 if place is None else place.get_gridspec().ncols)
    columns = max(1, int(letters) // (longest + KEY_LETTERS))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, fontsize=8)


def legend_beside(axes: Axes) -> None:
    """Put the legend of a row of axes beside the last of them."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def steps(axes: Axes, label: str, seconds: Any, values: Any) -> None:
    """Draw a quantity that holds for a second each over time."""
    axes.step(seconds, values, where="post", color=BLUE, linewidth=0.7)
    axes.set(xlabel="time, s", ylabel=label)
    axes.yaxis.set_major_formatter("{x:,.10g}")
