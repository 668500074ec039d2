"""Errors of predictions: by hand, and never at what a model was fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from gateways.batching.gamma_law import Gamma
from gateways.batching.latency_laws import Uniform
from gateways.batching.prediction import limits_of, prediction_error


def test_the_error_of_a_law_by_hand() -> None:
    error = prediction_error(Uniform(0.0, 100.0, 1.0), [10.0, 20.0, 30.0, 90.0], [25.0, 50.0])
    assert error.at == (25.0, 50.0)
    assert error.predicted == (0.75, 0.5)
    assert error.measured == (0.5, 0.25)
    assert (error.mean, error.largest) == (0.25, 0.25)


def test_limits_are_quantiles_without_the_ends() -> None:
    assert limits_of(range(1, 12)) == pytest.approx([*range(2, 12)], abs=1)
    assert np.diff(limits_of(range(1, 1_000))) == pytest.approx(998 / 11)


def test_a_right_law_errs_by_little_and_a_wrong_one_by_much() -> None:
    rng = np.random.default_rng(7)
    fitted, held_out = (rng.gamma(36.0, 2.35, 10_000) for _ in range(2))
    limits = limits_of(fitted)
    right = prediction_error(Gamma.fitted(fitted), held_out, limits)
    wrong = prediction_error(Uniform(fitted.min(), fitted.max(), 1.0), held_out, limits)
    assert right.mean < 0.02 < wrong.mean
