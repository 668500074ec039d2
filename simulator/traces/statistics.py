"""Figures of a trace as the reference tables give them; describes, judges nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.traces.model import Floats, Trace

LAGS_S = (1, 2, 5, 10)
_REFERENCE_FILE = Path(__file__).parent / "reference.json"


@dataclass(frozen=True)
class Outages:
    """Runs at or below a threshold (kbit/s): share of time in [0, 1], count, lengths in s (None: no run)."""

    threshold_kbps: float
    share: float
    count: int
    per_hour: float
    mean_s: float | None
    median_s: float | None
    p95_s: float | None
    max_s: float | None


@dataclass(frozen=True)
class ColumnStatistics:
    """One column on 1-s steps; `acf` at `LAGS_S`, None where the column is constant or too short."""

    column: str
    hours: float
    mean: float
    quantiles: dict[str, float]
    zero_share: float
    acf: tuple[float | None, ...]


def per_second(trace: Trace, column: str) -> Floats:
    """The column in force at each whole second, shape (ceil of the duration,)."""
    values = trace.columns()[column]
    seconds = np.arange(max(1, int(np.ceil(trace.duration_s))), dtype=np.float64)
    return values[np.searchsorted(trace.time_s, seconds, side="right") - 1]


def describe(trace: Trace, column: str) -> ColumnStatistics:
    """Statistics of one column; times in the log's seconds, quantiles by linear interpolation."""
    values = per_second(trace, column)
    levels = (0.05, 0.5, 0.95, 0.99, 0.999)
    named = dict(
        zip(("p5", "median", "p95", "p99", "p999"), np.quantile(values, levels).tolist(), strict=True)
    )
    # A heavy tail would make the correlation that of its few largest values.
    series = np.log(values) if column == "rtt_ms" and values.min() > 0 else values
    return ColumnStatistics(
        column,
        hours=trace.duration_s / 3600,
        mean=float(values.mean()),
        quantiles={"min": float(values.min()), **named, "max": float(values.max())},
        zero_share=float(np.mean(values == 0)),
        acf=tuple(autocorrelation(series, lag) for lag in LAGS_S),
    )


def autocorrelation(values: Floats, lag: int) -> float | None:
    """Correlation of the series with itself `lag` steps later; None when it is constant or too short."""
    centred = values - values.mean()
    energy = float(centred @ centred)
    if lag >= len(values) or energy <= 1e-12 * max(1.0, float(values @ values)):
        return None
    return float(centred[lag:] @ centred[:-lag]) / energy


def runs(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Lengths of the runs of True, shape (number of runs,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    lengths: npt.NDArray[np.int64] = edges[1::2] - edges[::2]
    return lengths


def outages(trace: Trace, column: str, threshold_kbps: float) -> Outages:
    """Runs of seconds at or below the threshold."""
    low = per_second(trace, column) <= threshold_kbps
    lengths = runs(low)
    some = len(lengths) > 0
    return Outages(
        threshold_kbps,
        share=float(low.mean()),
        count=len(lengths),
        per_hour=len(lengths) / (len(low) / 3600),
        mean_s=float(lengths.mean()) if some else None,
        median_s=float(np.median(lengths)) if some else None,
        p95_s=float(np.quantile(lengths, 0.95)) if some else None,
        max_s=float(lengths.max()) if some else None,
    )


def reference(profile: str) -> dict[str, Any] | None:
    """What the real drives behind a profile showed (same units as above), None for a profile without data."""
    table: dict[str, dict[str, Any]] = json.loads(_REFERENCE_FILE.read_text(encoding="utf-8"))
    return table.get(profile)
