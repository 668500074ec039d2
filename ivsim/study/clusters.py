"""Means, shares and quantiles of messages that depend on each other, with intervals from the right unit.

Messages of one vehicle are alike: they cross the same stretch of the same trace, and what delays one delays the next.
A thousand messages of thirty vehicles say about as much as a hundred that are independent, and intervals that take them
for a thousand are three times too narrow. Here the unit is the vehicle, within its repetition; of one vehicle alone it
is a batch of messages in a row (batch means, Schmeiser 1982); of what a repetition has once, it is the repetition.

1. A mean is a ratio, sum of values over number of messages, and each unit has a linearised share in its error
   (Taylor; Cochran 1977, 6.5): z = (sum - mean * number) / all messages. All that follows works on z.
2. Repetitions may differ beyond what their vehicles explain (the machine, the hour). In a one-way random-effects model
   the REML estimate of the mean's variance is that between repetitions when it is the greater, with as many degrees
   of freedom as there are repetitions less one, and that of all units pooled otherwise (Searle, Casella and McCulloch
   1992, 3.7; Satterthwaite 1946). Below MIN_REPETITIONS only the units within are there to judge by: such an
   interval says nothing of what differs from one repetition to the next, and allows for skewness (Hall 1992).
3. A share has a binomial interval at its effective sample size (Korn and Graubard 1998), that of independent trials
   which would leave the same variance: Jeffreys', and the exact one (Clopper and Pearson 1934) where fewer than
   MIN_BEYOND effective trials went one way. Where none did, each unit counts as one trial.
4. A quantile has the values at the bounds of its share (Woodruff 1952), and none when fewer than MIN_BEYOND effective
   observations lie beyond it: p99 needs 500 effective observations.

`python -m bench statistics` measures how often the intervals hold the truth; tests/ivsim/study keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from ivsim.study.statistics import CONFIDENCE, Comparison, Interval
from schemas.quantiles import rank_index

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Fewer give no verdict: what differs from one repetition to the next is then not known.
MIN_REPETITIONS: Final = 3
MIN_BEYOND: Final = 5.0
MIN_BATCH: Final = 15
SKEWNESS_FROM: Final = 20
MOST_BATCHES: Final = 20
VEHICLE, BATCH, REPETITION = "vehicle", "batch of messages in a row", "repetition"
_UPPER: Final = 0.5 + CONFIDENCE / 2
_Z: Final = float(special.ndtri(_UPPER))


class Variance(NamedTuple):
    """What is known of an estimate's error; arrays over any leading axes.

    Attributes:
        variance: of the estimate; NaN where too few units define it.
        freedom: its degrees of freedom.
        skewness: of the units, over the root of their number; 0 where it is not allowed for.
    """

    variance: Any
    freedom: Any
    skewness: Any


def variance_of(z: Floats, present: npt.NDArray[np.bool_], strata: int = 1) -> Variance:
    """Return the variance of the sum of linearised shares, by the rule in the module's text.

    Args:
        z: (..., repetitions, units) shares in the error; they add up to 0.
        present: the same shape; False where a repetition has fewer units than another.
        strata: kinds of units whose own means z is counted from; each costs a degree of freedom.
    """
    repetitions = z.shape[-2]
    units = present.sum(-1)
    sums = z.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = ((z - (sums / units)[..., None]) ** 2 * present).sum(-1)
        inside = (units / (units - 1) * within).sum(-1)
        between = repetitions / (repetitions - 1) * (sums**2).sum(-1) if repetitions > 1 else np.nan
        count = units.sum(-1)
        pooled = count / (count - strata) * (z**2).sum((-2, -1))
    single = (units < 2).any(-1)
    if repetitions < MIN_REPETITIONS:
        freedom = np.where(single, np.nan, (units - 1).sum(-1) - (strata - 1) * repetitions)
        scale = (units - 1).sum(-1) / np.maximum(freedom, 1)
        return Variance(np.where(freedom > 0, inside * scale, np.nan), freedom, _skewness(z, present, count))
    wide = single | (between > inside)
    return Variance(
        np.where(wide, between, pooled),
        np.where(wide, repetitions - 1, count - strata),
        np.zeros(count.shape),
    )


def _skewness(z: Floats, present: npt.NDArray[np.bool_], count: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        second, third = ((z**k * present).sum((-2, -1)) / count for k in (2, 3))
        found = third / second**1.5 / np.sqrt(count)
    # A skewness out of fewer units is mostly noise.
    return np.where(np.isfinite(found) & (count >= SKEWNESS_FROM), found, 0.0)


def bounds(estimate: Any, error: Variance, positive: Any = False) -> tuple[Any, Any]:
    """Return the two-sided 95 % interval of a mean; NaN where its variance is not defined.

    Student's t; where skewness is allowed for, t is what Hall's transformation of the studentised mean takes to t.

    Args:
        estimate: the mean.
        error: of the mean.
        positive: of values all of which are above 0: the interval is that of the mean's logarithm (delta method), and is
            above 0, too.
    """
    t = special.stdtrit(error.freedom, _UPPER)
    spread = np.sqrt(error.variance)
    low, high = (-spread * _bent(sign * t, error.skewness) for sign in (1, -1))
    on_log = positive & (estimate > 0)
    scale = np.where(on_log, estimate, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple(
            np.where(on_log, estimate * np.exp(side / scale), estimate + side) for side in (low, high)
        )


def _bent(t: Any, a: Any) -> Any:
    """Return the inverse of Hall's monotone transformation x + a x^2 / 3 + a^2 x^3 / 27 + a / 6."""
    small = np.abs(a) < 1e-6
    safe = np.where(small, 1.0, a)
    return np.where(small, t, 3 / safe * (np.cbrt(1 + safe * (t - safe / 6)) - 1))


