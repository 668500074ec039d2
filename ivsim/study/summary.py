"""Every metric of every cell with its 95 % interval, from messages where they are kept, else from repetitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ivsim.study.evidence import Measured
from ivsim.study.figures_of_cells import STUDY_METRICS
from ivsim.study.model import Cell
from ivsim.study.statistics import Interval, mean_interval, quantile_interval, ratio_interval
from ivsim.study.store import DONE, FAILED, Kept
from twin.metrics import LATENCIES, QUANTILES

Floats = npt.NDArray[np.float64]
DASH: Final = "\N{EN DASH}"


@dataclass
class CellResult:
    """One cell and what became of its repetitions."""

    cell: Cell
    kept: list[Kept] = field(default_factory=list)

    @property
    def done(self) -> list[Kept]:
        return [one for one in self.kept if one.state == DONE]

    @property
    def reasons(self) -> list[str]:
        """Return why repetitions failed."""
        return [one.reason or "unknown" for one in self.kept if one.state == FAILED]

    @cached_property
    def measured(self) -> Measured | None:
        """Return the messages of an echo cell; None for a run with gateway and twin."""
        return Measured(self.cell, self.done) if self.cell.options.topology == "echo" else None

    @cached_property
    def _ledger(self) -> dict[str, npt.NDArray[Any]]:
        columns = ["in_window", "fate", *(column for column, _, _ in LATENCIES.values())]
        tables = [pq.read_table(one.directory / "ledger.parquet", columns=columns) for one in self.done]
        frames = [table.to_pandas() for table in tables]
        return {name: np.concatenate([np.asarray(frame[name]) for frame in frames]) for name in columns}

    def values(self, metric: str) -> Floats:
        """Return the figure of each repetition that has it."""
        found = [one.figures.get(metric) for one in self.done]
        return np.array([float(value) for value in found if isinstance(value, int | float)])

    def interval(self, metric: str) -> Interval:
        """Return a metric with its interval: over messages if it has them, else over the repetitions."""
        if not self.done:
            return Interval(None, None, None, 0)
        found = self._echo(metric) if self.measured is not None else self._ledgered(metric)
        return found or mean_interval(self.values(metric))

    def _echo(self, metric: str) -> Interval | None:
        messages = self.measured
        assert messages is not None
        ways: dict[str, Callable[[], Interval]] = {
            "latency_mean_ms": messages.latency,
            "latency_p50_ms": lambda: quantile_interval(messages.received_ms, 0.5),
            "latency_p99_ms": lambda: quantile_interval(messages.received_ms, 0.99),
            "unsuccessful_ratio": messages.unsuccessful,
            "crossing_overhead_bytes": messages.overhead,
            "message_overhead_bytes": lambda: mean_interval(messages.overhead_bytes * 2),
        }
        return ways[metric]() if metric in ways else None

    def _ledgered(self, metric: str) -> Interval | None:
        if not all((one.directory / "ledger.parquet").is_file() for one in self.done):
            return None
        if metric == "delivery_ratio":
            inside = self._ledger["in_window"].astype(bool)
            return ratio_interval(int((self._ledger["fate"][inside] == "delivered").sum()), int(inside.sum()))
        for name, (column, _, _) in LATENCIES.items():
            for quantile, share in QUANTILES.items():
                # The largest of a sample has no bootstrap interval worth the name.
                if metric == f"{name}_{quantile}_ms" and quantile != "max":
                    values = self._ledger[column][self._ledger["in_window"].astype(bool)].astype(np.float64)
                    return quantile_interval(values[np.isfinite(values)] / 1e6, share)
        return None


def results_of(kept: Sequence[Kept]) -> list[CellResult]:
    """Return one entry per cell, in the study's order."""
    found: dict[str, CellResult] = {}
    for one in kept:
        found.setdefault(one.task.cell.name, CellResult(one.task.cell)).kept.append(one)
    return list(found.values())


def scaled(metric: str, interval: Interval) -> tuple[Interval, str]:
    """Return an interval in the unit a table shows it in (ratios in per cent), and that unit."""
    unit = STUDY_METRICS[metric].unit
    if unit != "ratio":
        return interval, "" if unit == "1" else unit
    e, low, high = (None if v is None else v * 100 for v in interval[:3])
    return Interval(e, low, high, interval.n), "%"


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
