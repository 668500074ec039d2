"""Figures with their intervals as tables and sentences show them."""

from __future__ import annotations

from typing import Final

from ivsim.study.statistics import Interval

DASH: Final = "\N{EN DASH}"


def scaled(interval: Interval, unit: str) -> tuple[Interval, str]:
    """Return an interval in the unit a table shows it in (ratios in per cent), and that unit."""
    if unit != "ratio":
        return interval, "" if unit == "1" else unit
    e, low, high = (None if v is None else v * 100 for v in interval[:3])
    return interval._replace(estimate=e, low=low, high=high), "%"


def scale_of(largest: float, unit: str) -> tuple[float, str]:
    """Return by what a sentence multiplies differences up to `largest`, and the unit that they have then."""
    if unit == "ratio":
        return 100.0, "percentage points"
    for factor, larger in ((1e9, "GB"), (1e6, "MB")):
        if unit == "B" and abs(largest) >= factor:
            return 1 / factor, larger
    return 1.0, "" if unit == "1" else unit


def written(interval: Interval) -> str:
    """Return an interval as a table shows it: estimate and bounds; a dash where it is not defined."""
    if interval.estimate is None:
        return DASH
    if interval.low is None or interval.high is None:
        return short(interval.estimate)
    return f"{short(interval.estimate)} [{short(interval.low)}, {short(interval.high)}]"


def short(value: float) -> str:
    """Return a number with about three digits."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