def share_bounds(share: Any, error: Variance, trials: Any, units: Any) -> tuple[Any, Any, Any]:
    """Return bounds of a share and its effective sample size, each None or NaN where not defined.

    Args:
        share: in [0, 1].
        error: of the share.
        trials: all of them, the most that they can be worth.
        units: what they are worth where the share is 0 or 1.
    """
    wide = special.stdtrit(error.freedom, _UPPER) / _Z
    inner = share * (1 - share)
    with np.errstate(invalid="ignore", divide="ignore"):
        worth = inner / (error.variance * wide**2)
    worth = np.where(inner > 0, np.clip(worth, 1.0, trials), np.minimum(units, trials))
    hits, misses = share * worth, (1 - share) * worth
    # Few of them in few bursts say little of how large bursts are: exact there, which is wide.
    few = np.minimum(hits, misses) < MIN_BEYOND
    low = special.betaincinv(
        np.where(few, np.maximum(hits, 1e-9), hits + 0.5), np.where(few, misses + 1, misses + 0.5), 1 - _UPPER
    )
    high = special.betaincinv(
        np.where(few, hits + 1, hits + 0.5), np.where(few, np.maximum(misses, 1e-9), misses + 0.5), _UPPER
    )
    return np.where(share > 0, low, 0.0), np.where(share < 1, high, 1.0), worth


