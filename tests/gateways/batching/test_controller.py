"""The controller over many periods: it keeps, changes, falls back and returns as it is told to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.batcher import BatchSetting
from gateways.batching.controller import Controller, ControllerSettings, Decision
from gateways.batching.observation import LinkState, Observation
from gateways.batching.policies import POLICIES
from gateways.batching.rules import Bounds

CONFIGURED = BatchSetting(10, 100.0)
SETTINGS = ControllerSettings(
    policy="timely",
    limit_ms=350.0,
    period_s=10.0,
    bounds=Bounds(CONFIGURED, 1_000),
    partitions=2,
)
OBSERVED = st.builds(
    Observation,
    per_s=st.sampled_from([0.0, 5.0, 100.0, 1_500.0]),
    answers_ms=st.sampled_from([(), (40.0, 44.0), (200.0, 290.0, 340.0), (900.0,)]),
    late_ratio=st.none() | st.sampled_from([0.0, 0.3, 1.0]),
    link=st.builds(
        LinkState,
        request_ms=st.none() | st.sampled_from([30.0, 400.0]),
        message_bytes=st.just(555.0),
        request_bytes=st.just(150.0),
        rtt_ms=st.none() | st.just(30.0),
        loss_ratio=st.none() | st.sampled_from([0.0, 0.08, 0.3]),
        segment_bytes=st.just(1_448),
        congestion_control=st.just("cubic"),
    ),
)


def seen(late_ratio: float | None, answer_ms: float = 40.0) -> Observation:
    return Observation(100.0, tuple(answer_ms + 0.1 * n for n in range(50)), late_ratio=late_ratio)


def played(observations: list[Observation], policy: str = "timely") -> list[Decision]:
    controller = Controller(replace(SETTINGS, policy=policy))
    return [controller.decide(observation, 10.0 * at) for at, observation in enumerate(observations, 1)]


@given(st.sampled_from(sorted(POLICIES)), st.lists(OBSERVED, max_size=12))
def test_decisions_are_a_chain_and_the_same_again(policy: str, observations: list[Observation]) -> None:
    decisions = played(observations, policy)
    before = CONFIGURED
    expected = None
    for decision, observation in zip(decisions, observations, strict=True):
        assert decision.before == before
        assert decision.expected == expected
        assert decision.observation == observation
        assert decision.reason
        assert decision.prediction is None or decision.prediction.setting == decision.setting
        assert (decision.rule in {"configured", "blind"}) == (decision.prediction is None)
        before, expected = decision.setting, decision.prediction
    assert decisions == played(observations, policy)


@given(st.lists(OBSERVED, max_size=12))
def test_fixed_changes_nothing(observations: list[Observation]) -> None:
    controller = Controller(replace(SETTINGS, policy="fixed", period_s=0.01))
    assert all(controller.decide(o, 0.0).setting == CONFIGURED for o in observations)


def test_where_nothing_was_confirmed_it_keeps_its_setting_and_says_so() -> None:
    (decision,) = played([Observation(100.0)])
    assert (decision.rule, decision.setting, decision.prediction) == ("blind", CONFIGURED, None)


def test_a_collapsing_link_makes_greater_batches_and_its_return_does_not_flap() -> None:
    # Requests that take 30 ms, then 600 ms: five of 10 messages then carry 83 of 300 messages/s.
    def period(request_ms: float) -> Observation:
        answers = tuple(request_ms + n / 10 for n in range(50))
        return Observation(300.0, answers, link=LinkState(request_ms))

    controller = Controller(replace(SETTINGS, limit_ms=1_000.0))
    good = controller.decide(period(30.0), 10.0)
    collapsed = controller.decide(period(600.0), 20.0)
    again = controller.decide(period(600.0), 30.0)
    assert good.setting == CONFIGURED
    assert collapsed.rule == "largest"
    assert collapsed.setting.messages > 300 * 0.6 / 5 / 1.05
    assert collapsed.prediction is not None
    assert collapsed.prediction.lost_ratio < 0.05
    assert again.setting == collapsed.setting


def test_a_gateway_that_is_held_back_makes_greater_batches_though_it_takes_no_more_than_it_sends() -> None:
    answers = tuple(500.0 + n / 10 for n in range(50))
    seen = Observation(100.0, answers, link=LinkState(500.0))
    kept, changed = (
        Controller(replace(SETTINGS, limit_ms=1_000.0)).decide(replace(seen, held_back=held_back), 10.0)
        for held_back in (False, True)
    )
    assert (kept.rule, kept.setting) == ("kept", CONFIGURED)
    assert (changed.rule, changed.setting.messages) == ("largest", 1_000)


def test_predictions_that_have_drifted_give_way_to_the_deadline_rule_until_they_hold_again() -> None:
    late, right = seen(0.6), seen(0.0)
    decisions = played([right, late, late, late, right, right])
    assert [d.rule for d in decisions] == ["kept", "kept", "drifted", "drifted", "drifted", "kept"]
    assert decisions[1].drift == pytest.approx(0.6, abs=0.02)
    assert "off by more than 0.2" in decisions[2].reason
    assert decisions[2].setting.messages == 1_000
    assert decisions[5].setting == decisions[4].setting, "a setting that is as good is kept"


def test_one_drifted_period_or_one_of_which_nothing_is_known_changes_no_mind() -> None:
    late, right, unknown = seen(0.6), seen(0.0), seen(None)
    rules = [d.rule for d in played([right, late, right, late, unknown, late])]
    assert rules == ["kept", "kept", "kept", "kept", "kept", "drifted"]
    assert played([right, unknown])[1].drift is None


def test_the_published_policy_does_not_fall_back() -> None:
    assert {d.rule for d in played([seen(0.9)] * 6, "reactive")} <= {"largest", "kept"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policy": "best"}, "policy 'best': allowed fixed, timely, reactive, pareto, deadline"),
        ({"limit_ms": 0.0}, "limit_ms 0.0: must be above 0"),
        ({"period_s": 0.35}, "period_s 0.35: shorter than a batch, which may wait 350 ms"),
        ({"bounds": Bounds(BatchSetting(2, 20_000.0), 9)}, "which may wait 20000 ms"),
        ({"partitions": 0}, "partitions 0: 1 at least"),
        ({"drift_max": 0.0}, "drift_max 0.0"),
        ({"drift_periods": 0}, "drift_periods 0"),
    ],
)
def test_what_no_controller_can_obey_is_refused_by_name(changed: dict, said: str) -> None:
    with pytest.raises(ValueError) as refusal:
        replace(SETTINGS, **changed)
    assert said in str(refusal.value)
