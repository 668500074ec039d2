"""Whether a quantity stays flat: its slope with an interval, and a verdict; it samples nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

FEWEST: Final = 10  # samples
# The first half of a series is left out: a process fills its caches for minutes, and some longer than others. The capture keeps
# up to 128 units of each direction and vehicle, and is level after twenty minutes at half a message a second of each: a leg of less
# than forty says that it grows. What leaks grows on.
WARM_UP_RATIO: Final = 0.5
SHORTEST_S: Final = 300.0  # of a series behind that, for a verdict
CONFIDENCE: Final = 0.95
# Growth over an hour that counts, as a ratio of the median.
GROWTH_RATIO: Final = 0.10
HOUR_S: Final = 3_600.0


class Slope(NamedTuple):
    """A slope per hour with its 95 % interval, the median of the series, its samples and its length."""

    median: float
    per_hour: float
    low: float
    high: float
    samples: int
    span_s: float

    def verdict(self, least: float) -> str:
        """Return `flat`, `grows`, `unclear`, or `short` of less than five minutes.

        Args:
            least: growth in an hour that counts even where the median is small.
        """
        if self.span_s < SHORTEST_S:
            return "short"
        limit = max(least, GROWTH_RATIO * self.median)
        if self.high <= limit:
            return "flat"
        return "grows" if self.low > limit else "unclear"


def slope_of(seconds: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Return the median of all slopes between two samples (Theil and Sen) behind the warm-up; None of too few.

    A single jump moves it little, other than a least-squares line. Its interval takes the samples as independent.
    """
    x, y = np.asarray(seconds, float), np.asarray(values, float)
    if len(x) < FEWEST:
        return None
    late = x - x[0] >= (x[-1] - x[0]) * WARM_UP_RATIO
    x, y = x[late], y[late]
    if len(x) < FEWEST:
        return None
    slope, _, low, high = stats.theilslopes(y, x, CONFIDENCE)
    return Slope(
        float(np.median(y)),
        float(slope) * HOUR_S,
        float(low) * HOUR_S,
        float(high) * HOUR_S,
        len(x),
        float(x[-1] - x[0]),
    )
