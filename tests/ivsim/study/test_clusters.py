"""Intervals hold the truth as often as they say, in studies of the bundled designs whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bench.worlds import (
    Design,
    coverage_of_means,
    coverage_of_shares,
    designs,
    false_differences,
    latencies,
    true_mean,
)
from ivsim.study.clusters import (
    BATCH,
    MIN_BEYOND,
    REPETITION,
    Clusters,
    batches,
    difference_of_intervals,
    difference_of_means,
    of_repetitions,
    ratio_of_means,
    share_of_sums,
)
from ivsim.study.statistics import mean_interval

LEAST, MOST = 0.93, 0.97


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def trials_of(design: Design) -> int:
    """Return as many made-up studies as take about half a second."""
    return min(4_000, 3_000_000 // (design.repetitions * design.vehicles * design.messages))


def near(found: float, trials: int) -> bool:
    """Return whether a coverage is within the bounds but for what so many trials leave open (three sigma)."""
    slack = 3 * math.sqrt(0.05 * 0.95 / trials)
    return LEAST - slack <= found <= MOST + slack


@pytest.mark.parametrize("design", designs(), ids=str)
@pytest.mark.parametrize(
    ("skew", "apart"), [*(pytest.param(skew, 0.0, marks=pytest.mark.full) for skew in (0.0, 0.6)), (0.6, 1.0)]
)
def test_intervals_of_means_cover_what_they_say(design: Design, skew: float, apart: float):
    trials = trials_of(design)
    now, before = coverage_of_means(design, trials, generator(1), skew=skew, apart=apart)
    assert near(now, trials)
    # The world is one in which messages for the unit would not do.
    assert before < 0.8


def test_over_all_designs_means_cover_93_to_97_per_cent():
    worlds = [
        (coverage_of_means(d, trials_of(d), generator(2), skew=0.6)[0], trials_of(d)) for d in designs()
    ]
    held = sum(found * trials for found, trials in worlds) / sum(trials for _, trials in worlds)
    assert LEAST <= held <= MOST


@pytest.mark.parametrize("design", [d for d in designs() if d.messages < 200], ids=str)
@pytest.mark.parametrize(
    "ratio", [0.05, *(pytest.param(more, marks=pytest.mark.full) for more in (0.1, 0.25))]
)
def test_intervals_of_loss_cover_what_they_say_when_it_comes_in_bursts(design: Design, ratio: float):
    trials = trials_of(design)
    now, before = coverage_of_shares(design, trials, generator(3), ratio=ratio, burst=4.0)
    assert near(now, trials)
    assert before < 0.8


@pytest.mark.parametrize("design", [d for d in designs() if d.messages < 200], ids=str)
def test_of_few_bursts_an_interval_is_rather_too_wide_than_too_narrow(design: Design):
    trials = trials_of(design)
    assert coverage_of_shares(design, trials, generator(4), ratio=0.01, burst=4.0)[0] >= 0.925


@pytest.mark.parametrize("design", [d for d in designs() if d.messages < 100], ids=str)
@pytest.mark.parametrize("apart", [pytest.param(0.0, marks=pytest.mark.full), 1.0])
def test_studies_alike_but_for_the_seed_do_not_differ(design: Design, apart: float):
    found = false_differences(design, 100, 24, generator(5), apart=apart)
    assert found.rows <= 0.05


@pytest.mark.full
def test_where_repetitions_are_alike_whole_tables_keep_five_per_cent():
    found = [false_differences(d, 160, 24, generator(6)).tables for d in designs() if d.messages < 100]
    assert np.mean(found) <= 0.05


def made(design: Design, trial: int, *, skew: float = 0.6) -> Clusters:
    """Return one made-up cell, message by message."""
    series = np.array(list(latencies(design, 1, generator(1_000 + trial), skew=skew, apart=0.0)))[:, 0]
    of = np.indices(series.shape)
    return Clusters(series.ravel(), of[1].ravel(), of[2].ravel(), design.repetitions, design.vehicles)


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_intervals_of_quantiles_cover_what_they_say(share: float):
    design = Design("made", 3, 40, 25)
    truth = math.exp(0.6 * stats.norm.ppf(share))
    found = [made(design, k).quantile(share) for k in range(600)]
    known = [i for i in found if i.low is not None]
    assert len(known) > 400
    held = np.mean([i.low <= truth <= i.high for i in known])
    assert near(float(held), len(known))


def test_a_quantile_has_no_interval_where_too_little_lies_beyond_it():
    few = made(Design("made", 3, 10, 10), 1)
    assert few.n == 300
    assert few.quantile(0.99).estimate is not None
    assert few.quantile(0.99).low is None
    many = Clusters(
        generator(1).exponential(size=60_000),
        np.repeat(np.arange(3), 20_000),
        np.tile(np.repeat(np.arange(100), 200), 3),
        *(3, 100),
    )
    found = many.quantile(0.99)
    assert found.effective * 0.01 >= MIN_BEYOND
    assert found.low < -math.log(0.01) < found.high


def test_the_design_effect_is_that_of_the_world():
    found = [made(Design("made", 3, 40, 25), k, skew=0.0).mean().design_effect for k in range(100)]
    assert 8 < np.median(found) < 12


def test_independent_units_have_students_interval():
    values = generator(2).normal(10.0, 2.0, 30)
    cell = Clusters(values, np.zeros(30, np.int64), np.arange(30), 1, 30)
    ours, students = cell.mean(), mean_interval(values)
    # But for skewness, which is allowed for in a single repetition.
    assert ours.low == pytest.approx(students.low, abs=0.1)
    assert ours.high == pytest.approx(students.high, abs=0.1)
    assert (ours.unit, ours.units, ours.repetitions) == ("vehicle", 30, 1)


def test_figures_of_repetitions_have_students_interval_from_three_on():
    found = of_repetitions([-4.0, 5.0, 9.0])
    assert (found.low, found.high) == pytest.approx(mean_interval([-4.0, 5.0, 9.0])[1:3])
    assert found.unit == REPETITION
    assert of_repetitions([4.0, 5.0]).low is None
    assert of_repetitions([]).estimate is None


def test_what_cannot_be_negative_has_no_interval_below_zero():
    """The half width of Student's interval, as a factor: on the log scale."""
    found, students = of_repetitions([1.0, 2.0, 30.0]), mean_interval([1.0, 2.0, 30.0])
    assert students.low < 0 < found.low < found.estimate == students.estimate
    half = (students.high - students.estimate) / students.estimate
    assert (found.low, found.high) == pytest.approx((11 * math.exp(-half), 11 * math.exp(half)))
    # A count that may be 0 has no logarithm: it is cut there, and the test goes by its error.
    rare, none = of_repetitions([0.0, 0.0, 0.0, 0.0, 5.0]), of_repetitions([0.0] * 5)
    assert (rare.low, rare.high) == pytest.approx((0.0, mean_interval([0.0] * 4 + [5.0]).high))
    assert none[:3] == (0.0, 0.0, 0.0)
    assert difference_of_intervals(none, rare).p_value == pytest.approx(0.374, abs=1e-3)
    # Of many that are near each other the two scales agree.
    near_each_other = generator(8).normal(100.0, 1.0, 40)
    assert of_repetitions(near_each_other).low == pytest.approx(mean_interval(near_each_other).low, rel=1e-4)


