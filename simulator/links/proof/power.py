"""Tests of counted packets and what they can find: exact binomial, pure.

A check of a run asks whether a share of packets (lost, late) fits what was asked. It must not call a right link wrong
by chance: all chance checks of a run together do so in at most `FALSE_OFF_PER_RUN` of runs (Bonferroni), so each one
has `ALPHA`. It must not call a link right that it could not have found wrong either: `SharePower` says which true
share a test would have found with probability `POWER`, and a check passes only where that is close enough.

SciPy is imported when a test is made, and `scipy.stats` not at all: it takes a second, which every run would wait for.
"""

from __future__ import annotations

from math import ceil, isnan
from typing import Final, NamedTuple

FALSE_OFF_PER_RUN: Final = 0.01
# Per direction: early packets, the median, p95 and p99 of delay, loss of probes, loss counted by the kernel.
CHANCE_CHECKS: Final = 12
ALPHA: Final = FALSE_OFF_PER_RUN / CHANCE_CHECKS
POWER: Final = 0.9


class SharePower(NamedTuple):
    """The shares that a test of `n` packets finds with probability `POWER`.

    Attributes:
        above: the smallest true share above the asked one that is found; 1 where none is.
        below: the largest one below; None where even a share of 0 is not told from the asked one.
    """

    above: float
    below: float | None


def most_by_chance(n: int, share: float, alpha: float = ALPHA) -> int:
    """Return how many of `n` packets may be counted where `share` of all is asked; more are not chance."""
    if not 0 < share < 1:
        return round(n * share)
    from scipy.special import bdtrc  # noqa: PLC0415 - as above

    # The smallest count with P(X > count) <= alpha.
    count = _near(1 - alpha, n, share)
    while bdtrc(count, n, share) > alpha:
        count += 1
    while count and bdtrc(count - 1, n, share) <= alpha:
        count -= 1
    return count


def least_by_chance(n: int, share: float, alpha: float = ALPHA) -> int:
    """Return how many of `n` packets must be counted at least; fewer are not chance."""
    if not 0 < share < 1:
        return round(n * share)
    from scipy.special import bdtr  # noqa: PLC0415 - as above

    # The largest count with P(X < count) <= alpha.
    count = _near(alpha, n, share)
    while count and bdtr(count - 1, n, share) > alpha:
        count -= 1
    while bdtr(count, n, share) <= alpha:
        count += 1
    return count


def _near(probability: float, n: int, share: float) -> int:
    """Return a count near the binomial quantile: rounding may have it off by one, and no number (all is at 0) is 0."""
    from scipy.special import bdtrik  # noqa: PLC0415 - as above

    quantile = float(bdtrik(probability, n, share))
    return 0 if isnan(quantile) else max(ceil(quantile), 0)


def share_power(n: int, share: float, *, two_sided: bool) -> SharePower:
    """Return which true shares a test of `n` packets against `share` finds."""
    from scipy.special import betaincinv  # noqa: PLC0415 - as above

    alpha = ALPHA / 2 if two_sided else ALPHA
    least_off = most_by_chance(n, share, alpha) + 1
    above = 1.0 if least_off > n else float(betaincinv(least_off, n - least_off + 1, POWER))
    most_off = least_by_chance(n, share, alpha) - 1
    if not two_sided or most_off < 0:
        return SharePower(above, None)
    return SharePower(above, float(betaincinv(most_off + 1, n - most_off, 1 - POWER)))
