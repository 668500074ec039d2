"""Generated series: one seed, the same bytes; bad wishes are refused."""

from __future__ import annotations

import hashlib
import statistics

import numpy as np
import pytest

from schemas.errors import Refusal
from simulator.traces import PROFILES, generate, profile_named, to_csv
from simulator.traces.generator import loss_series, series, uniforms
from simulator.traces.normal import normal_cdf, normal_quantile

ROAD = ("us-2024-car-ul-udp", "us-2023-car-rtt")


def made(*names: str, seed: int = 1, duration_s: int = 60, **more):
    return generate([profile_named(name) for name in names], seed, duration_s, **more)


def test_the_draws_are_pinned():
    # PCG64 over SeedSequence((7, 1)): a change here changes every bundled file.
    assert uniforms(7, 1, 3).tolist() == pytest.approx(
        [0.7701409510034742, 0.11192724431768436, 0.1890977332971276], abs=1e-16
    )


def test_normal_quantile_agrees_with_the_standard_library():
    u = np.concatenate([uniforms(1, 1, 2_000), [1e-16, 1e-9, 1 - 1e-9]])
    known = [statistics.NormalDist().inv_cdf(value) for value in u]
    assert np.abs(normal_quantile(u) - known).max() < 1e-12
    assert np.abs(normal_cdf(normal_quantile(u)) - u).max() < 1e-14


@pytest.mark.parametrize("name", PROFILES)
def test_same_seed_same_bytes_other_seed_other_bytes(name):
    first, again, other = (to_csv(made(name, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_a_column_does_not_depend_on_its_neighbours():
    alone = made(ROAD[0], seed=9)
    together = made(*ROAD, seed=9, loss=True)
    assert np.array_equal(alone.uplink_kbps, together.uplink_kbps)


def test_a_longer_trace_begins_like_a_shorter_one():
    profile = PROFILES["ie-2018-car-dl"]
    assert np.array_equal(series(profile, 3, 500)[:100], series(profile, 3, 100))


def test_one_long_series_is_pinned():
    text = to_csv(made(*ROAD, "ie-2018-car-dl", seed=4, duration_s=3_600, loss=True))
    digest = hashlib.sha256("\n".join(text.splitlines()[10:]).encode()).hexdigest()
    assert digest == "f7e9eba3d0151a310e983e514ed66f8960e6b4270e571e48d5fff5b0297a1a12"


def test_values_stay_inside_the_profile():
    for profile in PROFILES.values():
        if profile.table:
            values = series(profile, 11, 20_000)
            assert values.max() <= profile.table[-1]
            assert values[values > 0].min() >= profile.table[0]
            assert np.mean(values == 0) == pytest.approx(profile.p0, abs=0.02)


def test_loss_comes_in_bursts_of_the_stated_share():
    profile = PROFILES["us-2023-car-rtt"]
    values = loss_series(profile, 3, 100_000)
    assert values.mean() == pytest.approx(profile.loss_ratio, rel=0.1)
    assert set(np.round(values * 5)) <= set(range(6))


def test_an_outage_silences_both_rates_and_nothing_else():
    trace = made(*ROAD, "ie-2018-car-dl", duration_s=60, outages=[(10, 5)])
    plain = made(*ROAD, "ie-2018-car-dl", duration_s=60)
    assert not trace.uplink_kbps[10:15].any()
    assert not trace.downlink_kbps[10:15].any()
    assert np.array_equal(trace.rtt_ms, plain.rtt_ms)
    assert np.array_equal(trace.uplink_kbps[15:], plain.uplink_kbps[15:])


@pytest.mark.parametrize(
    ("names", "more", "reason"),
    [
        ([], {}, "at least one"),
        (["us-2024-car-ul-udp", "us-2012-car-ul-pooled3"], {}, "two for one column"),
        (["ie-2022-cork-lte-ul", "us-2023-car-rtt"], {}, "steps differ"),
        (["us-2023-car-rtt"], {"seed": -1}, "seed: -1"),
        (["us-2023-car-rtt"], {"duration_s": 0}, "duration: 0 s"),
        (["ie-2022-cork-lte-ul"], {"duration_s": 10}, "must be above 0 and a multiple of the step of 3 s"),
        (["us-2024-car-ul-udp"], {"loss": True}, "none of the chosen profiles knows a loss"),
        (["us-2024-car-ul-udp"], {"outages": [(50, 20)]}, "does not lie inside"),
        (["nobody"], {}, "'nobody': must be one of ie-2018-car-ul-as-logged"),
    ],
)
def test_bad_wishes_are_refused(names, more, reason):
    with pytest.raises(Refusal, match=reason):
        made(*names, **more)
