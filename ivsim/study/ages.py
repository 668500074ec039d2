"""Backlog, recovery and age of information of one run, from its ledger; pure but for reading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ivsim.run_directory import RunDirectory

Integers = npt.NDArray[np.int64]


def age_figures(directory: Path, outage: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """Return age_mean_s, age_peak_s, backlog_messages and, with an outage, recovery_s; {} without ledger."""
    path = RunDirectory(directory).ledger
    if not path.is_file():
        return {}
    table = pq.read_table(path, columns=["vehicle_id", "due_at_ns", "emitted_at_ns", "applied_at_ns"])
    names = np.asarray(table.column("vehicle_id").to_pylist())
    due = np.asarray(table.column("due_at_ns")).astype(np.int64)
    applied = np.asarray(table.column("applied_at_ns").fill_null(0)).astype(np.int64)
    found: dict[str, Any] = {}
    per_vehicle = [(due[names == name], applied[names == name]) for name in np.unique(names)]
    every = [age_of_information(d[a > 0], a[a > 0]) for d, a in per_vehicle]
    ages = [age for age in every if age is not None]
    if ages:
        found["age_mean_s"] = float(np.mean([mean for mean, _ in ages]))
        found["age_peak_s"] = float(np.mean([peak for _, peak in ages]))
    found["backlog_messages"] = max((backlog(d, a) for d, a in per_vehicle), default=None)
    if outage and due.size:
        start_ns = int(json.loads(RunDirectory(directory).manifest.read_text())["start_at_ns"])
        found["recovery_s"] = recovery(due, applied, start_ns, outage[0])
    return found


def age_of_information(due: Integers, applied: Integers) -> tuple[float, float] | None:
    """Return time average and peak of one vehicle's age of information, in s, from its first update on.

    The age at time t is t minus the due time of the freshest reading applied by then; it grows with slope 1
    and falls where a fresher reading is applied, so its integral is a sum of trapezoids.
    """
    if due.size < 2:
        return None
    order = np.argsort(applied, kind="stable")
    at, newest = applied[order] / 1e9, np.maximum.accumulate(due[order]) / 1e9
    start, end = at[:-1] - newest[:-1], at[1:] - newest[:-1]
    length = at[1:] - at[:-1]
    if length.sum() == 0:
        return None
    return float(((start + end) / 2 * length).sum() / length.sum()), float(end.max())


def backlog(due: Integers, applied: Integers) -> int:
    """Return the most messages of a vehicle due and not yet applied at one moment; lost ones left out."""
    due, applied = due[applied > 0], applied[applied > 0]
    times = np.concatenate([due, applied])
    steps = np.concatenate([np.ones(due.size, np.int64), -np.ones(applied.size, np.int64)])
    order = np.lexsort((steps, times))
    return int(np.cumsum(steps[order]).max(initial=0))


def recovery(due: Integers, applied: Integers, start_ns: int, outage: tuple[float, float]) -> float | None:
    """Return how long after the outage the last message due in it was applied, in s; None: all were lost."""
    begin_ns, end_ns = (start_ns + round(s * 1e9) for s in (outage[0], outage[0] + outage[1]))
    inside = (due >= begin_ns) & (due < end_ns) & (applied > 0)
    return float((applied[inside].max() - end_ns) / 1e9) if inside.any() else None
