"""Made-up studies whose truth is known: how often do the intervals of ivsim.study.clusters hold it?

A world draws what a study of a design would measure, many times over: messages of a vehicle depend on each other (a level
of its own, and from one to the next), losses come in bursts, repetitions may differ beyond their vehicles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from ivsim.study.catalogue import studies, study_named
from ivsim.study.clusters import Variance, batches, bounds, difference_error, share_bounds, variance_of
from ivsim.study.model import cells_of
from ivsim.study.statistics import CONFIDENCE, holm

Floats = npt.NDArray[np.float64]
LAG_1: Final = 0.5
DESIGN_EFFECT: Final = 10.0


class Design(NamedTuple):
    """How large a cell of a study is."""

    study: str
    repetitions: int
    vehicles: int
    messages: int


@cache
def designs() -> list[Design]:
    """Return the different cells of all bundled studies; of `codec`, vehicles that are timed.

    Of `codec_cpp` each vehicle has a single measurement, of `pipe` and `clients` each repetition: none depends on another.
    """
    found: dict[tuple[int, int, int], Design] = {}
    for name, path in studies().items():
        study, _ = study_named(str(path))
        for cell in cells_of(study, name):
            o = cell.options
            if study.engine in {"codec_cpp", "pipe", "clients"}:
                continue
            if study.engine == "codec":
                # Three kinds of vehicles but for stubs; a record of the thesis is one "vehicle".
                several = o.record == "current_status"
                size = (3 * o.vehicles_per_variant if several else 1, o.timed_repetitions)
            else:
                size = (o.vehicles, max(2, int((o.duration_s - o.warmup_s) / o.interval_s)))
            repetitions = study.all_sweeps()[cell.sweep].repetitions or study.repetitions
            found.setdefault((repetitions, *size), Design(name, repetitions, *size))
    return list(found.values())


def level_share(messages: int) -> float:
    """Return the share of the variance between vehicles that gives DESIGN_EFFECT, or as much as so few messages can."""
    lags = np.arange(1, messages)
    own = 2 * float(((1 - lags / messages) * LAG_1**lags).sum())
    wanted = (DESIGN_EFFECT - 1 - own) / max(messages - 1 - own, 1e-9)
    return min(0.9, max(0.0, wanted))


def latencies(
    design: Design, trials: int, rng: np.random.Generator, *, skew: float, apart: float
) -> Iterator[Floats]:
    """Yield, message by message, the latencies of all vehicles, (trials, repetitions, vehicles).

    Args:
        design: how many of each.
        trials: studies that are made up.
        rng: draws them.
        skew: 0 for normal ones; else the standard deviation of the logarithm.
        apart: variance between repetitions, in that of a repetition's mean by its vehicles.
    """
    shape = (trials, design.repetitions, design.vehicles)
    share = level_share(design.messages) if design.vehicles > 1 else 0.0
    level = math.sqrt(share) * rng.standard_normal(shape)
    moving = rng.standard_normal(shape)
    unit = math.sqrt((share + (1 - share) * 3 / design.messages) / design.vehicles)
    shift = rng.standard_normal((*shape[:2], 1)) * unit * math.sqrt(apart) * (skew or 1.0)
    for k in range(design.messages):
        if k:
            moving = LAG_1 * moving + math.sqrt(1 - LAG_1**2) * rng.standard_normal(shape)
        x = level + math.sqrt(1 - share) * moving
        yield (np.exp(skew * x) if skew else x) + shift


def true_mean(skew: float) -> float:
    return math.exp(skew**2 / 2) if skew else 0.0


def losses(
    design: Design, trials: int, rng: np.random.Generator, *, ratio: float, burst: float, spread: float = 0.5
) -> Iterator[Floats]:
    """Yield, message by message, 1 for a lost one: a Gilbert-Elliott chain for each vehicle, whose ratios differ.

    Args:
        design: how many of each.
        trials: studies that are made up.
        rng: draws them.
        ratio: mean loss ratio.
        burst: mean length of a burst, in messages.
        spread: standard deviation of the logarithm of a vehicle's ratio (its stretch of the trace).
    """
    shape = (trials, design.repetitions, design.vehicles)
    own = np.minimum(ratio * np.exp(spread * rng.standard_normal(shape) - spread**2 / 2), 0.9)
    leave = 1 / burst
    enter = np.minimum(1.0, leave * own / (1 - own))
    bad = rng.random(shape) < enter / (enter + leave)
    for _ in range(design.messages):
        yield bad.astype(np.float64)
        draw = rng.random(shape)
        bad = np.where(bad, draw > leave, draw < enter)


def true_ratio(ratio: float, spread: float = 0.5) -> float:
    """Return the mean of the vehicles' loss ratios as `losses` draws them."""
    grid = special.ndtri((np.arange(200_000) + 0.5) / 200_000)
    return float(np.minimum(ratio * np.exp(spread * grid - spread**2 / 2), 0.9).mean())


