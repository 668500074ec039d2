"""When records are due, and what a varying link is asked: seeded, one stream a producer, of the asked mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ivsim.study.engines.pipe.arrivals import due_of, most_due
from ivsim.study.engines.pipe.link_series import HELD_LEAST_S, LENGTH_S, changing
from ivsim.study.engines.pipe.options import link_options, pipe_options
from ivsim.study.engines.pipe.site import Asked

SETTINGS = {"producers": 2, "rate": 200.0, "duration_s": 30.0, "seed": 5, "arrivals": "poisson"}


def offsets_s(settings, index=0):
    due = due_of(settings, index)
    return np.array([due(place) / 1e9 for place in range(most_due(settings, index))])


def test_even_arrivals_take_turns_exactly():
    even = {**SETTINGS, "arrivals": "even"}
    both = np.sort(np.concatenate([offsets_s(even, 0), offsets_s(even, 1)]))
    assert np.diff(both) == pytest.approx(1 / 200, abs=1e-12)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process():
    found = offsets_s(SETTINGS)
    gaps = np.diff(found)
    assert found[-2] < 30.0 <= found[-1]
    assert gaps.mean() == pytest.approx(1 / 100, rel=0.1)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)


def test_each_producer_and_each_seed_has_arrivals_of_its_own():
    found = [offsets_s(SETTINGS, 0), offsets_s(SETTINGS, 1), offsets_s({**SETTINGS, "seed": 6}, 0)]
    assert not any(np.array_equal(a[:100], b[:100]) for a, b in itertools.combinations(found, 2))
    assert np.array_equal(found[0], offsets_s(SETTINGS, 0))


def test_a_varying_link_has_the_means_asked_for_and_holds_its_losses():
    found = [changing(seed, 30.0, 0.1) for seed in range(40)]
    delays_ms = np.concatenate([one.rtt_ms for one in found])
    losses = np.concatenate([one.loss_ratio for one in found])
    assert delays_ms.min() >= 20.0
    assert delays_ms.mean() == pytest.approx(30.0, rel=0.03)
    assert losses.min() >= 0.0
    assert losses.max() <= 0.2
    assert losses.mean() == pytest.approx(0.1, rel=0.05)
    changes = np.flatnonzero(np.diff(found[0].loss_ratio)) + 1
    assert np.diff(changes).min() >= HELD_LEAST_S


def test_a_link_that_varies_is_asked_the_series_of_its_seed_and_bursts_in_it():
    asked = {"link": "direct"}, {"link": "auto", "trace": "paper-rtt", "rtt": "30", "loss_ratio": 0.1}
    plain = link_options(pipe_options({**asked[1], "loss_direction": "uplink", "loss_burst": 3.0}))
    assert plain is not None
    schedule = Asked(plain, seed=7).schedule()
    series = changing(7, 30.0, 0.1)
    for second in (0, 11, LENGTH_S + 11):
        up, down = schedule.at(second)[1]
        at = second % LENGTH_S
        assert up.delay_ms == down.delay_ms == pytest.approx(series.rtt_ms[at] / 2)
        assert up.mean_loss_ratio == pytest.approx(series.loss_ratio[at])
        assert up.gilbert_elliott is not None
        assert (down.mean_loss_ratio, up.rate_bps) == (0.0, None)
    constant = Asked(plain).schedule().at(11)[1][0]
    assert (constant.delay_ms, constant.mean_loss_ratio) == (15.0, pytest.approx(0.1))
