"""The wait for a batch against the batcher itself, fed with simulated Poisson arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.batcher import Batcher, BatchSetting
from gateways.batching.gamma_law import Gamma
from gateways.batching.latency_laws import Sample
from gateways.batching.waiting import Waiting, late_waits, mean_waits_ms

ARRIVALS = 40_000
SETTINGS = [(4, 100.0, 100.0), (7, 100.0, 100.0), (30, 100.0, 100.0), (10, 1_000.0, 10.0), (2, 5.0, 1_000.0)]


def simulated(messages: int, wait_ms: float, per_s: float, seed: int) -> np.ndarray:
    """Return the waits in ms of Poisson arrivals at a batcher that is asked at each of its deadlines."""
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / per_s, ARRIVALS)).tolist()
    batcher: Batcher[float] = Batcher(BatchSetting(messages, wait_ms))
    waits: list[float] = []
    for now_s in arrivals:
        while (deadline_s := batcher.deadline_s) is not None and deadline_s <= now_s:
            waits += [deadline_s - came_s for batch in batcher.due(deadline_s) for came_s in batch]
        waits += [now_s - came_s for came_s in batcher.add(0, now_s, now_s) or []]
    return np.array(waits) * 1e3


@pytest.mark.parametrize(("messages", "wait_ms", "per_s"), SETTINGS)
def test_waits_are_those_of_the_batcher(messages: int, wait_ms: float, per_s: float) -> None:
    waits = simulated(messages, wait_ms, per_s, 1)
    # Not at 0 and at the age: there the share jumps, and a wait is rounded to either side.
    limits = np.linspace(0.01, 0.99, 9) * wait_ms
    predicted = late_waits(messages, wait_ms, per_s, limits)
    assert predicted == pytest.approx((waits[:, None] > limits).mean(axis=0), abs=0.012)
    assert mean_waits_ms(messages, wait_ms, per_s) == pytest.approx(waits.mean(), rel=0.03)


@given(
    st.integers(1, 40),
    st.floats(0, 500),
    st.floats(0, 2_000),
    st.lists(st.floats(-10, 600), min_size=1, max_size=8),
)
def test_shares_are_shares_that_fall_with_the_limit(
    messages: int, wait_ms: float, per_s: float, limits: list[float]
) -> None:
    at = np.sort(np.array(limits))
    late = late_waits(np.arange(1, messages + 1), wait_ms, per_s, at)
    assert late.shape == (messages, len(at))
    assert (late >= -1e-12).all()
    assert (late <= 1 + 1e-12).all()
    assert (np.diff(late, axis=1) <= 1e-9).all()
    assert (late[0] == (at < 0)).all(), "a batch of one waits for nothing"
    # A row is the law of its count, whatever the greatest one asked for.
    count = (messages + 1) // 2
    assert late_waits(count, wait_ms, per_s, at) == pytest.approx(late[count - 1], abs=1e-12)


def test_without_arrivals_all_wait_for_the_age_and_with_many_for_none() -> None:
    assert late_waits([2, 5], 100.0, 0.0, [0.0, 99.0, 100.0]).tolist() == [[1.0, 1.0, 0.0]] * 2
    assert mean_waits_ms([1, 2, 5], 100.0, 0.0).tolist() == [0.0, 100.0, 100.0]
    assert late_waits(5, 100.0, 1e7, [1.0]) == pytest.approx([0.0], abs=1e-9)
    assert mean_waits_ms(1, 100.0, 50.0) == mean_waits_ms(9, 0.0, 50.0) == 0


def test_far_from_its_age_a_batch_of_n_waits_half_of_n_less_1_arrivals() -> None:
    assert mean_waits_ms(10, 60_000.0, 100.0) == pytest.approx(9 / 200 * 1e3, rel=0.01)


@given(st.integers(2, 40), st.floats(1, 500), st.floats(0.1, 2_000))
def test_the_mean_is_the_integral_of_the_shares(messages: int, wait_ms: float, per_s: float) -> None:
    at = (np.arange(4_000) + 0.5) / 4_000 * wait_ms
    area = late_waits(messages, wait_ms, per_s, at).mean() * wait_ms
    assert mean_waits_ms(messages, wait_ms, per_s) == pytest.approx(area, rel=1e-3, abs=1e-3 * wait_ms)


def test_a_latency_is_the_wait_and_what_a_message_without_one_takes() -> None:
    base, setting = Gamma(36.0, 0.5), BatchSetting(7, 100.0)
    waits = simulated(7, 100.0, 100.0, 2)
    latencies = waits + np.random.default_rng(3).gamma(base.shape, base.scale_ms, len(waits))
    limits = np.linspace(15, 130, 10)
    predicted = Waiting(setting, 100.0, base).late(limits)
    assert predicted == pytest.approx((latencies[:, None] > limits).mean(axis=0), abs=0.015)


@pytest.mark.parametrize("setting", [BatchSetting(1, 100.0), BatchSetting(8, 0.0)])
def test_without_a_wait_the_law_is_the_base(setting: BatchSetting) -> None:
    base = Sample.of([10.0, 20.0, 40.0])
    limits = [5.0, 10.0, 15.0, 30.0, 50.0]
    assert Waiting(setting, 10.0, base).late(limits).tolist() == base.late(limits).tolist()


@pytest.mark.parametrize(("messages", "wait_ms", "per_s"), [(0, 1.0, 1.0), (1, -1.0, 1.0), (1, 1.0, -1.0)])
def test_what_no_batch_has_is_refused(messages: int, wait_ms: float, per_s: float) -> None:
    with pytest.raises(ValueError, match="from 0"):
        late_waits(messages, wait_ms, per_s, 1.0)
