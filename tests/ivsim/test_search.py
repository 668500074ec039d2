"""The search for the highest load, against systems with a ceiling that is known, and with noise."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ivsim.search import Ask, Bounds, Found, Verdict, find

BOUNDS = st.builds(
    lambda first, ratio, resolution, growth: Bounds(
        first, max(first, round(first * ratio)), resolution, growth
    ),
    st.integers(1, 500),
    st.floats(1.0, 1_000.0),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.sampled_from([1.1, 1.5, 2.0]),
)


class System:
    """Meets the level up to its ceiling; within `noise` of it, either way, chance decides."""

    def __init__(self, ceiling: float, noise: float = 0.0, seed: int = 0, above: Verdict = "missed") -> None:
        self.ceiling, self.noise, self.above = ceiling, noise, above
        self.random = random.Random(seed)
        self.asked: list[Ask] = []

    def __call__(self, ask: Ask) -> Verdict:
        self.asked.append(ask)
        if abs(ask.load / self.ceiling - 1) < self.noise:
            return self.random.choice(["met", self.above])
        return "met" if ask.load <= self.ceiling else self.above


@given(BOUNDS, st.floats(0.1, 1e6))
def test_without_noise_the_ceiling_is_found_to_the_resolution(bounds: Bounds, ceiling: float) -> None:
    system = System(ceiling)
    found = find(bounds, system)
    assert len(system.asked) <= bounds.most_measurements
    assert all(bounds.first <= ask.load <= bounds.most for ask in system.asked)
    if ceiling < bounds.first:
        assert found == Found(None, bounds.first, "missed")
        assert len(system.asked) == 1
    elif ceiling >= bounds.most:
        assert found == Found(bounds.most, None, None)
    else:
        assert found.capacity is not None
        assert found.failed_at is not None
        assert found.capacity <= ceiling < found.failed_at
        assert found.failed_at - found.capacity <= max(1, found.capacity * bounds.resolution_ratio)
        assert [ask.kind for ask in system.asked[-3:]] == ["confirmation"] * 3
        assert [ask.repetition for ask in system.asked[-3:]] == [0, 1, 2]


@given(BOUNDS, st.floats(1.0, 1e5), st.integers(0, 2**32))
def test_noise_never_lifts_the_answer_above_the_ceiling_by_more_than_the_resolution(
    bounds: Bounds, ceiling: float, seed: int
) -> None:
    system = System(ceiling, bounds.resolution_ratio, seed)
    found = find(bounds, system)
    assert len(system.asked) <= bounds.most_measurements
    assert found.capacity is None or found.capacity <= ceiling * (1 + bounds.resolution_ratio)
    # What is reported has met the level in all of its repetitions, and nothing lower has failed since.
    if found.capacity is not None:
        assert [ask[:2] for ask in system.asked[-3:]] == [("confirmation", found.capacity)] * 3


@given(BOUNDS, st.floats(1.0, 1e5), st.floats(0.3, 0.99))
def test_a_longer_hold_that_shows_a_lower_ceiling_is_believed(
    bounds: Bounds, ceiling: float, share: float
) -> None:
    def measure(ask: Ask) -> Verdict:
        return "met" if ask.load <= ceiling * (share if ask.kind == "confirmation" else 1) else "missed"

    found = find(bounds, measure)
    assert found.capacity is None or found.capacity <= ceiling * share


@given(st.lists(st.sampled_from(["met", "missed", "generator", "invalid", "broke"]), max_size=300), BOUNDS)
def test_whatever_is_measured_it_ends(verdicts: list[Verdict], bounds: Bounds) -> None:
    said = iter(verdicts)
    asked: list[Ask] = []

    def measure(ask: Ask) -> Verdict:
        asked.append(ask)
        return next(said, "missed")

    find(bounds, measure)
    assert len(asked) <= bounds.most_measurements


@given(BOUNDS, st.floats(1.0, 1e5), st.sampled_from(["generator", "invalid"]))
def test_a_run_that_says_nothing_is_made_once_more(bounds: Bounds, ceiling: float, nothing: Verdict) -> None:
    asked: list[Ask] = []

    def measure(ask: Ask) -> Verdict:
        asked.append(ask)
        return nothing if len(asked) % 2 else System(ceiling)(ask)

    assert find(bounds, measure) == find(bounds, System(ceiling))
    assert asked[::2] == asked[1::2]


def test_a_generator_that_gives_way_is_named_as_what_ended_the_search() -> None:
    assert find(Bounds(10, 1_000, 0.05), System(100, above="generator")).verdict == "generator"
    assert find(Bounds(10, 1_000, 0.05), System(5, above="generator")) == Found(None, 10, "generator")
