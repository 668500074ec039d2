"""Laws of the latency of batched messages: each says which share of the messages takes longer than a limit.

gamma_law.py and hyper_erlang.py have those that are fitted to a sample, waiting.py the one that needs no fit.

Source: Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable Stream Processing in
Real-time" (IEEE ISSRE 2020).
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Shares = NDArray[np.float64]


class LatencyLaw(typing.Protocol):
    """The distribution of a latency in milliseconds."""

    def late(self, limit_ms: ArrayLike) -> Shares:
        """Return the share of messages that take longer than each limit: the violation rate eta_v."""


def checked_sample(latencies_ms: ArrayLike, least: int = 2) -> Shares:
    """Return a sample as an array; ValueError for one that no law can be fitted to."""
    sample = np.asarray(latencies_ms, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < least:
        raise ValueError(f"a sample of {sample.size} latencies: {least} at least are needed")
    if not np.isfinite(sample).all() or (sample <= 0).any():
        raise ValueError("a sample of latencies: each must be a number above 0 ms")
    return sample


@dataclass(frozen=True, slots=True)
class Uniform:
    """The law of batches that age alone closes (the paper's third stage); `alpha` is suggested there, not derived."""

    least_ms: float
    most_ms: float
    alpha: float = 0.9

    def __post_init__(self) -> None:
        if not self.alpha * self.most_ms > self.least_ms >= 0:
            raise ValueError(
                f"a uniform law from {self.least_ms:g} to {self.alpha:g} x {self.most_ms:g} ms: has no width"
            )

    @classmethod
    def bounded(cls, unbatched_ms: ArrayLike, wait_ms: float, alpha: float = 0.9) -> Self:
        """Return the law by the latencies of messages that wait for no batch, and the age that closes one."""
        sample = checked_sample(unbatched_ms, 1)
        return cls(float(sample.min()), float(sample.max()) + wait_ms, alpha)

    def late(self, limit_ms: ArrayLike) -> Shares:
        end_ms = self.alpha * self.most_ms
        return np.clip((end_ms - np.asarray(limit_ms, dtype=np.float64)) / (end_ms - self.least_ms), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """The law of a sample itself, for a base that no named law fits."""

    sorted_ms: tuple[float, ...]

    @classmethod
    def of(cls, latencies_ms: ArrayLike) -> Self:
        return cls(tuple(np.sort(checked_sample(latencies_ms, 1)).tolist()))

    def late(self, limit_ms: ArrayLike) -> Shares:
        at = np.searchsorted(np.array(self.sorted_ms), np.asarray(limit_ms), side="right")
        return np.asarray(1 - at / len(self.sorted_ms))

    def quantile_ms(self, share: ArrayLike) -> Shares:
        """Return the latency that this share of the messages does not exceed."""
        return np.asarray(np.quantile(np.array(self.sorted_ms), np.asarray(share), method="inverted_cdf"))


class Base(LatencyLaw, typing.Protocol):
    """A law with quantiles: of messages that wait for no batch."""

    def quantile_ms(self, share: ArrayLike) -> Shares:
        """Return the latency that this share of the messages does not exceed."""
