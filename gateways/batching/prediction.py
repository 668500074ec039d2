"""How far a model's predictions are from what was measured, always on what it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def held_out_errors(
    fit: Callable[[NDArray[np.float64]], LatencyLaw], runs: Sequence[ArrayLike], limits: int = LIMITS
) -> list[PredictionError]:
    """Return the error at each run of a law that is fitted to all the others, at limits that the others give too.

    The run is the unit: messages of one batch are late together. ValueError for fewer than two runs.
    """
    samples = [checked_sample(run) for run in runs]
    if len(samples) < 2:
        raise ValueError(f"{len(samples)} runs: one is held out, so two at least are needed")
    errors = []
    for number, held_out in enumerate(samples):
        others = np.concatenate([sample for other, sample in enumerate(samples) if other != number])
        errors.append(prediction_error(fit(others), held_out, limits_of(others, limits)))
    return errors


def cells_error(predicted: ArrayLike, measured: ArrayLike) -> PredictionError:
    """Return the error of a loss model over cells that it was not fitted to; ValueError where the two do not match."""
    shares, found = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    if shares.shape != found.shape or shares.ndim != 1 or not shares.size:
        raise ValueError(f"{shares.size} predictions for {found.size} cells")
    return PredictionError(
        tuple(map(float, range(len(found)))), tuple(shares.tolist()), tuple(found.tolist())
    )
