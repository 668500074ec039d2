"""The figures of one run's page, drawn from ledger and link log; they hold no number of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ivsim.report.drawing import MOST_MARKS, Drawing
from ivsim.report.run_tables import Columns
from ivsim.report.style import (
    BLUE,
    FATE_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    STAGE_COLOURS,
    VERMILION,
    latency_words,
)
from ivsim.topologies import USUAL_TOPOLOGY
from ledger.metrics import FATES, HOPS

# Fates of messages that have no latency.
MISSING = ("lost", "refused", "unsent", "unknown")
# Of an ECDF: more than the figure has points to show would only make the page larger.
MAX_STEPS = 1_000

# name -> (later stamp, earlier stamp); one-way delay and the rest as in the glossary.
STAGES = {
    "one_way_delay": ("received_at_ns", "emitted_at_ns"),
    "bridge_delay": ("appended_at_ns", "received_at_ns"),
    "processing_delay": ("applied_at_ns", "appended_at_ns"),
    "end_to_end_latency": ("applied_at_ns", "due_at_ns"),
    "acknowledgement_time": ("acknowledged_at_ns", "emitted_at_ns"),
}
# Curves over a gateway's decisions: name, key of a decision, colour, what it looks like.
CHOICES = (
    ("messages a batch", "messages", BLUE, "steps-post"),
    ("age of a batch, ms", "wait_ms", ORANGE, "steps-post"),
    ("answer, ms", "answer_ms", GREY, "default"),
    ("round trip of TCP, ms", "rtt_ms", GREEN, "default"),
)
# What of a ledger is drawn.
OF_LEDGER = (
    "fate",
    "hop",
    "unsent_reason",
    *dict.fromkeys(name for stamps in STAGES.values() for name in stamps),
)


def _plain_log(axis: Axis) -> None:
    """Label a log axis with plain numbers; where it spans less than two decades, between the decades too."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    low, high = axis.get_view_interval()
    few = low > 0 and high / low < 100
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}") if few else NullFormatter())
    if few:
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))


def stage_ms(ledger: Columns, stage: str) -> npt.NDArray[np.float64]:
    """Return one stage's times in ms of the messages that have both stamps (NaN elsewhere)."""
    later, earlier = STAGES[stage]
    if later not in ledger or earlier not in ledger:
        return np.full(0, np.nan)
    difference = (ledger[later].astype(np.float64) - ledger[earlier].astype(np.float64)) / 1e6
    return np.asarray(difference, dtype=np.float64)


def _legend(axes: Axes, **where: Any) -> None:
    """Explain the colours; a figure in which nothing arrived has none, and matplotlib would warn of it."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**where)


def legend_above(axes: Axes) -> None:
    """Explain the colours above the figure, where they hide nothing."""
    _legend(axes, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0)


def _ecdf(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the corners of an ECDF for a log axis, MAX_STEPS at most; its ends are exact, and it rises from 0."""
    ordered = np.sort(values)
    ranks = np.unique(np.linspace(0, max(ordered.size - 1, 0), MAX_STEPS).astype(int))[: ordered.size]
    ranks = np.concatenate([ranks[:1], ranks])
    share = np.concatenate([ranks[:1], ranks[1:] + 1]) / max(ordered.size, 1)
    return np.maximum(ordered[ranks], 0.01), share


def _marks(axes: Axes, x: npt.NDArray[Any], y: npt.NDArray[Any], mark: str, **style: Any) -> None:
    """Draw a mark for each point; very many as one picture."""
    axes.plot(x, y, mark, rasterized=x.size > MOST_MARKS, **style)