def shares_of(sums: Floats, messages: int) -> tuple[Floats, Floats]:
    """Return the means and the units' linearised shares in their errors."""
    total = messages * sums.shape[-1] * sums.shape[-2]
    means = sums.sum((-2, -1)) / total
    return means, (sums - means[..., None, None] * messages) / total


def _error(z: Floats) -> Variance:
    return variance_of(z, np.ones(z.shape, np.bool_))


def _held(low: Any, high: Any, truth: float) -> float:
    return float(np.mean((np.asarray(low) <= truth) & (truth <= np.asarray(high))))


def coverage_of_means(
    design: Design, trials: int, rng: np.random.Generator, *, skew: float = 0.0, apart: float = 0.0
) -> tuple[float, float]:
    """Return how often intervals hold the true mean: ours, and Student's over messages as they used to be."""
    sums = squares = np.zeros(())
    least = np.full((), np.inf)
    series = []
    for values in latencies(design, trials, rng, skew=skew, apart=apart):
        sums, squares, least = sums + values, squares + values**2, np.minimum(least, values)
        if design.vehicles == 1:
            series.append(values)
    n = design.messages * design.vehicles * design.repetitions
    means, z = shares_of(sums, design.messages)
    error = _batched(np.array(series), design) if design.vehicles == 1 else _error(z)
    low, high = bounds(means, error, least.min((-2, -1)) > 0)
    half = special.stdtrit(n - 1, 0.975) * np.sqrt((squares.sum((-2, -1)) / n - means**2) / (n - 1))
    truth = true_mean(skew)
    return _held(low, high, truth), _held(means - half, means + half, truth)


def _batched(series: Floats, design: Design) -> Variance:
    """Return the variance of means by batches along time, of (messages, trials, repetitions, 1)."""
    repetition = np.repeat(np.arange(design.repetitions), design.messages)
    template = batches(np.zeros(repetition.size), repetition, design.repetitions)
    flat = series[..., 0].transpose(1, 2, 0).reshape(series.shape[1], -1)
    index = template.repetition * template.units + template.unit
    counts = np.bincount(index, minlength=template.repetitions * template.units)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    sums = np.add.reduceat(flat, starts, axis=1)
    means = flat.mean(1)
    z = (sums - means[:, None] * counts) / flat.shape[1]
    return _error(z.reshape(-1, template.repetitions, template.units))


def coverage_of_shares(
    design: Design, trials: int, rng: np.random.Generator, *, ratio: float, burst: float, spread: float = 0.5
) -> tuple[float, float]:
    """Return how often intervals hold the true loss ratio: ours, and Clopper-Pearson's over messages."""
    sums = sum(losses(design, trials, rng, ratio=ratio, burst=burst, spread=spread), np.zeros(()))
    units = design.vehicles * design.repetitions
    n = design.messages * units
    means, z = shares_of(sums, design.messages)
    low, high, _ = share_bounds(means, _error(z), n, units)
    hits = np.round(means * n)
    exact_low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), n - hits + 1, 0.025), 0.0)
    exact_high = np.where(hits < n, special.betaincinv(hits + 1, np.maximum(n - hits, 1), 0.975), 1.0)
    truth = true_ratio(ratio, spread)
    return _held(low, high, truth), _held(exact_low, exact_high, truth)


class Differences(NamedTuple):
    """How often two studies alike but for their seed were said to differ: of tables, and of their rows."""

    tables: float
    rows: float


def false_differences(
    design: Design, tables: int, rows: int, rng: np.random.Generator, *, skew: float = 0.6, apart: float = 0.0
) -> Differences:
    """Return how often Holm's tests of a table of `rows` cells find any difference, where there is none."""
    p_values = _p_values(design, tables * rows, rng, skew=skew, apart=apart)
    found = np.array([holm(list(table)) for table in p_values.reshape(tables, rows)])
    return Differences(float(found.any(1).mean()), float(found.mean()))


def differences_found(
    design: Design, trials: int, rng: np.random.Generator, *, difference: float, skew: float = 0.6
) -> float:
    """Return how often two studies that differ by so much, each cell of it tested by itself, are said to differ."""
    p_values = _p_values(design, trials, rng, skew=skew, difference=difference)
    return float((p_values <= 1 - CONFIDENCE).mean())


def _p_values(
    design: Design,
    trials: int,
    rng: np.random.Generator,
    *,
    skew: float,
    apart: float = 0.0,
    difference: float = 0.0,
) -> Any:
    """Return the p-value of `no difference` of each of many pairs of studies that differ in their seed, and by `difference`."""
    sides = []
    for _ in range(2):
        sums = sum(latencies(design, trials, rng, skew=skew, apart=apart), np.zeros(()))
        sides.append(shares_of(sums, design.messages))
    (a, za), (b, zb) = sides
    error = difference_error(_error(za), _error(zb))
    return 2 * special.stdtr(error.freedom, -np.abs(b + difference - a) / np.sqrt(error.variance))
