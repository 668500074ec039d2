"""Laws of latency against scipy's own distributions, against what a paper printed, and against what they were drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from gateways.batching.gamma_law import Gamma, shape_of, spread_of_logs
from gateways.batching.hyper_erlang import HyperErlang
from gateways.batching.latency_laws import LatencyLaw, Sample, Uniform

# Of `B_S` 7 in Wu, Shang, Peng and Wolter (2020); their probabilities add up to 0.999999.
PRINTED = HyperErlang(
    (0.1736, 0.1456, 0.1926, 0.177733, 0.150733, 0.159734),
    (44, 148, 13, 18, 170, 72),
    (0.10376298, 0.20615273, 0.10828728, 0.06701713, 0.19943805, 0.12419047),
)
LIMITS = np.linspace(-50.0, 1_500.0, 40)


def drawn(law: HyperErlang, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    branch = rng.choice(len(law.weights), count, p=np.array(law.weights) / sum(law.weights))
    return rng.gamma(np.array(law.phases)[branch], 1 / np.array(law.rates_per_ms)[branch])


@given(st.floats(0.5, 500), st.floats(0.01, 100), st.lists(st.floats(-10, 1e4), min_size=1, max_size=5))
def test_gamma_is_scipys(shape: float, scale_ms: float, limits: list[float]) -> None:
    law, scipys = Gamma(shape, scale_ms), stats.gamma(shape, scale=scale_ms)
    assert law.late(limits) == pytest.approx(scipys.sf(limits), abs=1e-12)
    assert law.mean_ms == pytest.approx(scipys.mean())
    shares = np.array([0.01, 0.5, 0.99])
    assert law.quantile_ms(shares) == pytest.approx(scipys.ppf(shares), rel=1e-9)


def test_gamma_of_the_paper_has_the_share_it_printed() -> None:
    law = Gamma(36.0582, 2.35251)
    assert law.late(100.0) == pytest.approx(0.14, abs=0.003)
    assert law.mean_ms == pytest.approx(84.83, abs=0.01)


@given(st.floats(0.3, 2_000), st.floats(0.1, 50), st.integers(0, 9))
def test_fitted_gamma_is_of_the_greatest_likelihood(shape: float, scale_ms: float, seed: int) -> None:
    sample = np.random.default_rng(seed).gamma(shape, scale_ms, 300) + 1e-9
    law = Gamma.fitted(sample)

    def likelihood(a: float, b: float) -> float:
        return float(stats.gamma(a, scale=b).logpdf(sample).sum())

    best = likelihood(law.shape, law.scale_ms)
    for factor in (0.98, 1.02):
        assert best >= likelihood(law.shape * factor, law.scale_ms)
        assert best >= likelihood(law.shape, law.scale_ms * factor)
        assert best >= likelihood(law.shape * factor, law.scale_ms / factor)


@given(st.floats(-6, 12))
def test_a_shape_is_found_over_all_magnitudes(log10_shape: float) -> None:
    shape = 10**log10_shape
    # Of a Gamma law log a - psi(a), with its own series where the difference has no digits left.
    known = 0.5 / shape + 1 / 12 / shape**2
    excess = known if shape > 1e3 else float(math.log(shape) - stats.loggamma(shape).mean())
    assert shape_of(excess) == pytest.approx(shape, rel=1e-6)


def test_a_narrow_sample_has_a_gamma_and_an_equal_one_is_refused() -> None:
    sample = 100.0 + np.random.default_rng(1).normal(0, 1e-5, 1_000)
    law = Gamma.fitted(sample)
    assert law.mean_ms == pytest.approx(100.0)
    assert law.scale_ms * math.sqrt(law.shape) == pytest.approx(sample.std(), rel=1e-6)
    with pytest.raises(ValueError, match="equal"):
        Gamma.fitted([5.0, 5.0, 5.0])


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=30))
def test_the_spread_of_logs_is_that_of_its_definition_and_never_below_0(sample: list[float]) -> None:
    values = np.array(sample)
    spread = spread_of_logs(values, np.full(len(values), 1 / len(values)))
    assert spread >= 0
    assert spread == pytest.approx(math.log(values.mean()) - np.log(values).mean(), rel=1e-6, abs=1e-12)


def test_hyper_erlang_is_the_paper_s_closed_form_and_the_integral_of_its_density() -> None:
    at = np.array([100.0, 300.0, 500.0, 900.0])
    closed = sum(
        weight * stats.poisson.cdf(phases - 1, rate * at)
        for weight, phases, rate in zip(PRINTED.weights, PRINTED.phases, PRINTED.rates_per_ms, strict=True)
    )
    assert PRINTED.late(at) == pytest.approx(closed, abs=1e-12)
    assert PRINTED.mean_ms == pytest.approx(470, abs=1)
    area, _error = integrate.quad(lambda x: float(PRINTED.late(x)), 0, 3_000, limit=500)
    assert area == pytest.approx(PRINTED.mean_ms, rel=1e-6)


def test_hyper_erlang_comes_back_from_a_sample_of_it() -> None:
    law = HyperErlang.fitted(drawn(PRINTED, 3_000, 1))
    at = np.linspace(100, 1_000, 10)
    held_out = drawn(PRINTED, 100_000, 2)
    assert np.abs(law.late(at) - (held_out[:, None] > at).mean(axis=0)).mean() < 0.01
    assert sum(law.weights) == pytest.approx(1)
    assert law.mean_ms == pytest.approx(PRINTED.mean_ms, rel=0.03)


def test_hyper_erlang_of_one_branch_is_the_best_erlang() -> None:
    sample = np.random.default_rng(3).gamma(7, 10.0, 5_000)
    law = HyperErlang.fitted(sample, branches=1)
    scores = {k: stats.gamma(k, scale=sample.mean() / k).logpdf(sample).sum() for k in range(1, 30)}
    assert law.phases == (max(scores, key=scores.__getitem__),)


def test_more_branches_are_never_less_likely_and_a_step_stands() -> None:
    sample = np.concatenate([np.full(50, 20.0), np.random.default_rng(4).gamma(3, 100.0, 500)])
    law = HyperErlang.fitted(sample)
    assert np.isfinite(law.late(LIMITS)).all()
    assert law.late(19.0) - law.late(21.0) == pytest.approx(50 / 550, abs=0.03)


@given(st.floats(0, 500), st.floats(0.001, 5_000), st.floats(0.5, 1.5))
def test_uniform_is_scipys(least_ms: float, width_ms: float, alpha: float) -> None:
    law = Uniform(least_ms, (least_ms + width_ms) / alpha, alpha)
    assert law.late(LIMITS) == pytest.approx(stats.uniform(least_ms, width_ms).sf(LIMITS), abs=1e-6)


def test_uniform_is_bounded_by_unbatched_latencies_and_the_age() -> None:
    law = Uniform.bounded([45.0, 75.0, 50.0], 1_000.0)
    assert (law.least_ms, law.most_ms) == (45.0, 1_075.0)
    assert law.late([45.0, 0.9 * 1_075.0]).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="no width"):
        Uniform(100.0, 100.0)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(0, 55))
def test_a_sample_s_own_law_counts_it(values: list[int], limit: int) -> None:
    law = Sample.of(values)
    assert law.late(limit) == pytest.approx(sum(value > limit for value in values) / len(values))
    # The smallest latency that half of the sample does not exceed.
    assert law.quantile_ms(0.5) == sorted(values)[(len(values) - 1) // 2]


LAWS = (Gamma(2.0, 50.0), PRINTED, Uniform(40.0, 400.0), Sample.of([10.0, 20.0, 700.0]))


@pytest.mark.parametrize("law", LAWS)
def test_every_law_falls_from_all_to_none(law: LatencyLaw) -> None:
    late = law.late(LIMITS)
    assert late.shape == LIMITS.shape
    assert (np.diff(late) <= 1e-12).all()
    assert late[0] == pytest.approx(1, abs=1e-5)
    assert law.late(1e6) == pytest.approx(0, abs=1e-12)
    assert law.late(LIMITS.reshape(4, 10)).tolist() == late.reshape(4, 10).tolist()


@pytest.mark.parametrize("sample", [[], [1.0], [1.0, math.nan], [1.0, -1.0], [1.0, 0.0], [[1.0, 2.0]]])
def test_a_sample_that_has_no_law_is_refused(sample: list[float]) -> None:
    with pytest.raises(ValueError, match="sample of"):
        Gamma.fitted(sample)


def test_hyper_erlang_wants_two_latencies_a_branch() -> None:
    with pytest.raises(ValueError, match="12 at least"):
        HyperErlang.fitted(range(1, 12))
