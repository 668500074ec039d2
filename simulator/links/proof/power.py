"""Tests of counted packets and what they can find: exact binomial, pure.

A check of a run asks whether a share of packets (lost, late) fits what was asked. It must not call a right link wrong
by chance: all chance checks of a run together do so in at most `FALSE_OFF_PER_RUN` of runs (Bonferroni), so each one
has `ALPHA`. It must not call a link right that it could not have found wrong either: `SharePower` says which true
share a test would have found with probability `POWER`, and a check passes only where that is close enough.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from simulator.links.proof.beta import betaincinv, binomial_cdf

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
    # The smallest count with P(X > count) <= alpha.
    return bisect_left(range(n), True, key=lambda count: 1 - binomial_cdf(count, n, share) <= alpha)


def least_by_chance(n: int, share: float, alpha: float = ALPHA) -> int:
    """Return how many of `n` packets must be counted at least; fewer are not chance."""
    if not 0 < share < 1:
        return round(n * share)
    # The smallest count with P(X <= count) > alpha.
    return bisect_left(range(n), True, key=lambda count: binomial_cdf(count, n, share) > alpha)


def share_power(n: int, share: float, *, two_sided: bool) -> SharePower:
    """Return which true shares a test of `n` packets against `share` finds."""
    alpha = ALPHA / 2 if two_sided else ALPHA
    least_off = most_by_chance(n, share, alpha) + 1
    above = 1.0 if least_off > n else betaincinv(least_off, n - least_off + 1, POWER)
    most_off = least_by_chance(n, share, alpha) - 1
    if not two_sided or most_off < 0:
        return SharePower(above, None)
    return SharePower(above, betaincinv(most_off + 1, n - most_off, 1 - POWER))
