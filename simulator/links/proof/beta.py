"""The regularised incomplete beta function, by which exact tests of counted packets are made; pure.

SciPy has it, too, and takes half a second to load, for which every run and every `ivsim report` would wait. Tests hold both equal.

How it is computed. I_x(a, b) is a factor that logarithms of the gamma function give, times a continued fraction (DLMF 8.17.22):

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * 1 / (1 + d_1 / (1 + d_2 / (1 + ...)))
    d_2m      =  m (b - m) x / ((a + 2m - 1) (a + 2m))
    d_2m+1    = -(a + m) (a + b + m) x / ((a + 2m) (a + 2m + 1))

It converges in about sqrt(max(a, b)) steps where x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) = 1 - I_1-x(b, a) does.
The fraction is evaluated from its front (modified Lentz: Thompson and Barnett, J. Comput. Phys. 64, 1986): the ratios of successive
numerators and of successive denominators are kept, and the product of both is the step to the next approximation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from typing import Final

_PRECISION: Final = 1e-14
_TINY: Final = 1e-300
_HALVINGS: Final = 60
# A hundred times what counts of a billion take.
_MOST_TERMS: Final = 1_000_000


def betainc(a: float, b: float, x: float) -> float:
    """Return I_x(a, b) for positive a and b and x from 0 to 1: to eight digits where both are below a million.

    ArithmeticError where it does not converge, as for what is no number.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _front(b, a, 1 - x)
    return _front(a, b, x)


def betaincinv(a: float, b: float, y: float) -> float:
    """Return the x for which I_x(a, b) is y, by halving what it lies in."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if betainc(a, b, middle) < y:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def binomial_cdf(most: int, n: int, share: float) -> float:
    """Return the probability that at most so many of `n` are counted where each is with probability `share`."""
    if most < 0 or most >= n:
        return 0.0 if most < 0 else 1.0
    return betainc(n - most, most + 1, 1 - share)


def _front(a: float, b: float, x: float) -> float:
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    numerators, denominators, found = 1.0, 0.0, 1.0
    for d in islice(_terms(a, b, x), _MOST_TERMS):
        denominators = 1 / ((1 + d * denominators) or _TINY)
        numerators = (1 + d / numerators) or _TINY
        step = numerators * denominators
        found *= step
        if abs(step - 1) < _PRECISION:
            return math.exp(scale) / (a * found)
    raise ArithmeticError(f"I_{x:g}({a:g}, {b:g}) does not converge")


def _terms(a: float, b: float, x: float) -> Iterator[float]:
    """Yield d_1, d_2, and so on."""
    for m in count():
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        k = m + 1
        yield k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
