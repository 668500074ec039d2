"""Latency laws against runs that they were not fitted to: errors of each repetition, by law and count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from gateways.batching.batcher import BatchSetting
from gateways.batching.gamma_law import Gamma
from gateways.batching.hyper_erlang import HyperErlang
from gateways.batching.latency_laws import LatencyLaw, Sample, Shares, Uniform
from gateways.batching.prediction import PredictionError, limits_of, prediction_error
from gateways.batching.waiting import Waiting
from ivsim.papers.reactive_batching.cells import RATE, WAIT_MS, Cells, Floats, Latencies

GAMMA, PHASE, CAUCHY, UNIFORM, ANALYTIC = "Gamma", "hyper-Erlang", "Cauchy", "uniform", "analytic"
# The other runs as they are: what no law can be better than, since two runs of one setting differ by chance.
RUNS: Final = "the other runs"
# Which laws the paper has at a count, and what they are fitted to here: other runs at that count.
FITTED: Final = (GAMMA, PHASE, CAUCHY, RUNS)

# EM takes time in proportion: with more, seconds become minutes, and a law of six branches does not change.
MOST_FITTED: Final = 8_000

Errors = Mapping[int, PredictionError]


@dataclass(frozen=True, slots=True)
class Cauchy:
    """A rival law of the paper, whose tails are too heavy for a latency."""

    middle_ms: float
    scale_ms: float

    @classmethod
    def fitted(cls, latencies_ms: ArrayLike) -> Self:
        """Return the law of greatest likelihood."""
        middle_ms, scale_ms = stats.cauchy.fit(np.asarray(latencies_ms, dtype=np.float64))
        return cls(float(middle_ms), float(scale_ms))

    def late(self, limit_ms: ArrayLike) -> Shares:
        """Return the share of messages that take longer than each limit."""
        return np.asarray(stats.cauchy.sf(np.asarray(limit_ms), self.middle_ms, self.scale_ms))


_FITS: Final[Mapping[str, Callable[[Floats], LatencyLaw]]] = {
    GAMMA: Gamma.fitted,
    PHASE: lambda sample: HyperErlang.fitted(thinned(sample)),
    CAUCHY: Cauchy.fitted,
    RUNS: Sample.of,
}


def errors(cells: Cells, law: str, count: int) -> Errors:
    """Return what a law says of each repetition of a count, by the others alone, at ten limits of theirs.

    Gamma, phase type and Cauchy are fitted to the other repetitions at that count; the uniform law has its bounds from
    synchronous sending, the analytic one its base from count 1, both of the other repetitions. Empty below two.
    """
    runs = cells.count_runs(count)
    found: Errors = cells.remembered((law, count), lambda: _errors(cells, runs, law, count))
    return found


def long_errors(cells: Cells, law: str, count: int) -> Errors:
    """Return the same of the long runs, for a law of FITTED."""
    runs = cells.long_runs(count)
    found: Errors = cells.remembered((f"{law}, long", count), lambda: _errors(cells, runs, law, count))
    return found


def thinned(sample: Floats, most: int = MOST_FITTED) -> Floats:
    """Return a sample of up to `most` latencies that has the same distribution: evenly spaced quantiles of the whole one."""
    if sample.size <= most:
        return sample
    shares = (np.arange(most) + 0.5) / most
    return np.asarray(np.quantile(sample, shares, method="inverted_cdf"))


def _errors(cells: Cells, runs: Mapping[int, Latencies], law: str, count: int) -> Errors:
    if law in FITTED:
        return _held_out(runs, lambda others: _FITS[law](_joined(runs, others)))
    source = cells.sync_runs() if law == UNIFORM else cells.count_runs(1)

    def made(others: set[int]) -> LatencyLaw | None:
        known = others & source.keys()
        if not known:
            return None
        sample = _joined(source, known)
        if law == UNIFORM:
            return Uniform.bounded(sample, WAIT_MS)
        return Waiting(BatchSetting(count, WAIT_MS), RATE, Sample.of(sample))

    return _held_out(runs, made)


def _joined(runs: Mapping[int, Latencies], which: set[int]) -> Floats:
    return np.concatenate([runs[one].latency for one in sorted(which)])


def _held_out(
    runs: Mapping[int, Latencies], law_of: Callable[[set[int]], LatencyLaw | None]
) -> dict[int, PredictionError]:
    found = {}
    for held_out, run in runs.items():
        others = set(runs) - {held_out}
        law = law_of(others) if others else None
        if law is not None:
            found[held_out] = prediction_error(law, run.latency, limits_of(_joined(runs, others)))
    return found


def mean_errors(found: Errors) -> dict[int, float]:
    """Return the mean absolute error (MAE) of each repetition."""
    return {repetition: error.mean for repetition, error in found.items()}


def shares_outside(cells: Cells, counts: tuple[int, ...]) -> list[float]:
    """Return, for each repetition, the share of latencies outside [min(L_sync), max(L_sync) + B_T]."""
    sync = cells.sync_runs()
    runs = [cells.count_runs(count) for count in counts]
    both = set.intersection(set(sync), *(set(one) for one in runs))
    found = []
    for repetition in sorted(both):
        least, most = sync[repetition].latency.min(), sync[repetition].latency.max() + WAIT_MS
        all_ms = np.concatenate([one[repetition].latency for one in runs])
        found.append(float(((all_ms < least) | (all_ms > most)).mean()))
    return found


def hinge_of(counts: Floats, means_ms: Floats) -> float:
    """Return the count from which on the mean latency is flat: the hinge of a + b min(count, hinge), by least squares."""
    candidates = np.linspace(counts.min() + 1, counts.max(), 400)

    def squares(hinge: float) -> float:
        design = np.stack([np.ones(counts.size), np.minimum(counts, hinge)], axis=1)
        fit, *_ = np.linalg.lstsq(design, means_ms, rcond=None)
        return float(((design @ fit - means_ms) ** 2).sum())

    return float(min(candidates, key=squares))
