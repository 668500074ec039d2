"""Errors of predictions: by hand, and never at what a model was fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from gateways.batching.gamma_law import Gamma
from gateways.batching.latency_laws import Sample, Uniform
from gateways.batching.prediction import cells_error, held_out_errors, limits_of, prediction_error


def test_the_error_of_a_law_by_hand() -> None:
    error = prediction_error(Uniform(0.0, 100.0, 1.0), [10.0, 20.0, 30.0, 90.0], [25.0, 50.0])
    assert error.at == (25.0, 50.0)
    assert error.predicted == (0.75, 0.5)
    assert error.measured == (0.5, 0.25)
    assert (error.mean, error.largest) == (0.25, 0.25)


def test_limits_are_quantiles_without_the_ends() -> None:
    assert limits_of(range(1, 12)) == pytest.approx([*range(2, 12)], abs=1)
    assert np.diff(limits_of(range(1, 1_000))) == pytest.approx(998 / 11)


def test_each_run_is_judged_by_a_law_of_the_others() -> None:
    seen: list[list[float]] = []

    def fit(sample: np.ndarray) -> Sample:
        seen.append(sorted(sample.tolist()))
        return Sample.of(sample)

    runs = [[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]]
    errors = held_out_errors(fit, runs, limits=3)
    assert seen == [[3, 4, 50, 60], [1, 2, 50, 60], [1, 2, 3, 4]]
    # The last run lies above all that the others have: each predicted share is an error of its own size.
    assert errors[2].measured == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="two at least"):
        held_out_errors(fit, runs[:1])


def test_a_right_law_errs_by_little_and_a_wrong_one_by_much() -> None:
    rng = np.random.default_rng(7)
    runs = [rng.gamma(36.0, 2.35, 10_000) for _ in range(3)]
    right = [error.mean for error in held_out_errors(Gamma.fitted, runs)]
    wrong = [error.mean for error in held_out_errors(lambda s: Uniform(s.min(), s.max(), 1.0), runs)]
    assert max(right) < 0.02 < min(wrong)


def test_cells_must_match() -> None:
    error = cells_error([0.1, 0.5], [0.2, 0.8])
    assert error.mean == pytest.approx(0.2)
    assert error.largest == pytest.approx(0.3)
    with pytest.raises(ValueError, match="2 predictions for 1 cells"):
        cells_error([0.1, 0.5], [0.2])
