"""Backlog, recovery and age of information of one run, from its ledger; pure but for reading it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ivsim.runs.directory import RunDirectory
from ivsim.study.sealed import read_table
from ledger.metrics import Metric
from schemas.errors import Refusal
from schemas.json_files import read_json

Integers = npt.NDArray[np.int64]

_RUN: Final = "the run"
AGE_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("recovery_s", "s", _RUN, "end of the outage to the last message due in it at its end"),
        Metric("backlog_messages", "1", _RUN, "most messages due and not yet at their end, per vehicle"),
        Metric("age_mean_s", "s", _RUN, "time average of the age of information, mean over vehicles"),
        Metric("age_peak_s", "s", _RUN, "largest age of information, mean over vehicles"),
    )
}

OF_OUTAGES: Final = frozenset({"recovery_s"})


def age_figures(directory: Path, outage: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """Return age_mean_s, age_peak_s, backlog_messages and, with an outage, recovery_s; {} without ledger."""
    per_vehicle = _per_vehicle(directory)
    if not per_vehicle:
        return {}
    found: dict[str, Any] = {}
    every = [age_of_information(d[a > 0], a[a > 0]) for d, a in per_vehicle]
    ages = [age for age in every if age is not None]
    if ages:
        found["age_mean_s"] = float(np.mean([mean for mean, _ in ages]))
        found["age_peak_s"] = float(np.mean([peak for _, peak in ages]))
    found["backlog_messages"] = max((backlog(d, a) for d, a in per_vehicle), default=None)
    if outage:
        due, applied = (np.concatenate(column) for column in zip(*per_vehicle, strict=True))
        found["recovery_s"] = recovery(due, applied, _start_ns(directory), outage[0])
    return found


def mean_age(directory: Path, step_s: float = 0.5) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return times since the start in s and, at each, the mean age of information over the vehicles in s."""
    per_vehicle, start_ns = _per_vehicle(directory), _start_ns(directory)
    end_ns = max((int(applied.max(initial=0)) for _, applied in per_vehicle), default=start_ns)
    times = np.arange(start_ns, end_ns, round(step_s * 1e9))
    ages = np.array([_ages_at(times, due[applied > 0], applied[applied > 0]) for due, applied in per_vehicle])
    known = np.isfinite(ages).all(axis=0) if ages.size else np.zeros(times.size, bool)
    return (times[known] - start_ns) / 1e9, ages[:, known].mean(axis=0) if ages.size else np.empty(0)


def _ages_at(times: Integers, due: Integers, applied: Integers) -> npt.NDArray[np.float64]:
    order = np.argsort(applied, kind="stable")
    newest = np.maximum.accumulate(due[order])
    index = np.searchsorted(applied[order], times, side="right") - 1
    if not newest.size:
        return np.full(times.size, np.nan)
    return np.where(index >= 0, (times - newest[np.maximum(index, 0)]) / 1e9, np.nan)


def _start_ns(directory: Path) -> int:
    path = RunDirectory(directory).manifest
    found = read_json(path).get("start_at_ns")
    if not isinstance(found, int):
        raise Refusal(f"{path}: start_at_ns {found!r}: not as this ivsim wrote it")
    return found


def _per_vehicle(directory: Path) -> list[tuple[Integers, Integers]]:
    """Return due and applied stamps (0: never) of each vehicle; none without a ledger."""
    path = RunDirectory(directory).ledger
    if not path.is_file():
        return []
    table = read_table(path, ["vehicle_id", "due_at_ns", "applied_at_ns"])
    if not table.num_rows:
        return []
    vehicles = np.asarray(table.column("vehicle_id").combine_chunks().dictionary_encode().indices)
    order = np.argsort(vehicles, kind="stable")
    ends = np.cumsum(np.bincount(vehicles))[:-1]
    due = np.asarray(table.column("due_at_ns")).astype(np.int64)[order]
    applied = np.asarray(table.column("applied_at_ns").fill_null(0)).astype(np.int64)[order]
    return list(zip(np.split(due, ends), np.split(applied, ends), strict=True))


def age_of_information(due: Integers, applied: Integers) -> tuple[float, float] | None:
    """Return time average and peak of one vehicle's age of information, in s, from its first update on.

    Kaul, Yates and Gruteser, "Real-Time Status: How Often Should One Update?" (INFOCOM 2012), section II.
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
