"""The codec engine's own charts and sections of a report: sizes and times by variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import pstdev
from typing import Any, Final

import numpy as np

from ivsim.report.drawing import Charts, Drawing
from ivsim.study import charts
from ivsim.study.engines.codec.observations import CodecObservations
from ivsim.study.markdown import table
from ivsim.study.results import CellResult, done_of
from ivsim.study.summary import written

CURRENT_STATUS: Final = "current_status"
_QUANTILES: Final = (0.05, 0.5, 0.95)


def measured(results: Sequence[CellResult]) -> list[CodecObservations]:
    """Return the observations of the cells of CurrentStatus that are done."""
    found = [result.observations for result in done_of(results)]
    return [o for o in found if isinstance(o, CodecObservations) and o.cell.options.record == CURRENT_STATUS]


def charts_of(results: Sequence[CellResult]) -> Charts:
    """Return the histograms of the sizes of CurrentStatus."""
    found = {o.cell.options.format: np.concatenate(list(o.sizes.values())) for o in measured(results)}
    if not found:
        return {}
    caption = "Payload sizes of CurrentStatus: two peaks and a few small outliers, the mean as a line"
    return {"sizes.svg": (size_histograms(found), caption)}


def size_histograms(
    found: Mapping[str, Any], marks: Mapping[str, tuple[str, float]] | None = None
) -> Drawing:
    """Draw one histogram per format; `marks` are further lines: format -> (label, bytes)."""

    def draw(axes: Any) -> None:
        for axis, (name, lengths) in zip(np.atleast_1d(axes), found.items(), strict=True):
            axis.hist(lengths, bins=60, color="#3b6ea5")
            axis.axvline(float(np.mean(lengths)), color="black", linewidth=1, label="mean")
            if marks is not None and name in marks:
                label, value = marks[name]
                axis.axvline(value, color="#c0392b", linewidth=1, linestyle="--", label=label)
            axis.set_title(f"{name}\nn = {len(lengths):,}", fontsize=9)
            axis.set_xlabel("payload, B")
            axis.locator_params(axis="x", nbins=3)
            axis.yaxis.set_major_formatter("{x:,.10g}")
            axis.xaxis.set_major_formatter("{x:,.10g}")
            axis.legend(fontsize=7)
        np.atleast_1d(axes)[0].set_ylabel("messages")

    return charts.drawn(draw, (1.9 * len(found), 2.4), len(found), share=False)


def sections(results: Sequence[CellResult]) -> list[str]:
    """Return sizes and times by variant of the vehicle."""
    found = measured(results)
    if not found:
        return []
    sizes, times = [], []
    for o in found:
        name = o.cell.options.format
        for variant, lengths in o.sizes.items():
            quantiles = (f"{q:,.0f}" for q in np.quantile(lengths, _QUANTILES))
            spread = [
                f"{lengths.mean():,.0f}",
                f"{pstdev(lengths):,.0f}",
                f"{lengths.min():,.0f}",
                *quantiles,
            ]
            sizes.append([name, variant, f"{lengths.size:,}", *spread, f"{lengths.max():,.0f}"])
        for (variant, operation), values in sorted(o.times.items()):
            row = [
                name,
                variant,
                operation,
                written(o.times_of(variant, operation).mean()),
                f"{np.median(values):.2f}",
            ]
            times.append(row)
    size_head = ["format", "variant", "messages", "mean", "sd", "min", "p5", "p50", "p95", "max"]
    return [
        "## Sizes by variant, bytes\n\n" + table(size_head, sizes),
        "## Times by variant, µs\n\n"
        + table(["format", "variant", "operation", "mean", "median"], times)
        + "\n\nIntervals are over vehicles within repetitions, or batches of measurements in a row where a variant has one"
        " vehicle. The formats take turns in random order within every repetition, so that a slow moment hits all, and with"
        " caches that the others have just used: a loop over one format alone is about twice as fast.",
    ]