def test_repetitions_that_differ_widen_the_interval():
    values = generator(3).normal(100.0, 1.0, (3, 20, 10))
    of = np.indices(values.shape)

    def cell(shift: np.ndarray) -> Clusters:
        return Clusters((values + shift).ravel(), of[0].ravel(), of[1].ravel(), 3, 20)

    alike, apart = cell(np.zeros(1)).mean(), cell(np.array([-5.0, 0.0, 5.0])[:, None, None]).mean()
    assert apart.high - apart.low > 20 * (alike.high - alike.low)
    assert apart.freedom == 2


def test_batches_are_whole_and_few_messages_are_none():
    repetition = np.repeat(np.arange(2), 100)
    found = batches(np.arange(200.0), repetition, 2)
    assert (found.units, found.kind) == (6, BATCH)
    assert found.counts().min() >= 15
    assert np.all(np.diff(found.unit[:100]) >= 0)
    single = batches(np.arange(20.0), np.zeros(20, np.int64), 1)
    assert (single.units, single.mean().low) == (1, None)


def test_a_share_of_nothing_lost_is_bounded_by_its_units():
    none = np.zeros(900)
    cell = Clusters(none, np.repeat(np.arange(3), 300), np.tile(np.repeat(np.arange(30), 10), 3), 3, 30)
    found = cell.share()
    assert (found.estimate, found.low, found.effective) == (0.0, 0.0, 90)
    # The exact interval of 0 of 90, not of 0 of 900.
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 90))
    assert share_of_sums(np.zeros(90), np.full(90, 10.0), "link").high == pytest.approx(found.high)


def pair(shift: float) -> tuple[Clusters, Clusters]:
    rng = generator(7)
    road = rng.exponential(100.0, (3, 20, 1)) + rng.normal(0, 5, (3, 20, 10))
    of = np.indices(road.shape)
    where = (of[0].ravel(), of[1].ravel(), 3, 20)
    other = road + shift + rng.normal(0, 1, road.shape)
    return Clusters(road.ravel(), *where), Clusters(other.ravel(), *where)


def minus(second: Clusters, first: Clusters) -> Clusters:
    return replace(first, values=second.values - first.values)


def test_the_same_vehicles_tell_what_other_vehicles_cannot():
    first, second = pair(3.0)
    paired = minus(second, first).mean_comparison()
    same, other = (difference_of_means(first, second, same_units=same) for same in (True, False))
    assert paired.p_value < 1e-6
    assert same.p_value < 1e-6
    assert paired.low < 3.0 < paired.high
    assert other.p_value > 0.5
    assert paired.repetitions == 3


def test_what_differs_by_nothing_has_p_1_and_by_a_constant_p_0():
    first, _ = pair(0.0)
    assert minus(first, first).mean_comparison().p_value == 1.0
    moved = Clusters(first.values + 2.0, first.repetition, first.unit, 3, 20)
    assert minus(moved, first).mean_comparison().p_value < 1e-12


def test_a_ratio_of_means_holds_the_truth():
    held = 0
    for k in range(300):
        above, below = (made(Design("made", 3, 20, 10), 2 * k + side) for side in (0, 1))
        found = ratio_of_means(above, below)
        held += found.low <= 1.0 <= found.high
    assert near(held / 300, 300)
    assert true_mean(0.6) == pytest.approx(made(Design("made", 3, 20, 10), 1).mean().estimate, rel=0.3)


def test_figures_with_intervals_alone_are_compared_by_their_facing_sides():
    first, second = made(Design("made", 3, 40, 25), 1), made(Design("made", 3, 40, 25), 2)
    alike = difference_of_intervals(first.quantile(0.5), second.quantile(0.5))
    assert alike.p_value > 0.05
    far = Clusters(second.values * 3, second.repetition, second.unit, 3, 40)
    assert difference_of_intervals(first.quantile(0.5), far.quantile(0.5)).p_value < 1e-4
    assert difference_of_intervals(first.quantile(0.5), of_repetitions([1.0])) is None
