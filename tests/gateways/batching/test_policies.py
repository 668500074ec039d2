"""Policies against a search through everything they may choose from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching import rules
from gateways.batching.batcher import BatchSetting
from gateways.batching.model import BatchModel, Prediction
from gateways.batching.observation import LinkState, Observation
from gateways.batching.policies import POLICIES
from gateways.batching.rules import Bounds, deadline, pareto, pareto_front, reactive, timely

CONFIGURED = BatchSetting(10, 100.0)
BOUNDS = Bounds(CONFIGURED, 1_000)
OBSERVED = st.builds(
    Observation,
    per_s=st.floats(0.5, 3_000),
    answers_ms=st.lists(st.floats(1, 1_500), min_size=1, max_size=20).map(tuple),
    link=st.builds(
        LinkState,
        request_ms=st.none() | st.floats(1, 1_000),
        message_bytes=st.none() | st.floats(50, 2_000),
        request_bytes=st.floats(0, 500),
        rtt_ms=st.none() | st.floats(1, 1_000),
        loss_ratio=st.none() | st.floats(0, 0.6),
        segment_bytes=st.just(1_448),
        congestion_control=st.sampled_from(["cubic", "bbr"]),
    ),
    held_back=st.booleans(),
)
SETTINGS = st.builds(BatchSetting, st.integers(1, 1_000), st.floats(0, 500))
PREDICTIONS = st.lists(
    st.builds(
        Prediction, st.just(CONFIGURED), st.just(0.0), st.sampled_from([0.0, 0.1, 0.2, 0.5]), st.just(100.0),
        st.sampled_from([10.0, 20.0, 30.0, 40.0]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def model(observation: Observation, limit_ms: float = 350.0) -> BatchModel:
    made = BatchModel.of(observation, limit_ms, 2, 1_000)
    assert made is not None
    return made


def calm(answer_ms: float = 40.0, per_s: float = 100.0) -> Observation:
    return Observation(per_s, tuple(answer_ms * (0.9 + 0.2 * n / 99) for n in range(100)))


@given(OBSERVED, SETTINGS, st.floats(20, 2_000))
def test_whatever_is_seen_every_policy_chooses_within_its_bounds(
    observation: Observation, now: BatchSetting, limit_ms: float
) -> None:
    made = model(observation, limit_ms)
    for name, policy in POLICIES.items():
        if policy.rule is None:
            continue
        rule = getattr(rules, policy.rule)
        choice = rule(made, now, BOUNDS)
        assert 1 <= choice.setting.messages <= 1_000, name
        assert choice.setting.wait_ms <= max(limit_ms, CONFIGURED.wait_ms, now.wait_ms)
        assert 0 <= choice.prediction.timely_per_s <= choice.prediction.per_s * (1 + 1e-9)
        assert choice.prediction.per_s == observation.per_s or observation.held_back
        assert (choice.rule == "kept") <= (choice.setting == now)
        assert rule(made, now, BOUNDS) == choice, "the same state gives the same choice"


@given(OBSERVED, SETTINGS)
def test_reactive_finds_the_largest_timely_throughput_of_all_its_counts(
    observation: Observation, now: BatchSetting
) -> None:
    made = model(observation)
    choice = reactive(made, now, BOUNDS)
    every = [made.predict([BatchSetting(count, 100.0)])[0].timely_per_s for count in BOUNDS.counts]
    assert choice.prediction.timely_per_s == pytest.approx(max(every), abs=1e-5)
    assert choice.setting.wait_ms == 100.0


@given(PREDICTIONS)
def test_the_front_is_what_nothing_beats(predictions: list[Prediction]) -> None:
    def beaten(one: Prediction) -> bool:
        return any(
            (o.mean_ms <= one.mean_ms and o.through_per_s >= one.through_per_s)
            and (o.mean_ms, o.through_per_s) != (one.mean_ms, one.through_per_s)
            for o in predictions
        )

    front = [(p.mean_ms, p.through_per_s) for p in pareto_front(predictions)]
    assert len(front) == len(set(front))
    assert set(front) == {(p.mean_ms, p.through_per_s) for p in predictions if not beaten(p)}


def test_pareto_keeps_the_mean_and_not_the_share_in_time() -> None:
    # Answers of 200 ms and 5 requests carry 25 messages/s of 100 at a count of 1: only a greater one carries all.
    made = model(calm(200.0), 280.0)
    choice = pareto(made, CONFIGURED, BOUNDS)
    assert choice.prediction.mean_ms <= 280.0
    assert choice.prediction.per_s == choice.prediction.through_per_s
    assert reactive(made, CONFIGURED, BOUNDS).prediction.timely_per_s >= choice.prediction.timely_per_s
    late = pareto(model(calm(200.0), 150.0), CONFIGURED, BOUNDS)
    assert late.setting.messages == 1, "no mean keeps the limit: the least"


def test_the_deadline_rule_leaves_the_answers_their_time_and_no_more() -> None:
    choice = deadline(model(calm()), CONFIGURED, BOUNDS)
    assert choice.rule == "deadline"
    assert choice.setting.messages == 1_000
    assert choice.setting.wait_ms == pytest.approx(350.0 - 44.0, abs=0.5)
    assert choice.prediction.late_ratio <= 0.01


@pytest.mark.parametrize("policy", [deadline, timely])
def test_a_limit_below_the_path_s_delay_is_said_with_the_smallest_that_can_be_kept(policy) -> None:
    choice = policy(model(calm(500.0)), CONFIGURED, BOUNDS)
    assert choice.rule == "unreachable"
    assert "no setting keeps 350 ms" in choice.reason
    assert "takes 549 ms" in choice.reason


def test_timely_changes_for_a_gain_that_is_worth_it_alone() -> None:
    kept = timely(model(calm()), CONFIGURED, BOUNDS)
    assert (kept.rule, kept.setting) == ("kept", CONFIGURED)
    # At answers of 300 ms no message may wait 100 ms, and a batch of 1 carries 17 of 100 messages/s.
    changed = timely(model(calm(300.0)), CONFIGURED, BOUNDS)
    assert changed.rule == "largest"
    assert changed.setting.wait_ms < 350 - 300
    assert changed.prediction.timely_per_s > 1.05 * model(calm(300.0)).predict([CONFIGURED])[0].timely_per_s
    assert timely(model(calm(300.0)), changed.setting, BOUNDS).setting == changed.setting


@given(OBSERVED, SETTINGS)
def test_timely_is_at_most_its_hysteresis_behind_reactive_s_best_of_one_age(
    observation: Observation, now: BatchSetting
) -> None:
    made = model(observation)
    choice = timely(made, now, BOUNDS)
    if choice.rule == "unreachable":
        return
    (kept,) = made.predict([now])
    assert choice.prediction.timely_per_s >= kept.timely_per_s
    assert (
        choice.prediction.timely_per_s * (1 + BOUNDS.gain_min)
        >= made.predict([BatchSetting(1, 0.0)])[0].timely_per_s
    )


def test_the_table_says_what_each_is() -> None:
    assert list(POLICIES) == ["fixed", "timely", "reactive", "pareto", "deadline"]
    assert [name for name, policy in POLICIES.items() if policy.rule is None] == ["fixed"]
    assert [name for name, policy in POLICIES.items() if policy.falls_back] == ["timely"]


@pytest.mark.parametrize(("messages_max", "gain_min"), [(9, 0.05), (10, -0.1), (10, 1.0)])
def test_bounds_that_bound_nothing_are_refused(messages_max: int, gain_min: float) -> None:
    with pytest.raises(ValueError, match=r"at most|from 0"):
        Bounds(CONFIGURED, messages_max, gain_min)


def test_the_configured_count_and_the_greatest_are_always_to_choose_from() -> None:
    assert Bounds(BatchSetting(4, 1.0), 12).counts == (1, 2, 3, 4, 5, 7, 10, 12)
