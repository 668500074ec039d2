"""The wait for a batch, from nothing but its setting and the rate of arrivals; and the latency that comes of it.

The laws of latency_laws.py are fitted to latencies at one setting each. Where messages of a partition come as a Poisson
process no fit is needed. Message i of a batch (i = 1 begins it) comes at T_i, an Erlang time of i - 1 arrivals; the batch
closes at the earlier of T_n and B_T. So message i is in the batch and waits longer than w < B_T just when

    T_i < B_T - w   and   T_n - T_i > w,

which are independent. With P(k, x) the probability that k arrivals take less than x, and Q = 1 - P,

    share of messages that wait longer than w  =  sum_i P(i - 1, B_T - w) Q(n - i, w)  /  sum_i P(i - 1, B_T).

P and Q depend on neither i nor n alone: for every n at a time the sum is a convolution.
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
# Steps of an integral over waits, and the share of them beyond its end.
_STEPS = 512
_NOTHING = 1e-12


def late_waits(messages: int, wait_ms: float, per_s: float, limit_ms: ArrayLike) -> NDArray[np.float64]:
    """Return the share of messages that wait longer than each limit, for every count: axis 0 is B_S - 1.

    ValueError for a count, a wait or a rate that no batch has.

    Args:
        messages: the greatest count, from 1.
        wait_ms: the age that closes a batch.
        per_s: Poisson arrivals at the partition.
        limit_ms: any limits; all messages wait longer than a negative one.
    """
    if not (messages >= 1 and 0 <= wait_ms < math.inf and 0 <= per_s < math.inf):
        raise ValueError(
            f"{messages} messages, {wait_ms} ms, {per_s}/s: a count from 1, a wait and a rate from 0"
        )
    limits = np.asarray(limit_ms, dtype=np.float64)
    flat = limits.ravel()
    inside = np.clip(flat, 0.0, wait_ms)
    per_ms = per_s / 1e3
    count = np.arange(messages)
    arrived = _arrived(count, per_ms * (wait_ms - inside))
    missing = 1 - _arrived(count, per_ms * inside)
    late = (
        np.stack([np.convolve(a, m)[:messages] for a, m in zip(arrived, missing, strict=True)], axis=1)
        / np.cumsum(_arrived(count, np.array([per_ms * wait_ms]))[0])[:, None]
    )
    late[:, flat >= wait_ms] = 0.0
    late[:, flat < 0] = 1.0
    return np.asarray(late.reshape(messages, *limits.shape))


def _arrived(count: NDArray[np.int_], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that `count` arrivals take less than a time in which `mean` are expected (rows: times)."""
    # The time of k arrivals has an Erlang law; none at all are there at once.
    taken = special.gammainc(np.maximum(count, 1), mean[:, None])
    return np.where(count == 0, 1.0, taken)


def mean_wait_ms(setting: BatchSetting, per_s: float) -> float:
    """Return how long a message waits for its batch in the mean: the integral of `late_waits`."""
    others = setting.messages - 1
    if others == 0 or setting.wait_ms == 0:
        return 0.0
    # Where arrivals close the batches long before their age does, nearly all of that time is waited by none.
    filled_ms = float(special.gammainccinv(others, _NOTHING)) / per_s * 1e3 if per_s else math.inf
    most_ms = min(setting.wait_ms, filled_ms)
    at_ms = (np.arange(_STEPS) + 0.5) / _STEPS * most_ms
    return float(late_waits(setting.messages, setting.wait_ms, per_s, at_ms)[-1].mean() * most_ms)


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
        return np.asarray(
            late_waits(setting.messages, setting.wait_ms, self.per_s, left_ms)[-1].mean(axis=-1)
        )


def middles_ms(base: Base, slices: int = _SLICES) -> Shares:
    """Return the base as so many equally probable latencies."""
    return np.asarray(base.quantile_ms((np.arange(slices) + 0.5) / slices))
