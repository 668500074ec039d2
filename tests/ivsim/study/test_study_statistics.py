"""Intervals and tests against tables and simulation: each method gives what its source says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.study.statistics import (
    holm,
    mean_interval,
    nearest_rank,
    ratio_interval,
)


def test_the_t_interval_is_students_own_example():
    # Student (1908): hours of sleep gained; mean 1.58 (1.5800), the 95 % interval is 0.70 to 2.46.
    gained = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    interval = mean_interval(gained)
    assert interval.estimate == pytest.approx(1.58)
    assert (interval.low, interval.high) == (pytest.approx(0.70, abs=0.005), pytest.approx(2.46, abs=0.005))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (5, 10, 0.1871, 0.8129), (1, 100, 0.00025, 0.05446)],
)
def test_clopper_pearson_gives_the_tables_values(successes: int, n: int, low: float, high: float):
    interval = ratio_interval(successes, n)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


def test_what_is_undefined_has_no_interval():
    assert mean_interval([])[:4] == (None, None, None, 0)
    assert mean_interval([3.0])[:4] == (3.0, None, None, 1)
    assert ratio_interval(0, 0).estimate is None
    assert nearest_rank([], 0.5) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_the_nearest_rank_is_a_value_with_that_share_at_or_below(values: list[float], share: float):
    found = nearest_rank(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values) - 1e-9
    assert sum(v < found for v in values) < share * len(values) + 1e-9


def test_holm_keeps_the_whole_table_at_five_per_cent():
    assert holm([0.01, 0.04, 0.03]) == [True, False, False]
    assert holm([0.001, 0.02, 0.04]) == [True, True, True]
    assert holm([]) == []
    rng = np.random.default_rng(3)
    wrong = sum(any(holm(list(rng.uniform(size=20)))) for _ in range(2_000))
    assert wrong / 2_000 < 0.065
