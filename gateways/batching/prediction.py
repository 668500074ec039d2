"""How far a model's predictions are from what was measured, always on what it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gateways.batching.latency_laws import LatencyLaw, Sample, checked_sample

LIMITS = 10


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Predicted and measured shares, point by point.

    Attributes:
        at: what they are shares at: limits in ms, or the cells' numbers.
    """

    at: tuple[float, ...]
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean absolute error (MAE)."""
        return float(np.mean(self._errors))

    @property
    def largest(self) -> float:
        """Return the largest absolute error."""
        return float(np.max(self._errors))

    @property
    def _errors(self) -> NDArray[np.float64]:
        return np.asarray(np.abs(np.array(self.predicted) - np.array(self.measured)))


def limits_of(latencies_ms: ArrayLike, count: int = LIMITS) -> tuple[float, ...]:
    """Return limits at which all shares occur: the 1st to the last of `count` quantiles between 0 and 1."""
    sample = checked_sample(latencies_ms)
    return tuple(np.quantile(sample, np.arange(1, count + 1) / (count + 1)).tolist())


def prediction_error(law: LatencyLaw, held_out_ms: ArrayLike, limits_ms: Sequence[float]) -> PredictionError:
    """Return what the law says of a sample that it was not fitted to, and what is so, at each limit."""
    measured = Sample.of(held_out_ms).late(limits_ms)
    return PredictionError(tuple(limits_ms), tuple(law.late(limits_ms).tolist()), tuple(measured.tolist()))
