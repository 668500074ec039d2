from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.quantiles import nearest_rank_ms, rank_index


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60).map(sorted), st.floats(0.001, 1))
def test_it_is_the_smallest_value_with_that_share_at_or_below(values: list[int], share: float) -> None:
    found = values[rank_index(len(values), share)]
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 1.0])
@pytest.mark.parametrize("count", [1, 2, 3, 100, 101, 1000])
def test_numpy_calls_it_the_inverted_cdf(count: int, share: float) -> None:
    values = np.random.default_rng(count).integers(0, 10**9, count)
    expected = np.quantile(values, share, method="inverted_cdf") / 1e6
    assert nearest_rank_ms(sorted(values.tolist()), share) == pytest.approx(expected)


def test_of_nothing_it_is_none() -> None:
    assert nearest_rank_ms([], 0.5) is None


def test_a_time_below_zero_is_not_known():
    """Stamps of two machines, or of Kafka's whole milliseconds: no time is negative."""
    assert nearest_rank_ms([-300_000, 0, 5_000_000], 0.3) is None
    assert nearest_rank_ms([-300_000, 0, 5_000_000], 0.6) == 0.0
    assert nearest_rank_ms([-300_000, 0, 5_000_000], 0.9) == 5.0
