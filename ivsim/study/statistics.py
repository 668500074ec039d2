"""Intervals and tests of values that are independent: each states its method and source; none knows a study.

Messages of vehicles are not independent: those are `ivsim.study.clusters`' to judge. Here are pings, figures of
repetitions, and whatever decides several tests together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from schemas.quantiles import rank_index

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """An estimate and its two-sided 95 % interval; None where too few values define it.

    Attributes:
        n: single measurements behind it.
        unit: what was taken for independent, such as "vehicle"; "" for the measurements themselves.
        units: how many of them, over all repetitions.
        repetitions: of the cell; 0 where the figure is of none.
        effective: as many independent measurements would be as certain; None where that is not defined.
        freedom: degrees of freedom behind the bounds.
        error: standard error of a mean; None for what has none of its own, such as a share or a quantile.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    unit: str = ""
    units: int = 0
    repetitions: int = 0
    effective: float | None = None
    freedom: float | None = None
    error: float | None = None

    @property
    def design_effect(self) -> float | None:
        """Return by how much dependence makes the variance greater than that of independent measurements."""
        return None if not self.effective else self.n / self.effective


def mean_interval(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of independent values with Student's t interval (Student 1908), of 95 % unless asked."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Interval(None, None, None, 0)
    mean = float(data.mean())
    if data.size == 1:
        return Interval(mean, None, None, 1)
    half = float(
        special.stdtrit(data.size - 1, 0.5 + confidence / 2) * data.std(ddof=1) / math.sqrt(data.size)
    )
    return Interval(mean, mean - half, mean + half, data.size)


def narrowed(interval: Interval, confidence: float = 0.9) -> tuple[float, float]:
    """Return the bounds of less confidence of an interval with bounds, each side by the ratio of Student's t.

    On the logarithm's scale where the interval is above 0. Without degrees of freedom those of the normal, which narrow least.
    """
    estimate, low, high = interval.estimate, interval.low, interval.high
    assert estimate is not None
    assert low is not None
    assert high is not None
    freedom = interval.freedom or math.inf
    asked, had = (float(special.stdtrit(freedom, 0.5 + one / 2)) for one in (confidence, CONFIDENCE))
    share = asked / had
    if low > 0:
        return estimate * (low / estimate) ** share, estimate * (high / estimate) ** share
    return estimate - (estimate - low) * share, estimate + (high - estimate) * share


def ratio_interval(successes: int, n: int) -> Interval:
    """Return the share of independent trials with the exact binomial interval (Clopper and Pearson 1934)."""
    if n == 0:
        return Interval(None, None, None, 0)
    alpha = 1 - CONFIDENCE
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, alpha / 2))
    high = 1.0 if successes == n else float(special.betaincinv(successes + 1, n - successes, 1 - alpha / 2))
    return Interval(successes / n, low, high, n)


def nearest_rank(values: Sequence[float] | Floats, share: float) -> float | None:
    """Return the smallest value with at least `share` of all at or below it; None without values."""
    data = np.sort(np.asarray(values, dtype=np.float64))
    return float(data[rank_index(data.size, share)]) if data.size else None


class Comparison(NamedTuple):
    """The difference of two figures with its 95 % interval and the p-value of `no difference`.

    Attributes:
        repetitions: the fewer of the two sides; 0 where they are of none.
        freedom: degrees of freedom behind the bounds.
    """

    difference: float
    low: float
    high: float
    p_value: float
    repetitions: int = 0
    freedom: float | None = None

    @property
    def error(self) -> float | None:
        """Return the standard error that the bounds stand for."""
        if self.freedom is None:
            return None
        return (self.high - self.low) / 2 / float(special.stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))

    @property
    def more_than_noise(self) -> bool:
        return self.p_value < 1 - CONFIDENCE


def holm(p_values: Sequence[float], tests: int | None = None) -> list[bool]:
    """Return which of several hypotheses are rejected together at 5 % (Holm 1979); of `tests`, where these are some of more."""
    return [limit > 0 for limit in holm_limits(p_values, tests)]


def holm_limits(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """Return for each hypothesis the level at which `holm` rejects it; 0 where it does not."""
    tests = tests or len(p_values)
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    limits = [0.0] * len(p_values)
    for rank, index in enumerate(order):
        level = (1 - CONFIDENCE) / (tests - rank)
        if p_values[index] > level:
            break
        limits[index] = level
    return limits