@dataclass(frozen=True, eq=False)
class Clusters:
    """Messages with the units that they belong to.

    Attributes:
        values: one a message; none is NaN.
        repetition: of each message, from 0.
        unit: of each message within its repetition, from 0; the same number in another cell of the study is the same
            vehicle, with the same content and stretch of trace.
        repetitions: how many there are.
        units: how many each has, those without a message included.
        kind: what a unit is, for the report.
        strata: the kind of each unit where the units are of kinds whose means differ by design, (repetitions, units).
    """

    values: Floats
    repetition: Integers
    unit: Integers
    repetitions: int
    units: int
    kind: str = VEHICLE
    strata: Integers | None = None

    @property
    def n(self) -> int:
        return int(self.values.size)

    @property
    def enough(self) -> bool:
        """Return whether there are enough repetitions for a verdict."""
        return self.repetitions >= MIN_REPETITIONS

    def sums(self, values: Floats | None = None) -> Floats:
        """Return the sum of each unit, (repetitions, units): of the values, or of others, one a message."""
        index = self.repetition * self.units + self.unit
        found = np.bincount(index, self.values if values is None else values, self.repetitions * self.units)
        return np.asarray(found, np.float64).reshape(self.repetitions, self.units)

    def counts(self) -> Floats:
        """Return the number of messages of each unit."""
        return self.sums(np.ones(self.n))

    def mean_shares(self, values: Floats | None = None) -> tuple[float, Floats]:
        """Return the mean and each unit's linearised share in its error."""
        sums, counts = self.sums(values), self.counts()
        total = counts.sum()
        mean = float(sums.sum() / total)
        expected: Any = mean
        if self.strata is not None:
            by = [np.bincount(self.strata.ravel(), x.ravel()) for x in (sums, counts)]
            expected = (by[0] / np.maximum(by[1], 1))[self.strata]
        return mean, (sums - expected * counts) / total

    def error(self, z: Floats) -> Variance:
        """Return the variance of an estimate from its linearised shares."""
        strata = 1 if self.strata is None else int(np.unique(self.strata).size)
        return variance_of(z, np.ones(z.shape, np.bool_), strata)

    def _interval(self, estimate: float, low: Any, high: Any, error: Variance, effective: Any) -> Interval:
        known = bool(np.isfinite(low) and np.isfinite(high))
        worth = float(effective) if np.isfinite(effective) else None
        return Interval(
            estimate,
            float(low) if known else None,
            float(high) if known else None,
            self.n,
            unit=self.kind,
            units=self.repetitions * self.units,
            repetitions=self.repetitions,
            effective=None if worth is None else min(worth, float(self.n)),
            freedom=float(error.freedom) if known else None,
        )

    def mean(self) -> Interval:
        """Return the mean."""
        if not self.n:
            return NOTHING
        mean, z = self.mean_shares()
        error = self.error(z)
        low, high = bounds(mean, error, bool((self.values > 0).all()))
        if (self.values >= 0).all():
            low = np.maximum(low, 0.0)  # of counts: one that may be 0 has no logarithm
        spread = float(self.values.var()) / self.n
        with np.errstate(invalid="ignore", divide="ignore"):
            effective = np.where(spread > 0, self.n * spread / error.variance, np.nan)
        found = self._interval(mean, low, high, error, effective)
        return found if found.low is None else found._replace(error=math.sqrt(float(error.variance)))

    def share(self) -> Interval:
        """Return the share of values that are 1; the others are 0."""
        if not self.n:
            return NOTHING
        share, z = self.mean_shares()
        error = self.error(z)
        if not np.isfinite(error.variance):
            return self._interval(share, np.nan, np.nan, error, np.nan)
        low, high, worth = share_bounds(share, error, self.n, self.repetitions * self.units)
        return self._interval(share, low, high, error, worth)

    def quantile(self, share: float) -> Interval:
        """Return the nearest-rank quantile, without bounds where too few effective observations lie beyond it."""
        if not self.n:
            return NOTHING
        ordered = np.sort(self.values)
        estimate = float(ordered[rank_index(self.n, share)])
        below, z = self.mean_shares((self.values <= estimate).astype(np.float64))
        error = self.error(z)
        if not np.isfinite(error.variance) or below >= 1:
            return self._interval(estimate, np.nan, np.nan, error, np.nan)
        low, high, worth = share_bounds(below, error, self.n, self.repetitions * self.units)
        if worth * min(share, 1 - share) < MIN_BEYOND:
            return self._interval(estimate, np.nan, np.nan, error, worth)
        # As many per cent about the share asked for as about the one that ties have made of it.
        ranks = [
            rank_index(self.n, min(max(share + side - below, 0.0), 1.0)) for side in (float(low), float(high))
        ]
        return self._interval(estimate, ordered[ranks[0]], ordered[ranks[1]], error, worth)

    def mean_comparison(self) -> Comparison | None:
        """Return the mean of differences and how far from 0 it is; None where there are none, or it has no error."""
        if not self.n:
            return None
        mean, z = self.mean_shares()
        return _comparison(mean, self.error(z), self.repetitions)

    def median_comparison(self) -> Comparison | None:
        """Return the median of differences and how far from 0 it is; None where there are none, or too few units for bounds.

        The bounds are the values at those of its share (Woodruff 1952), which is a mean of 0 and 1, and of 1/2 for the median
        itself. Of values whose median is 0 half are below 0, by the same reckoning; where each value says the same, the
        test is the sign test of as many units (Conover 1999, 3.4).
        """
        if not self.n:
            return None
        ordered = np.sort(self.values)
        estimate = float(np.median(ordered))
        error = self.error(self._below(estimate)[1])
        half = float(special.stdtrit(error.freedom, _UPPER) * np.sqrt(error.variance))
        if not half < 0.5:
            return None
        low, high = (float(ordered[rank_index(self.n, 0.5 + side)]) for side in (-half, half))
        below, z = self._below(0.0)
        away = self.error(z)
        least = 2 * 0.5 ** (self.repetitions * self.units) if below != 0.5 else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            far = -abs(below - 0.5) / np.sqrt(away.variance)
        p_value = 2 * float(special.stdtr(away.freedom, far)) if below != 0.5 else 1.0
        return Comparison(
            estimate,
            min(low, estimate),
            max(high, estimate),
            max(p_value, least),
            self.repetitions,
            float(error.freedom),
        )

    def _below(self, border: float) -> tuple[float, Floats]:
        """Return the share of values below a border, those at it counted half, with each unit's share in its error."""
        return self.mean_shares((self.values < border) + (self.values == border) / 2)


