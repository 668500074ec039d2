"""Spreads and medians of pairs of runs: their ratios with intervals; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from ivsim.study.statistics import Interval

Pairs = Sequence[tuple[float, float]]
# The smallest p-value is 2 / RESAMPLES: below 5 % of all parts of the work's claims together (Holm).
RESAMPLES: Final = 40_000
_FEWEST: Final = 6
_SEED: Final = 1


class Published(NamedTuple):
    """The ratios that the document prints, 100 x first / second: of means, standard deviations, coefficients of variation."""

    mean: float
    deviation: float
    variation: float


def as_published(pairs: Pairs) -> Published | None:
    """Return the document's ratios of at least two pairs; None where one of them is not defined."""
    if len(pairs) < 2:
        return None
    data = np.array(pairs, dtype=np.float64)
    means, deviations = data.mean(axis=0), data.std(axis=0, ddof=1)
    if not deviations[1]:
        return None
    mean, deviation = float(means[0] / means[1]), float(deviations[0] / deviations[1])
    return Published(100 * mean, 100 * deviation, 100 * deviation / mean)


def median_ratio(pairs: Pairs) -> Interval:
    """Return the median ratio with its 95 % interval from order statistics, exact whatever the distribution.

    The bounds are the k-th smallest and k-th largest ratio, where at most 2.5 % of samples of that size have fewer
    than k values on one side of the true median (binomial, Thompson 1936). Below six pairs there is no such k.
    """
    values = sorted(math.log(first / second) for first, second in pairs)
    n = len(values)
    if not n:
        return Interval(None, None, None, 0)
    middle = math.exp(float(np.median(values)))
    if n < _FEWEST:
        return Interval(middle, None, None, n)
    k = int(stats.binom.ppf(0.025, n, 0.5))
    k = max(1, k)
    return Interval(middle, math.exp(values[k - 1]), math.exp(values[n - k]), n)


class Spread(NamedTuple):
    """The ratio of two standard deviations over pairs.

    Attributes:
        p_value: of "the ratio is 1", two-sided.
    """

    ratio: float
    low: float
    high: float
    p_value: float


def spread_ratio(pairs: Pairs, resamples: int = RESAMPLES) -> Spread | None:
    """Return the first's standard deviation over the second's with a percentile bootstrap over pairs (Efron 1979).

    None below two pairs, or where all of one side are the same.
    """
    if len(pairs) < 2:
        return None
    data = np.array(pairs, dtype=np.float64)
    own = data.std(axis=0, ddof=1)
    if not own.all():
        return None
    drawn = data[np.random.default_rng(_SEED).integers(len(data), size=(resamples, len(data)))]
    deviations = drawn.std(axis=1, ddof=1)
    deviations = deviations[deviations.all(axis=1)]
    found = np.log(deviations[:, 0] / deviations[:, 1])
    low, high = (float(one) for one in np.exp(np.quantile(found, (0.025, 0.975))))
    beyond = min(int((found <= 0).sum()), int((found >= 0).sum()))
    p_value = min(1.0, 2 * (beyond + 1) / (found.size + 1))
    return Spread(float(own[0] / own[1]), low, high, p_value)
