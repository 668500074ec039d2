"""Predictions against a gateway that is simulated record by record: the batcher, requests in flight, and answers."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.batcher import Batcher, BatchSetting
from gateways.batching.model import IN_FLIGHT, BatchModel
from gateways.batching.observation import LinkState, Observation

LINK = LinkState(50.0, 555.0, 150.0, 30.0, 0.15, 1_448, "cubic")
LIMIT_MS = 100.0


def simulated_latencies_ms(
    setting: BatchSetting, per_s: float, answers_ms: np.ndarray, count: int
) -> np.ndarray:
    """Return the latencies of Poisson arrivals at one partition: their batch, five requests in flight, the answer."""
    rng = np.random.default_rng(1)
    batcher: Batcher[float] = Batcher(setting)
    batches: list[tuple[float, list[float]]] = []
    for now_s in np.cumsum(rng.exponential(1 / per_s, count)).tolist():
        while (deadline_s := batcher.deadline_s) is not None and deadline_s <= now_s:
            batches += [(deadline_s, batch) for batch in batcher.due(deadline_s)]
        closed = batcher.add(0, now_s, now_s)
        batches += [] if closed is None else [(now_s, closed)]
    free_s, latencies = [0.0] * IN_FLIGHT, []
    for closed_s, batch in batches:
        answered_s = max(closed_s, heapq.heappop(free_s)) + rng.choice(answers_ms) / 1e3
        heapq.heappush(free_s, answered_s)
        latencies += [answered_s - came_s for came_s in batch]
    return np.array(latencies) * 1e3


@pytest.mark.parametrize(
    "setting", [BatchSetting(1, 0.0), BatchSetting(4, 100.0), BatchSetting(10, 60.0), BatchSetting(100, 50.0)]
)
def test_late_and_mean_are_those_of_a_simulated_gateway(setting: BatchSetting) -> None:
    answers_ms = np.random.default_rng(2).gamma(36.0, 0.8, 500)
    model = BatchModel.of(Observation(50.0, tuple(answers_ms)), LIMIT_MS, 1, 1_000)
    assert model is not None
    (prediction,) = model.predict([setting])
    latencies = simulated_latencies_ms(setting, 50.0, answers_ms, 20_000)
    assert prediction.late_ratio == pytest.approx((latencies > LIMIT_MS).mean(), abs=0.02)
    assert prediction.mean_ms == pytest.approx(latencies.mean(), rel=0.05)
    assert prediction.lost_ratio == 0
    assert prediction.timely_per_s == pytest.approx(50.0 * (1 - prediction.late_ratio))


def test_partitions_share_what_is_taken() -> None:
    answers_ms = (30.0, 31.0, 33.0)
    one = BatchModel.of(Observation(50.0, answers_ms), LIMIT_MS, 1, 1_000)
    four = BatchModel.of(Observation(200.0, answers_ms), LIMIT_MS, 4, 1_000)
    assert one is not None
    assert four is not None
    (a,), (b,) = one.predict([BatchSetting(4, 80.0)]), four.predict([BatchSetting(4, 80.0)])
    assert (a.late_ratio, a.mean_ms) == (b.late_ratio, b.mean_ms)


def test_what_gets_through_is_bounded_by_requests_and_by_the_link() -> None:
    observation = Observation(1_000.0, (100.0,), link=LINK)
    model = BatchModel.of(observation, 1_000.0, 1, 1_000)
    assert model is not None
    one, many = model.predict([BatchSetting(1, 0.0), BatchSetting(100, 10.0)])
    assert one.through_per_s == pytest.approx(5 / 0.05)
    assert many.through_per_s == pytest.approx(1_448 / 0.03 * math.sqrt(10) / 556.5)


@pytest.mark.parametrize(
    "unknown",
    ["message_bytes", "request_bytes", "rtt_ms", "loss_ratio", "segment_bytes", "congestion_control"],
)
def test_what_is_not_known_of_the_link_bounds_nothing(unknown: str) -> None:
    observation = Observation(1_000.0, (100.0,), link=replace(LINK, **{unknown: None}))
    model = BatchModel.of(observation, 1_000.0, 1, 1_000)
    assert model is not None
    assert model.predict([BatchSetting(100, 10.0)])[0].through_per_s == 1_000.0


def test_what_was_held_back_is_offered_as_much_as_the_greatest_batches_carry() -> None:
    # 5 requests of 10 messages in 500 ms are 100/s: no more was taken.
    seen = Observation(100.0, (500.0,), link=LinkState(request_ms=500.0))
    settings = [BatchSetting(10, 100.0), BatchSetting(100, 100.0)]
    taken = BatchModel.of(seen, 1_000.0, 1, 100)
    offered = BatchModel.of(replace(seen, held_back=True), 1_000.0, 1, 100)
    assert taken is not None
    assert offered is not None
    assert [p.through_per_s for p in taken.predict(settings)] == pytest.approx([100.0, 100.0])
    assert [p.through_per_s for p in offered.predict(settings)] == pytest.approx([100.0, 1_000.0])
    assert [p.mean_ms for p in offered.predict(settings)] == [p.mean_ms for p in taken.predict(settings)]


def test_loss_does_not_bound_bbr() -> None:
    observation = Observation(1_000.0, (100.0,), link=replace(LINK, congestion_control="bbr"))
    model = BatchModel.of(observation, 1_000.0, 1, 1_000)
    assert model is not None
    assert model.predict([BatchSetting(100, 10.0)])[0].through_per_s == 1_000.0


@pytest.mark.parametrize("observation", [Observation(0.0, (5.0,)), Observation(10.0, ())])
def test_nothing_seen_is_no_model(observation: Observation) -> None:
    assert BatchModel.of(observation, LIMIT_MS, 1, 1_000) is None


@given(
    st.lists(
        st.builds(BatchSetting, st.integers(1, 60), st.sampled_from([0.0, 10.0, 80.0])),
        min_size=1,
        max_size=8,
    ),
    st.floats(0.1, 2_000),
)
def test_settings_are_predicted_in_their_order_as_each_is_alone(
    settings: list[BatchSetting], per_s: float
) -> None:
    model = BatchModel.of(Observation(per_s, (20.0, 40.0, 90.0)), LIMIT_MS, 2, 1_000)
    assert model is not None
    together = model.predict(settings)
    assert [prediction.setting for prediction in together] == settings
    for prediction in together:
        (alone,) = model.predict([prediction.setting])
        assert prediction.late_ratio == pytest.approx(alone.late_ratio, abs=1e-9)
        assert prediction.mean_ms == pytest.approx(alone.mean_ms)
        assert 0 <= prediction.timely_per_s <= prediction.through_per_s <= per_s