NOTHING: Final = Interval(None, None, None, 0)


def share_of_sums(successes: Floats, trials: Floats, kind: str) -> Interval:
    """Return the share of trials that succeeded, from the sums of independent units (of one dimension)."""
    total = float(trials.sum())
    if not total:
        return NOTHING
    share = float(successes.sum()) / total
    z = ((successes - share * trials) / total)[None, :]
    error = variance_of(z, np.ones(z.shape, np.bool_))
    n, units = round(total), int(trials.size)
    if not np.isfinite(error.variance):
        return Interval(share, None, None, n, kind, units)
    low, high, worth = share_bounds(share, error, total, units)
    return Interval(share, float(low), float(high), n, kind, units, effective=float(worth))


def batches(values: Floats, repetition: Integers, repetitions: int) -> Clusters:
    """Return messages of one vehicle a repetition, in their order, as batches of at least MIN_BATCH in a row."""
    lengths = np.bincount(repetition, minlength=repetitions)
    count = int(min(MOST_BATCHES, lengths.min() // MIN_BATCH)) if repetitions else 0
    count = max(1, count)
    place = np.concatenate([np.arange(k) * count // max(1, k) for k in lengths]) if repetitions else lengths
    order = np.argsort(repetition, kind="stable")
    unit = np.empty(values.size, np.int64)
    unit[order] = place
    return Clusters(values, repetition, unit, repetitions, count, BATCH if count > 1 else REPETITION)


def of_repetitions(figures: Sequence[float] | Floats) -> Interval:
    """Return the mean of a figure that each repetition has once; no bounds below MIN_REPETITIONS."""
    return repetition_clusters(figures).mean()


def repetition_clusters(figures: Sequence[float] | Floats) -> Clusters:
    """Return a figure that each repetition has once, in their order."""
    data = np.asarray(figures, dtype=np.float64)
    index = np.arange(data.size, dtype=np.int64)
    return Clusters(data, index, np.zeros_like(index), data.size, 1, REPETITION)


def _comparison(difference: float, error: Variance, repetitions: int) -> Comparison | None:
    if not np.isfinite(error.variance):
        return None
    variance = float(error.variance)
    if variance <= (1e-9 * max(abs(difference), 1e-12)) ** 2:
        p_value = 1.0 if difference == 0 else 0.0
        return Comparison(difference, difference, difference, p_value, repetitions, float(error.freedom))
    half = float(special.stdtrit(error.freedom, _UPPER)) * math.sqrt(variance)
    p_value = 2 * float(special.stdtr(error.freedom, -abs(difference) / math.sqrt(variance)))
    return Comparison(
        difference, difference - half, difference + half, p_value, repetitions, float(error.freedom)
    )


def difference_of_means(first: Clusters, second: Clusters, *, same_units: bool = False) -> Comparison | None:
    """Return second minus first; None when either has no error.

    Args:
        first: a cell.
        second: another.
        same_units: unit j of repetition r is the same vehicle in both, so that what its stretch of the trace did
            to it is in both; otherwise variances add up, with Welch's degrees of freedom.
    """
    if not first.n or not second.n:
        return None
    (a, za), (b, zb) = first.mean_shares(), second.mean_shares()
    error = _error(first, za, second, zb, same_units=same_units)
    return _comparison(b - a, error, min(first.repetitions, second.repetitions))


def ratio_of_means(above: Clusters, below: Clusters, *, same_units: bool = False) -> Interval:
    """Return mean(above) / mean(below) with its interval, from the logarithm's; see `difference_of_means`."""
    if not above.n or not below.n:
        return NOTHING
    (a, za), (b, zb) = above.mean_shares(), below.mean_shares()
    if a <= 0 or b <= 0:
        return NOTHING
    error = _error(below, zb / b, above, za / a, same_units=same_units)
    if not np.isfinite(error.variance):
        return Interval(a / b, None, None, min(above.n, below.n))
    half = float(special.stdtrit(error.freedom, _UPPER)) * math.sqrt(float(error.variance))
    return Interval(
        a / b,
        a / b * math.exp(-half),
        a / b * math.exp(half),
        min(above.n, below.n),
        unit=above.kind,
        units=min(above.repetitions * above.units, below.repetitions * below.units),
        repetitions=min(above.repetitions, below.repetitions),
        freedom=float(error.freedom),
    )


def _error(first: Clusters, za: Floats, second: Clusters, zb: Floats, *, same_units: bool) -> Variance:
    """Return the variance of second minus first from their linearised shares."""
    if same_units and za.shape == zb.shape:
        return first.error(zb - za)
    return difference_error(first.error(za), second.error(zb))


def difference_error(a: Variance, b: Variance) -> Variance:
    """Return the variance of a difference of independent estimates, with Welch's degrees of freedom (1947)."""
    total = a.variance + b.variance
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = total**2 / (a.variance**2 / a.freedom + b.variance**2 / b.freedom)
    return Variance(total, np.where(total > 0, freedom, np.fmin(a.freedom, b.freedom)), 0.0)


def difference_of_intervals(first: Interval, second: Interval) -> Comparison | None:
    """Return second minus first of figures known by their intervals alone (a quantile, a share); None without bounds.

    The variance of a mean is its own. Another one is what the interval's width stands for, on the side that faces the other
    figure (MOVER: Zou and Donner 2008), so that a share of 0 has one, too.
    """
    known = (first.estimate, first.low, first.high, second.estimate, second.low, second.high)
    if any(value is None for value in known) or first.freedom is None or second.freedom is None:
        return None
    a, a_low, a_high, b, b_low, b_high = (float(value) for value in known if value is not None)

    def error(figure: Interval, half: float) -> Variance:
        assert figure.freedom is not None
        own = half / float(special.stdtrit(figure.freedom, _UPPER)) if figure.error is None else figure.error
        return Variance(own**2, figure.freedom, 0.0)

    def side(half_a: float, half_b: float) -> Variance:
        return difference_error(error(first, half_a), error(second, half_b))

    # Below the difference lie b's lower and a's upper side.
    under, over = side(a_high - a, b - b_low), side(a - a_low, b_high - b)
    difference = b - a
    facing = under if difference > 0 else over
    repetitions = min(first.repetitions, second.repetitions)
    if facing.variance <= 0:
        return Comparison(
            difference, difference, difference, float(difference == 0), repetitions, float(facing.freedom)
        )
    low, high = (
        float(special.stdtrit(e.freedom, _UPPER)) * math.sqrt(float(e.variance)) for e in (under, over)
    )
    p_value = 2 * float(special.stdtr(facing.freedom, -abs(difference) / math.sqrt(float(facing.variance))))
    return Comparison(
        difference, difference - low, difference + high, p_value, repetitions, float(facing.freedom)
    )
