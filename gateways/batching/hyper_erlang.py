"""A phase-type law of latencies, fitted by expectation and maximisation (EM).

Source: Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable Stream Processing in
Real-time" (IEEE ISSRE 2020).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gateways.batching.gamma_law import shape_of, spread_of_logs
from gateways.batching.latency_laws import Shares, checked_sample

# Erlang branches of more phases are indistinguishable from a fixed time in a sample that a gateway can have.
_PHASES_MAX = 2_000
# Below this gain of the log-likelihood a message, a further step of EM changes no prediction.
_EM_TOLERANCE = 1e-7
_EM_STEPS = 500
# A branch that answers for a smaller share of the sample is dropped.
_NOTHING = 1e-9


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
            weights, phases, rates = _maximised(sample, answers)
            densities = _log_densities(sample, logs, weights, phases, rates)
            # The likelihood's logarithm and each branch's share of it, from one exponential: no sum is 0 or overflows.
            greatest = densities.max(axis=0)
            parts = np.exp(densities - greatest)
            sums = parts.sum(axis=0)
            likelihood = float((greatest + np.log(sums)).mean())
            if likelihood - before < _EM_TOLERANCE:
                break
            before, answers = likelihood, parts / sums
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
    return [high - low for low, high in itertools.pairwise(edges)]


def _maximised(sample: Shares, answers: Shares) -> tuple[Shares, Shares, Shares]:
    """Return weights, phases and rates of greatest likelihood for what each branch answers for (a row each)."""
    counts = answers.sum(axis=1)
    answers, counts = answers[counts > _NOTHING * len(sample)], counts[counts > _NOTHING * len(sample)]
    shares = answers / counts[:, None]
    phases = np.array([_phases(spread_of_logs(sample, share)) for share in shares], dtype=np.float64)
    return counts / counts.sum(), phases, phases / (shares @ sample)


def _phases(excess: float) -> int:
    """Return the whole number of phases of greatest likelihood."""
    if excess <= 0.5 / _PHASES_MAX:
        return _PHASES_MAX
    below = max(1, min(_PHASES_MAX, math.floor(shape_of(excess))))

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
