"""The incomplete beta function of the link's tests, beside SciPy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from simulator.links.proof.beta import betainc, betaincinv, binomial_cdf

COUNTS = st.integers(1, 1_000_000)


@given(COUNTS, COUNTS, st.floats(0.0, 1.0))
def test_it_is_scipys(a: int, b: int, x: float) -> None:
    assert betainc(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-10)


@given(COUNTS, COUNTS, st.floats(1e-4, 1 - 1e-4))
def test_its_inverse_is_scipys(a: int, b: int, y: float) -> None:
    assert betaincinv(a, b, y) == pytest.approx(special.betaincinv(a, b, y), rel=1e-8, abs=1e-12)


@given(st.integers(0, 100_000), st.floats(0.0, 1.0), st.floats(1e-4, 1 - 1e-4))
def test_binomial_tails_are_scipys(n: int, place: float, share: float) -> None:
    most = round(place * (n + 2)) - 1
    expected = 0.0 if most < 0 else 1.0 if most >= n else special.bdtr(most, n, share)
    assert binomial_cdf(most, n, share) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_what_is_no_number_has_none() -> None:
    with pytest.raises(ArithmeticError, match="does not converge"):
        betainc(2, 3, math.nan)


def test_the_ends_are_exact() -> None:
    assert (betainc(3, 4, 0), betainc(3, 4, 1)) == (0.0, 1.0)
    assert (binomial_cdf(-1, 5, 0.2), binomial_cdf(5, 5, 0.2), binomial_cdf(0, 0, 0.2)) == (0.0, 1.0, 1.0)
    assert binomial_cdf(0, 2, 0.5) == pytest.approx(0.25, abs=1e-14)
