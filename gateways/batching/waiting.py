"""The wait for a batch, from nothing but its setting and the rate of arrivals; and the latency that comes of it.

The laws of latency_laws.py are fitted to latencies at one setting each. Where messages of a partition come as a Poisson
process no fit is needed. Message i of a batch (i = 1 begins it) comes at T_i, an Erlang time of i - 1 arrivals; the batch
closes at the earlier of T_n and B_T. So message i is in the batch and waits longer than w < B_T just when

    T_i < B_T - w   and   T_n - T_i > w,

which are independent. With P(k, x) the probability that k arrivals take less than x, and Q = 1 - P,

    share of messages that wait longer than w  =  sum_i P(i - 1, B_T - w) Q(n - i, w)  /  sum_i P(i - 1, B_T).

P and Q depend on neither i nor n alone: they are had once for all n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gateways.batching.batcher import BatchSetting
from gateways.batching.latency_laws import Base, Shares

# Slices of equal probability of the base, in whose middle it stands.
_SLICES = 64


def late_waits(messages: ArrayLike, wait_ms: float, per_s: float, limit_ms: ArrayLike) -> NDArray[np.float64]:
    """Return the share of messages that wait longer than each limit, for each count: axis 0 is the count.

    Args:
        messages: counts (B_S), each from 1: a row of them, or one.
        wait_ms: the age that closes a batch.
        per_s: Poisson arrivals at the partition.
        limit_ms: any limits; all messages wait longer than a negative one.

    Raises:
        ValueError: a count, a wait or a rate that no batch has.
    """
    counts = _told_apart(_counts(messages, wait_ms, per_s), per_s / 1e3 * wait_ms)
    limits = np.asarray(limit_ms, dtype=np.float64)
    flat = limits.ravel()
    late = np.zeros((len(counts), len(flat)))
    late[:, flat < 0] = 1.0
    # Nothing waits longer than the age; between 0 and that the sums are had, which cost the most by far.
    between = (flat >= 0) & (flat < wait_ms)
    if between.any():
        inside, per_ms = flat[between], per_s / 1e3
        others = np.arange(counts.max())
        arrived = _arrived(others, per_ms * (wait_ms - inside))
        missing = 1 - _arrived(others, per_ms * inside)
        taken = np.cumsum(_arrived(others, np.array([per_ms * wait_ms]))[0])
        late[:, between] = [
            np.einsum("li,li->l", arrived[:, :n], missing[:, n - 1 :: -1]) / taken[n - 1] for n in counts
        ]
    return np.asarray(late.reshape(*np.shape(messages), *limits.shape))


def mean_waits_ms(messages: ArrayLike, wait_ms: float, per_s: float) -> NDArray[np.float64]:
    """Return how long a message waits for its batch in the mean, for each count.

    With A_k the time of k arrivals, message i waits min(A_(n-1), B_T) - A_(i-1) where that is above 0: in the mean
    G(i - 1) - G(n - 1), where G(k) = E[(B_T - A_k)+] = B_T P(k, B_T) - k / r P(k + 1, B_T).

    Raises:
        ValueError: a count, a wait or a rate that no batch has.
    """
    counts = _counts(messages, wait_ms, per_s)
    others = np.arange(counts.max() + 1)
    expected = per_s / 1e3 * wait_ms
    # One time: slower, and exact where hardly any arrive.
    arrived = np.concatenate([[1.0], special.gammainc(others[1:], expected)])
    left_ms = wait_ms * arrived
    if expected > 0:
        left_ms[:-1] -= others[:-1] * wait_ms * (arrived[1:] / expected)
    left_ms = left_ms[:-1]
    waited = np.cumsum(left_ms)[counts - 1] - counts * left_ms[counts - 1]
    return np.asarray((waited / np.cumsum(arrived)[counts - 1]).reshape(np.shape(messages)))


def _counts(messages: ArrayLike, wait_ms: float, per_s: float) -> NDArray[np.int_]:
    counts = np.atleast_1d(np.asarray(messages, dtype=np.int_))
    if not (counts.size and (counts >= 1).all() and 0 <= wait_ms < math.inf and 0 <= per_s < math.inf):
        raise ValueError(
            f"{counts.tolist()} messages, {wait_ms} ms, {per_s}/s: counts from 1, a wait and a rate from 0"
        )
    return counts


def _told_apart(counts: NDArray[np.int_], expected: float) -> NDArray[np.int_]:
    """Return the counts, those that arrivals reach within the age with less than 1e-12 as the least of them."""
    return np.minimum(counts, math.ceil(expected + 8 * math.sqrt(expected) + 30))


def _arrived(count: NDArray[np.int_], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of `count` arrivals and more in times in which `mean` are expected (rows: times).

    Args:
        count: 0, 1, 2 and so on.
        mean: from 0.
    """
    logs = special.xlogy(count, mean[:, None]) - mean[:, None] - special.gammaln(count + 1)
    fewer = np.cumsum(np.exp(logs), axis=1)
    return np.asarray(np.concatenate([np.ones((len(mean), 1)), 1 - fewer[:, :-1]], axis=1).clip(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The law of messages that wait for their batch and then take what one takes that waits for none.

    Attributes:
        setting: of the batches.
        per_s: Poisson arrivals at the partition.
        base: the law of messages that wait for no batch, at the same path.
    """

    setting: BatchSetting
    per_s: float
    base: Base

    def late(self, limit_ms: ArrayLike) -> Shares:
        setting = self.setting
        if setting.messages == 1 or setting.wait_ms == 0:
            return self.base.late(limit_ms)
        left_ms = np.asarray(limit_ms, dtype=np.float64)[..., None] - middles_ms(self.base)
        return np.asarray(late_waits(setting.messages, setting.wait_ms, self.per_s, left_ms).mean(axis=-1))


def middles_ms(base: Base, slices: int = _SLICES) -> Shares:
    """Return the base as so many equally probable latencies."""
    return np.asarray(base.quantile_ms((np.arange(slices) + 0.5) / slices))