def latency_distribution(ledger: Columns, topology: str = USUAL_TOPOLOGY) -> Drawing:
    """Draw the ECDF of every stage that a run of this topology has, on a log axis."""

    def draw(axes: Axes) -> None:
        for stage, words in latency_words(topology).items():
            values = stage_ms(ledger, stage)
            values = values[np.isfinite(values)]
            if values.size:
                label = f"{words}, n = {values.size:,}"
                axes.step(*_ecdf(values), where="post", label=label, color=STAGE_COLOURS[stage])
        axes.set(xscale="log", xlabel="time of the stage, ms", ylabel="share of messages", ylim=(0, 1.01))
        _plain_log(axes.xaxis)
        _legend(axes, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the curves, which go everywhere

    return Drawing(draw)


def distributions(name: str, sides: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> Drawing:
    """Draw the ECDFs of a time in ms over each other, on a log axis; a side without a value is in the legend alone."""

    def draw(axes: Axes) -> None:
        for (label, values), (colour, line) in zip(sides, ((BLUE, "-"), (VERMILION, "--")), strict=True):
            axes.step(*_ecdf(values), where="post", label=label, color=colour, linestyle=line)
        axes.set(xscale="log", xlabel=f"{name}, ms", ylabel="share of messages", ylim=(0, 1.01))
        _plain_log(axes.xaxis)
        _legend(axes, loc="lower right")

    return Drawing(draw)


def latency_over_time(ledger: Columns, start_at_ns: int, topology: str = USUAL_TOPOLOGY) -> Drawing:
    """Draw every message's one-way delay and end-to-end latency against the time it was due.

    Where a run has neither, as one that ends at its target, the acknowledgement time.
    """

    def draw(axes: Axes) -> None:
        due_s = (ledger["due_at_ns"].astype(np.float64) - start_at_ns) / 1e9
        words = latency_words(topology)
        along_the_way = [name for name in ("end_to_end_latency", "one_way_delay") if name in words]
        for stage in along_the_way or words:
            values = stage_ms(ledger, stage)
            if (known := np.isfinite(values)).any():
                style = {"markersize": 2.5, "alpha": 0.6, "color": STAGE_COLOURS[stage]}
                label = f"{words[stage]}, n = {known.sum():,}"
                _marks(axes, due_s[known], values[known], ".", label=label, **style)
        lost = np.isin(ledger["fate"], MISSING)
        if lost.any():
            # They have no latency: along the lower edge, whatever the scale of the axis is.
            base, along = np.zeros(int(lost.sum())), axes.get_xaxis_transform()
            counts = {fate: int((ledger["fate"] == fate).sum()) for fate in MISSING}
            label = ", ".join(f"{fate}, n = {count:,}" for fate, count in counts.items() if count)
            _marks(axes, due_s[lost], base, "x", color=VERMILION, label=label, clip_on=False, transform=along)
        axes.set(yscale="log", xlabel="due, s after the start", ylabel="latency, ms")
        _plain_log(axes.yaxis)
        legend_above(axes)

    return Drawing(draw)


def fates_by_hop(ledger: Columns) -> Drawing:
    """Draw how many messages met each fate, where each lost one was last seen, and who refused one."""

    def draw(axes: Axes) -> None:
        counts = [(fate, int((ledger["fate"] == fate).sum()), FATE_COLOURS[fate]) for fate in FATES]
        for fate, word in (("lost", "at"), ("refused", "by")):
            for hop in HOPS:
                here = int(((ledger["fate"] == fate) & (ledger["hop"] == hop)).sum())
                if here:
                    counts.append((f"{fate} {word} {hop}", here, FATE_COLOURS[fate]))
        counts.reverse()
        bars = axes.barh([c[0] for c in counts], [c[1] for c in counts], color=[c[2] for c in counts])
        axes.bar_label(bars, fmt="{:,.0f}", padding=3)
        axes.set(xlabel="messages")
        axes.margins(x=0.12)

    return Drawing(draw)


def asked_and_achieved(link: Columns, direction: str, whose: str = "vehicle") -> Drawing:
    """Draw the rate that was asked for and the wire rate that passed, median and range over those who have a link."""

    def draw(axes: Axes) -> None:
        here = (link["direction"] == direction) & (link["second"] >= 0)
        seconds = np.unique(link["second"][here])
        asked = per_second(link, here, seconds, "asked_rate_bps", np.nanmedian)
        low = per_second(link, here, seconds, "asked_rate_bps", np.nanmin)
        high = per_second(link, here, seconds, "asked_rate_bps", np.nanmax)
        passed = per_second(link, here, seconds, "wire_bytes", np.nanmean) * 8
        if np.isfinite(asked).any():
            at, least = _held(seconds, low / 1e3)
            most = _held(seconds, high / 1e3)[1]
            axes.fill_between(at, least, most, step="post", alpha=0.15, color=BLUE, label="asked, range")
            axes.step(*_held(seconds, asked / 1e3), where="post", color=BLUE, label=f"asked, median {whose}")
        label = f"passed, mean per {whose}"
        axes.step(*_held(seconds, passed / 1e3), where="post", color=ORANGE, label=label)
        axes.set(xlabel="s after the start", ylabel=f"{direction}, kbit/s")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.set_ylim(0, max(10.0, axes.get_ylim()[1]))
        legend_above(axes)

    return Drawing(draw)


def _held(
    seconds: npt.NDArray[Any], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return steps of which the last one, too, is a second wide."""
    if not seconds.size:
        return seconds, values
    return np.append(seconds, seconds[-1] + 1), np.append(values, values[-1])


def delay_asked_and_probed(link: Columns, whose: str = "vehicle") -> Drawing:
    """Draw the round-trip time asked for, per second, and what the probes saw."""

    def draw(axes: Axes) -> None:
        here = link["second"] >= 0
        seconds = np.unique(link["second"][here])
        for direction, colour in (("uplink", BLUE), ("downlink", ORANGE)):
            mask = here & (link["direction"] == direction)
            asked = per_second(link, mask, seconds, "asked_delay_ms", np.nanmedian)
            label = f"{direction}, asked (median {whose})"
            axes.step(*_held(seconds, asked), where="post", color=colour, label=label)
        if "probe_delay_ms" in link:
            seen = here & np.isfinite(link["probe_delay_ms"].astype(np.float64))
            style = {"color": VERMILION, "markersize": 3, "label": f"probe, n = {seen.sum():,}"}
            _marks(axes, link["second"][seen], link["probe_delay_ms"][seen], ".", **style)
        axes.set(xlabel="s after the start", ylabel="one-way delay, ms", yscale="log")
        _plain_log(axes.yaxis)
        legend_above(axes)

    return Drawing(draw)


def chosen_over_time(decisions: Sequence[Mapping[str, Any]], start_at_ns: int) -> Drawing:
    """Draw one gateway's setting, and what it knew of its link, against the time of each decision."""

    def draw(axes: Axes) -> None:
        at_s = [(one["decided_at_ns"] - start_at_ns) / 1e9 for one in decisions]
        for label, key, colour, style in CHOICES:
            values = [float("nan") if one[key] is None else one[key] for one in decisions]
            axes.plot(at_s, values, drawstyle=style, marker=".", color=colour, label=label)
        axes.set(xlabel="s after the start", ylabel="messages, ms")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=0)
        legend_above(axes)

    return Drawing(draw)


def per_second(
    link: Columns,
    mask: npt.NDArray[np.bool_],
    seconds: npt.NDArray[Any],
    column: str,
    over: Callable[[Any], Any],
) -> npt.NDArray[np.float64]:
    """Return `over` of a column for each second; NaN where nothing was measured in it."""
    if column not in link or not seconds.size:
        return np.full(seconds.size, np.nan)
    known = mask & np.isfinite(link[column].astype(np.float64))
    at, values = link["second"][known], link[column][known].astype(np.float64)
    order = np.argsort(at, kind="stable")
    begins = np.searchsorted(at[order], seconds, side="left")
    ends = np.searchsorted(at[order], seconds, side="right")
    parts = (values[order[begin:end]] for begin, end in zip(begins, ends, strict=True))
    return np.array([over(part) if part.size else np.nan for part in parts], dtype=np.float64)
