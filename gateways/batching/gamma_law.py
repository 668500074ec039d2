"""The Gamma law of latencies, and the likelihood of its shape.

Source: Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable Stream Processing in
Real-time" (IEEE ISSRE 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from gateways.batching.latency_laws import Shares, checked_sample

# Below it two terms of the series of log a - psi(a) are exact to 1e-13, and the difference itself is not.
_SERIES_BELOW = 1e-4


@dataclass(frozen=True, slots=True)
class Gamma:
    """The law of messages that wait for no batch (the paper's first stage)."""

    shape: float
    scale_ms: float

    @classmethod
    def fitted(cls, latencies_ms: ArrayLike) -> Self:
        """Return the law of greatest likelihood; ValueError for fewer than two different latencies."""
        sample = checked_sample(latencies_ms)
        excess = spread_of_logs(sample, np.full(len(sample), 1 / len(sample)))
        if not excess > 0:
            raise ValueError("a sample of equal latencies: a Gamma law has a spread")
        shape = shape_of(excess)
        return cls(shape, float(sample.mean()) / shape)

    @property
    def mean_ms(self) -> float:
        return self.shape * self.scale_ms

    def late(self, limit_ms: ArrayLike) -> Shares:
        limits = np.maximum(np.asarray(limit_ms, dtype=np.float64), 0.0)
        return np.asarray(special.gammaincc(self.shape, limits / self.scale_ms))

    def quantile_ms(self, share: ArrayLike) -> Shares:
        """Return the latency that this share of the messages does not exceed."""
        return np.asarray(special.gammaincinv(self.shape, np.asarray(share)) * self.scale_ms)


def spread_of_logs(sample: Shares, weights: Shares) -> float:
    """Return the log of the mean less the mean of the logs, of a sample whose weights add up to 1.

    As the mean of d - log(1 + d) over the relative deviations d: no term is below 0 or lost in a difference of logs.
    """
    mean = weights @ sample
    deviations = (sample - mean) / mean
    return float(weights @ (deviations - np.log1p(deviations)))


def shape_of(excess: float) -> float:
    """Return the shape `a` of greatest likelihood for `spread_of_logs`: the root of log a - psi(a) = excess."""
    if excess < _SERIES_BELOW:
        return (1 + math.sqrt(1 + 4 * excess / 3)) / (4 * excess)

    def difference(log_shape: float) -> float:
        return log_shape - float(special.psi(math.exp(log_shape))) - excess

    # 1/(2a) < log a - psi(a) < 1/a encloses the root.
    low, high = math.log(0.5 / excess) - 1e-9, math.log(1 / excess) + 1e-9
    return math.exp(float(optimize.brentq(difference, low, high)))
