"""Loss behind a bad link: the formula against a queue simulated request by request, the fits against known curves."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info

from gateways.batching.loss import Goodput, LossLogistic, LossModel, tcp_bytes_per_s
from gateways.batching.loss_boosting import LossBoosting

RNG = np.random.default_rng(5)
CELLS = [
    (loss, count, acknowledged)
    for loss in (0.0, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
    for count in (1, 2, 3, 5, 10)
    for acknowledged in (0, 1)
]
LOSS, COUNT, ACKNOWLEDGED = (np.array(column, dtype=np.float64) for column in zip(*CELLS, strict=True))
TRUE = LossLogistic(0.12, 0.02, 0.05, 0.04)


def queued_loss(
    per_s: float, in_flight: int, answer_ms: float, messages: int, expiry_s: float, run_s: float
) -> float:
    """Return the share that expires in front of a window of requests, each of `messages`, answered after a fixed time."""
    waiting = deque(np.arange(0, run_s, 1 / per_s).tolist())
    offered, sent, answers = len(waiting), 0, deque([0.0] * in_flight)
    while waiting:
        now_s = answers.popleft()
        while waiting and waiting[0] < now_s - expiry_s:
            waiting.popleft()
        if len(waiting) < messages:
            return 1 - (sent + len(waiting)) / offered
        now_s = max(now_s, waiting[messages - 1])
        for _ in range(messages):
            waiting.popleft()
        sent += messages
        answers.append(now_s + answer_ms / 1e3)
    return 1 - sent / offered


@pytest.mark.parametrize("messages", [1, 2, 3, 10])
@pytest.mark.parametrize("answer_ms", [31.0, 100.0, 300.0])
def test_requests_in_flight_bound_what_gets_through(messages: int, answer_ms: float) -> None:
    model = Goodput(200.0, 5, answer_ms, math.inf, 555.0, 150.0)
    simulated = queued_loss(200.0, 5, answer_ms, messages, 2.0, 300.0)
    assert model.lost(messages) == pytest.approx(simulated, abs=0.02)


def test_the_link_bounds_what_gets_through_and_a_batch_shares_its_request() -> None:
    model = Goodput(2_000.0, math.inf, 31.0, 141_000.0, 555.0, 150.0)
    assert model.through_per_s(1) == pytest.approx(141_000 / 705)
    assert model.through_per_s(100) == pytest.approx(141_000 / 556.5)
    assert model.lost([1, 100]) == pytest.approx([0.9, 0.873], abs=0.001)


@given(
    st.floats(1, 1e5),
    st.floats(1, 100),
    st.floats(0.1, 1e4),
    st.floats(100, 1e8),
    st.floats(1, 1e4),
    st.floats(0, 1e3),
)
def test_goodput_loses_a_share_that_falls_with_the_count(
    per_s: float,
    in_flight: float,
    answer_ms: float,
    bytes_per_s: float,
    message_bytes: float,
    request_bytes: float,
) -> None:
    model = Goodput(per_s, in_flight, answer_ms, bytes_per_s, message_bytes, request_bytes)
    lost = model.lost(np.arange(1, 50))
    assert ((lost >= 0) & (lost < 1)).all()
    assert (np.diff(lost) <= 1e-12).all()
    assert (model.through_per_s(np.arange(1, 50)) <= per_s).all()


@pytest.mark.parametrize("field", ["per_s", "in_flight", "answer_ms", "bytes_per_s", "message_bytes"])
def test_goodput_refuses_what_is_no_link(field: str) -> None:
    good = {
        "per_s": 1.0,
        "in_flight": 5,
        "answer_ms": 1.0,
        "bytes_per_s": 1.0,
        "message_bytes": 1.0,
        "request_bytes": 0.0,
    }
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=field):
            Goodput(**{**good, field: bad})
    with pytest.raises(ValueError, match="request_bytes"):
        Goodput(**{**good, "request_bytes": -1.0})


def test_tcp_carries_what_the_window_s_sawtooth_does() -> None:
    # Mathis et al. (1997) by its own derivation: the window climbs from W/2 to W by 1 a round trip, and 1 of the
    # packets sent meanwhile is lost.
    window, rtt_ms = 60, 30.0
    rounds = range(window // 2, window)
    packets = sum(rounds)
    measured = 1448 * packets / (len(rounds) * rtt_ms / 1e3)
    assert tcp_bytes_per_s(1448, rtt_ms, 1 / packets) == pytest.approx(measured, rel=0.02)
    assert tcp_bytes_per_s(1448, 30.0, 0.15) == pytest.approx(152_000, rel=0.01)
    assert tcp_bytes_per_s(1448, 30.0, 0.0) == math.inf


@pytest.mark.parametrize(
    "arguments", [(0, 30.0, 0.1), (1448, 0.0, 0.1), (1448, 30.0, -0.1), (1448, 30.0, 1.1)]
)
def test_tcp_refuses_what_is_none(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        tcp_bytes_per_s(*arguments)


def test_a_logistic_comes_back_from_its_own_cells() -> None:
    exact = TRUE.lost(LOSS, COUNT, ACKNOWLEDGED)
    found = LossLogistic.fitted(LOSS, COUNT, ACKNOWLEDGED, exact)
    assert found.lost(LOSS, COUNT, ACKNOWLEDGED) == pytest.approx(exact, abs=1e-4)
    noisy = np.clip(exact + RNG.normal(0, 0.02, len(exact)), 0, 1)
    found = LossLogistic.fitted(LOSS, COUNT, ACKNOWLEDGED, noisy)
    assert np.abs(found.lost(LOSS, COUNT, ACKNOWLEDGED) - exact).mean() < 0.02


MODELS = [
    TRUE,
    LossBoosting.fitted(LOSS, COUNT, ACKNOWLEDGED, TRUE.lost(LOSS, COUNT, ACKNOWLEDGED)),
]


@pytest.mark.parametrize("model", MODELS)
def test_models_keep_shape_and_range_and_rise_with_the_link_s_loss(model: LossModel) -> None:
    losses = np.linspace(0, 0.6, 30)
    lost = model.lost(losses, 3, 1)
    assert lost.shape == (30,)
    assert ((lost >= 0) & (lost <= 1)).all()
    assert (np.diff(lost) >= -1e-12).all()
    assert model.lost(losses.reshape(5, 6), 3, 1).tolist() == lost.reshape(5, 6).tolist()
    counts = model.lost(0.15, np.arange(1, 11), 1)
    assert (np.diff(counts) <= 1e-12).all()


def test_boosting_predicts_cells_that_it_was_not_fitted_to_and_is_the_same_again() -> None:
    exact = TRUE.lost(LOSS, COUNT, ACKNOWLEDGED)
    rest = np.arange(len(exact)) % 4 != 0
    fit = [LossBoosting.fitted(LOSS[rest], COUNT[rest], ACKNOWLEDGED[rest], exact[rest]) for _ in range(2)]
    first, again = (model.lost(LOSS[~rest], COUNT[~rest], ACKNOWLEDGED[~rest]) for model in fit)
    assert first.tolist() == again.tolist()
    assert np.abs(first - exact[~rest]).mean() < 0.15


def test_boosting_waits_for_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = HistGradientBoostingRegressor.fit

    def noted(trees: HistGradientBoostingRegressor, *arguments: object) -> HistGradientBoostingRegressor:
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp")
        return fit(trees, *arguments)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", noted)
    LossBoosting.fitted(LOSS, COUNT, ACKNOWLEDGED, TRUE.lost(LOSS, COUNT, ACKNOWLEDGED))
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("model", [LossLogistic, LossBoosting])
def test_too_few_cells_are_refused(model: type[LossLogistic | LossBoosting]) -> None:
    with pytest.raises(ValueError, match="at least"):
        model.fitted([0.1, 0.2, 0.3], [1, 1, 1], [1, 1, 1], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="at least"):
        model.fitted(LOSS, COUNT, ACKNOWLEDGED, LOSS[:-1])
