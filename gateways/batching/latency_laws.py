"""Laws of the latency of batched messages: each says which share of the messages takes longer than a limit.

Sources: Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable Stream Processing in
Real-time" (IEEE ISSRE 2020), for Gamma, hyper-Erlang and uniform; `waiting.py` has the law that needs no fit.
"""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

Shares = NDArray[np.float64]
# Erlang branches of more phases are indistinguishable from a fixed time in a sample that a gateway can have.
_PHASES_MAX = 2_000
# Below this gain of the log-likelihood a message, a further step of EM changes no prediction.
_EM_TOLERANCE = 1e-7
_EM_STEPS = 500


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
class Gamma:
    """The law of messages that wait for no batch (the paper's first stage)."""

    shape: float
    scale_ms: float

    @classmethod
    def fitted(cls, latencies_ms: ArrayLike) -> Self:
        """Return the law of greatest likelihood; ValueError for fewer than two different latencies."""
        sample = checked_sample(latencies_ms)
        if np.ptp(sample) == 0:
            raise ValueError("a sample of equal latencies: a Gamma law has a spread")
        shape = _gamma_shape(math.log(sample.mean()) - np.log(sample).mean())
        return cls(shape, float(sample.mean()) / shape)

    @property
    def mean_ms(self) -> float:
        return self.shape * self.scale_ms

    def late(self, limit_ms: ArrayLike) -> Shares:
        return np.asarray(stats.gamma.sf(np.asarray(limit_ms), self.shape, scale=self.scale_ms))

    def quantile_ms(self, share: ArrayLike) -> Shares:
        """Return the latency that this share of the messages does not exceed."""
        return np.asarray(stats.gamma.ppf(np.asarray(share), self.shape, scale=self.scale_ms))


def _gamma_shape(excess: float) -> float:
    """Return the shape `a` of greatest likelihood: log a - psi(a) = log of the mean - mean of the logs."""

    def difference(log_shape: float) -> float:
        shape = math.exp(log_shape)
        return log_shape - float(special.psi(shape)) - excess

    # 1/(2a) < log a - psi(a) < 1/a encloses the root.
    low, high = math.log(0.5 / excess) - 1e-9, math.log(1 / excess) + 1e-9
    return math.exp(float(optimize.brentq(difference, low, high)))


@dataclass(frozen=True, slots=True)
class HyperErlang:
    """A phase-type law: with probability `weights[i]` a sum of `phases[i]` exponential times of `rates_per_ms[i]`."""

    weights: tuple[float, ...]
    phases: tuple[int, ...]
    rates_per_ms: tuple[float, ...]

    @classmethod
    def fitted(cls, latencies_ms: ArrayLike, branches: int = 6) -> Self:
        """Return a law of up to so many branches by EM, whose every step raises the likelihood.

        The numbers of phases are fitted too: with what each branch answers for fixed, its likelihood is unimodal in
        them, and the best whole number is beside the best real one. Branches that answer for nothing are dropped.
        ValueError for a sample with fewer than two latencies a branch.
        """
        sample = np.sort(checked_sample(latencies_ms, 2 * branches))
        logs = np.log(sample)
        # Slices of equal counts to begin with: no random start, so the same sample gives the same law.
        answers = np.repeat(np.eye(branches), _slices(len(sample), branches), axis=0).T
        before = -math.inf
        for _step in range(_EM_STEPS):
            weights, phases, rates = _maximised(sample, logs, answers)
            densities = _log_densities(sample, logs, weights, phases, rates)
            totals = special.logsumexp(densities, axis=0)
            likelihood = float(totals.mean())
            if likelihood - before < _EM_TOLERANCE:
                break
            before, answers = likelihood, np.exp(densities - totals)
        return cls(tuple(map(float, weights)), tuple(map(int, phases)), tuple(map(float, rates)))

    @property
    def mean_ms(self) -> float:
        return sum(w * k / r for w, k, r in zip(self.weights, self.phases, self.rates_per_ms, strict=True))

    def late(self, limit_ms: ArrayLike) -> Shares:
        limits = np.maximum(np.asarray(limit_ms, dtype=np.float64), 0.0)[..., None]
        branches = special.gammaincc(np.array(self.phases), np.array(self.rates_per_ms) * limits)
        return np.asarray(branches @ np.array(self.weights))


def _slices(count: int, branches: int) -> list[int]:
    edges = [count * number // branches for number in range(branches + 1)]
    return [high - low for low, high in zip(edges, edges[1:], strict=False)]


def _maximised(sample: Shares, logs: Shares, answers: Shares) -> tuple[Shares, Shares, Shares]:
    """Return weights, phases and rates of greatest likelihood for what each branch answers for (a row each)."""
    counts = answers.sum(axis=1)
    answers, counts = answers[counts > 1e-9 * len(sample)], counts[counts > 1e-9 * len(sample)]
    means = answers @ sample / counts
    excesses = np.log(means) - answers @ logs / counts
    phases = np.array([_phases(excess) for excess in excesses], dtype=np.float64)
    return counts / len(sample), phases, phases / means


def _phases(excess: float) -> int:
    """Return the whole number of phases of greatest likelihood."""
    if excess <= 0.5 / _PHASES_MAX:
        return _PHASES_MAX
    below = max(1, min(_PHASES_MAX, math.floor(_gamma_shape(excess))))

    def likelihood(k: int) -> float:
        # Of a message, without what does not depend on k; the rate is k / mean, which is best for any k.
        return k * math.log(k) - k - math.lgamma(k) - k * excess

    return max((below, min(below + 1, _PHASES_MAX)), key=likelihood)


def _log_densities(sample: Shares, logs: Shares, weights: Shares, phases: Shares, rates: Shares) -> Shares:
    """Return the logarithm of each branch's weighted density at each latency: a row a branch."""
    k, r = phases[:, None], rates[:, None]
    return np.asarray(
        np.log(weights)[:, None] + k * np.log(r) + (k - 1) * logs - r * sample - special.gammaln(k)
    )


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

