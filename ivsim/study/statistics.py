"""The statistics of a study's tables: each function states its method and source; none knows a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
RESAMPLES = 2_000


class Interval(NamedTuple):
    """An estimate and its two-sided 95 % interval; None where too few values define it."""

    estimate: float | None
    low: float | None
    high: float | None
    n: int


def mean_interval(values: Sequence[float] | Floats) -> Interval:
    """Return the mean with Student's t interval (Student 1908), as the protocol paper gives its latencies."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Interval(None, None, None, 0)
    mean = float(data.mean())
    if data.size == 1:
        return Interval(mean, None, None, 1)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, data.size - 1) * data.std(ddof=1) / math.sqrt(data.size))
    return Interval(mean, mean - half, mean + half, data.size)


def ratio_interval(successes: int, n: int) -> Interval:
    """Return a share with the exact binomial interval (Clopper and Pearson 1934)."""
    if n == 0:
        return Interval(None, None, None, 0)
    alpha = 1 - CONFIDENCE
    low = 0.0 if successes == 0 else float(stats.beta.ppf(alpha / 2, successes, n - successes + 1))
    high = 1.0 if successes == n else float(stats.beta.ppf(1 - alpha / 2, successes + 1, n - successes))
    return Interval(successes / n, low, high, n)


def nearest_rank(values: Sequence[float] | Floats, share: float) -> float | None:
    """Return the smallest value with at least `share` of all at or below it; None without values."""
    data = np.sort(np.asarray(values, dtype=np.float64))
    if data.size == 0:
        return None
    return float(data[max(0, math.ceil(share * data.size) - 1)])


def bootstrap_interval(
    values: Sequence[float] | Floats, statistic: Callable[[Floats], float], seed: int = 1
) -> Interval:
    """Return a statistic with its percentile bootstrap interval (Efron 1979, 2,000 resamples, seeded)."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Interval(None, None, None, 0)
    estimate = statistic(data)
    if data.size == 1:
        return Interval(estimate, None, None, 1)
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = np.array([statistic(data[rng.integers(0, data.size, data.size)]) for _ in range(RESAMPLES)])
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(estimate, float(low), float(high), data.size)


def quantile_interval(values: Sequence[float] | Floats, share: float, seed: int = 1) -> Interval:
    """Return a nearest-rank quantile with its bootstrap interval."""

    def statistic(data: Floats) -> float:
        index = max(0, math.ceil(share * data.size) - 1)
        return float(np.partition(data, index)[index])

    return bootstrap_interval(values, statistic, seed)


def _constant(data: Floats) -> bool:
    """Return whether values differ by no more than their rounding: no test has a meaning then."""
    return float(np.ptp(data)) <= 1e-9 * float(np.abs(data).max(initial=1.0))


class Comparison(NamedTuple):
    """The difference of two means with its 95 % interval and the p-value of `no difference`."""

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def more_than_noise(self) -> bool:
        return self.p_value < 1 - CONFIDENCE


def compare_means(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Comparison | None:
    """Return second minus first by Welch's test (Welch 1947); None when either has fewer than two values."""
    a, b = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if a.size < 2 or b.size < 2:
        return None
    difference = float(b.mean() - a.mean())
    if _constant(a) and _constant(b):
        return Comparison(difference, difference, difference, 1.0 if difference == 0 else 0.0)
    # By hand: scipy's own warns of cancellation where one side is constant, as the bytes of a cell may be.
    parts = [float(x.var(ddof=1)) / x.size for x in (a, b)]
    error = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(v**2 / (x.size - 1) for v, x in zip(parts, (a, b), strict=True))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    p_value = 2 * float(stats.t.sf(abs(difference) / error, freedom))
    return Comparison(difference, difference - half, difference + half, p_value)


def compare_pairs(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Comparison | None:
    """Return the mean of second minus first by Student's paired test; None for fewer than two pairs."""
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    interval = mean_interval(differences)
    if interval.estimate is None or interval.low is None or interval.high is None:
        return None
    if _constant(differences):
        return Comparison(
            interval.estimate, interval.estimate, interval.estimate, float(interval.estimate == 0)
        )
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    p_value = 2 * float(stats.t.sf(abs(interval.estimate) / error, differences.size - 1))
    return Comparison(interval.estimate, interval.low, interval.high, p_value)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return which of several hypotheses are rejected together at 5 % (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > (1 - CONFIDENCE) / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def ratio_of_means_interval(
    above: Sequence[float] | Floats, below: Sequence[float] | Floats, seed: int = 1
) -> Interval:
    """Return mean(above) / mean(below) with its percentile bootstrap interval, both sides resampled."""
    a, b = (np.asarray(values, dtype=np.float64) for values in (above, below))
    if a.size < 2 or b.size < 2 or b.mean() == 0:
        return Interval(None, None, None, 0)
    rng = np.random.Generator(np.random.PCG64(seed))

    def means(data: Floats) -> Floats:
        return np.array([data[rng.integers(0, data.size, data.size)].mean() for _ in range(RESAMPLES)])

    low, high = np.quantile(means(a) / means(b), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(a.mean() / b.mean()), float(low), float(high), min(a.size, b.size))
