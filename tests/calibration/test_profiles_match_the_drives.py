"""Generated series against the drives their profiles were fitted to: twelve simulations of the data's size.

The drives themselves are not in the project. The distribution is held against the profile's own quantile
table (the data's quantiles, rounded); autocorrelation, outages and bounds are the figures published with the
fit: KS 0.03 to 0.06 and inside the data's own split-half KS, ACF(1 s) within 0.03, outage share within 1.5
points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from simulator.traces import PROFILES, Profile
from simulator.traces.generator import loss_series, series
from simulator.traces.statistics import runs

SIMULATIONS = 12


@dataclass(frozen=True)
class Expected:
    """Size of the data, bounds and figures; `acf1` is the data's, `acf10` the published simulation's."""

    traces: int
    length_s: int
    ks_at_most: float
    acf1: float
    acf10: float
    outage: tuple[float, float, float] | None = None  # threshold kbit/s, share, mean s of the simulation
    acf1_within: float = 0.03
    simulations: int = SIMULATIONS


EXPECTED = {
    "ie-2018-car-ul-as-logged": Expected(53, 1576, 0.05, 0.892, 0.668, (10, 0.048, 2.9)),
    "ie-2018-car-ul-lte-only": Expected(53, 1093, 0.052, 0.882, 0.643, (10, 0.031, 2.7)),
    "ie-2018-car-dl": Expected(53, 1576, 0.056, 0.937, 0.714, (100, 0.027, 3.1)),
    # Small data: more simulations, so that the means hold still.
    "us-2024-car-ul-udp": Expected(75, 120, 0.06, 0.982, 0.787, (100, 0.079, 5.7), simulations=48),
    # Published as a weak point: the simulation has .763 where the data have .816. The bound is on the former.
    "us-2012-car-ul-pooled3": Expected(3, 1010, 0.06, 0.763, 0.354, (0, 0.050, 1.9), simulations=48),
    # A third of the data, to take a second.
    "us-2023-car-rtt": Expected(400, 30, 0.03, 0.76, 0.65),
}


def distribution(profile: Profile, values: np.ndarray) -> np.ndarray:
    """P(X <= value) by the profile's table, log-linear as the generator's."""
    within = np.interp(np.log(np.maximum(values, 1e-9)), np.log(profile.table), profile.quantiles)
    return np.where(values <= 0, profile.p0, profile.p0 + (1 - profile.p0) * within)


def ks_distance(profile: Profile, values: np.ndarray) -> float:
    x, count = np.unique(values, return_counts=True)
    up_to = np.cumsum(count) / len(values)
    below = up_to - count / len(values)
    expected = distribution(profile, x)
    before = np.where(x <= 0, 0.0, expected)
    return float(max(np.abs(up_to - expected).max(), np.abs(below - before).max()))


def pooled_acf(traces: list[np.ndarray], lag: int) -> float:
    everything = np.concatenate(traces)
    mean, variance = everything.mean(), everything.var()
    products = [(t[lag:] - mean) * (t[:-lag] - mean) for t in traces]
    return float(np.concatenate(products).mean() / variance)


def simulate(profile: Profile, expected: Expected, simulation: int) -> list[np.ndarray]:
    seeds = range(simulation * 10_000, simulation * 10_000 + expected.traces)
    return [series(profile, seed, expected.length_s) for seed in seeds]


# A drive's uplink and a pooled one show that the generator keeps to a profile, the RTT has tests of its own below; the figures
# of the others are data, and change with them alone.
IN_THE_GATE = {"ie-2018-car-ul-as-logged", "us-2012-car-ul-pooled3"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.full) for name in EXPECTED]
)
def test_simulations_match_the_published_fit(name):
    profile, expected = PROFILES[name], EXPECTED[name]
    figures = []
    for simulation in range(expected.simulations):
        traces = simulate(profile, expected, simulation)
        # The RTT figures are those of the logarithm: a few seconds of 10 s would be all there is to see.
        scored = [np.log(t) for t in traces] if profile.column == "rtt_ms" else traces
        row = [ks_distance(profile, np.concatenate(traces)), pooled_acf(scored, 1), pooled_acf(scored, 10)]
        if expected.outage:
            low = [t <= expected.outage[0] for t in traces]
            row += [np.concatenate(low).mean(), np.concatenate([runs(part) for part in low]).mean()]
        figures.append(row)
    ks, acf1, acf10, *outage = np.mean(figures, axis=0)
    print(f"\n{name}: KS {ks:.3f}, ACF1 {acf1:.3f}, ACF10 {acf10:.3f}, outage {np.round(outage, 3)}")
    assert ks <= expected.ks_at_most
    assert acf1 == pytest.approx(expected.acf1, abs=expected.acf1_within)
    assert acf10 == pytest.approx(expected.acf10, abs=0.03)
    if expected.outage:
        # The model's own share is exact; simulations scatter around it.
        model = float(distribution(profile, np.array([float(expected.outage[0])]))[0])
        assert model == pytest.approx(expected.outage[1], abs=0.015)
        assert outage[0] == pytest.approx(model, rel=0.15)
        assert outage[1] == pytest.approx(expected.outage[2], rel=0.15)


def test_the_papers_rtt_is_normal():
    values = series(PROFILES["huang-2012-lte"], 1, 100_000)
    assert values.mean() == pytest.approx(69.5, abs=0.06)
    assert values.std() == pytest.approx(5.6, abs=0.05)
    skew = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    assert abs(skew) < 0.03
    assert abs(pooled_acf([values], 1)) < 0.02


def test_driving_rtt_has_the_tail_of_the_pings():
    values = series(PROFILES["us-2023-car-rtt"], 5, 600_000)
    assert np.median(values) == pytest.approx(55.4, rel=0.02)
    # Extremes come in clusters of minutes, so their shares scatter even over a week.
    assert np.mean(values > 259) == pytest.approx(0.01, rel=0.15)
    assert np.mean(values > 2_630) == pytest.approx(0.001, rel=0.4)
    # The published simulation: mean 73.9 +- 4.6.
    assert values.mean() == pytest.approx(73.9, abs=4.6)


def test_loss_share_and_burst_length():
    profile = PROFILES["us-2023-car-rtt"]
    slots = loss_series(profile, 1, 400_000)
    assert slots.mean() == pytest.approx(0.0048, rel=0.06)
    # Mean burst 0.6 s in slots of 0.2 s: what a whole second loses, seconds with loss, follows from it.
    assert slots[slots > 0].mean() == pytest.approx(0.44, abs=0.04)
