"""What is chance and what is not, by the binomial law itself: the limits are the first counts that keep the level."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from simulator.links.proof.power import ALPHA, least_by_chance, most_by_chance

SIZES = (0, 1, 2, 10, 1_000, 10**6, 10**9)
SHARES = (1e-300, 1e-12, 1e-6, 1e-3, 0.01, 0.5, 0.99, 1 - 1e-6, 1 - 1e-15)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n", SIZES)
def test_the_limits_of_chance_keep_the_level_and_the_next_count_does_not(n: int, share: float) -> None:
    most, least = most_by_chance(n, share), least_by_chance(n, share)
    assert 0 <= least <= most <= n
    assert binom.sf(most, n, share) <= ALPHA
    assert most == 0 or binom.sf(most - 1, n, share) > ALPHA
    assert least == 0 or binom.cdf(least - 1, n, share) <= ALPHA
    assert binom.cdf(least, n, share) > ALPHA


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_none_and_all_leave_nothing_to_chance(share: float) -> None:
    assert most_by_chance(50, share) == least_by_chance(50, share) == 50 * share
