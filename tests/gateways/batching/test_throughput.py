"""Throughput by count: what it was made from comes back, and no fit has a negative cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.throughput import Throughput

COUNTS = np.array([1, 2, 4, 8, 16, 64])
COSTS = st.floats(1e-7, 1e-2)


@given(COSTS, COSTS)
def test_costs_come_back(message_s: float, request_s: float) -> None:
    # Oracle: the time of whole batches, one after the other.
    per_s = 1_000 * COUNTS / (1_000 * (COUNTS * message_s + request_s))
    found = Throughput.fitted(COUNTS, per_s)
    assert found.per_s(COUNTS) == pytest.approx(per_s, rel=1e-6)


@given(st.lists(st.floats(1, 1e6), min_size=6, max_size=6))
def test_whatever_was_measured_throughput_rises_with_the_count(per_s: list[float]) -> None:
    found = Throughput.fitted(COUNTS, per_s)
    assert (np.diff(found.per_s(np.arange(1, 200))) >= 0).all()
    assert np.isfinite(found.per_s(COUNTS)).all()


@pytest.mark.parametrize(
    ("counts", "per_s"), [([1], [5.0]), ([2, 2], [5.0, 6.0]), ([1, 2], [5.0, 0.0]), ([1, 2], [5.0])]
)
def test_what_has_no_curve_is_refused(counts: list[int], per_s: list[float]) -> None:
    with pytest.raises(ValueError, match="two different counts"):
        Throughput.fitted(counts, per_s)


@pytest.mark.parametrize("costs", [(-1.0, 1.0), (1.0, -1.0), (0.0, 0.0), (float("nan"), 1.0)])
def test_costs_below_0_are_refused(costs: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="below 0"):
        Throughput(*costs)
