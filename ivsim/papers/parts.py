"""Parts of claims decided by ratios and differences of cells, paired by repetition; what papers on the pipe share.

Cells of one repetition ran within the same quarter of an hour, so that they are compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import special

from ivsim.study.claims import AGREE, CANNOT_TELL, DISAGREE, Finding, RepetitionCount
from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.results import CellResult
from ivsim.study.statistics import CONFIDENCE, Interval, mean_interval

RATIO, DIFFERENCE = "ratio", "difference"
ANY: Final = math.inf

Figures = Mapping[int, float]


class Part(NamedTuple):
    """One part of a claim: a ratio, or a difference, of two figures lies between two bounds.

    Attributes:
        text: what is compared.
        values: of each repetition that has both figures.
        low, high: the claim's bounds; infinite where there is none.
        kind: RATIO or DIFFERENCE.
    """

    text: str
    values: Sequence[float]
    low: float
    high: float
    kind: str = RATIO

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Return the mean with its t interval, of 95 % unless asked, over repetitions: of logarithms for a ratio."""
        if not self.values:
            return Interval(None, None, None, 0)
        if self.kind == DIFFERENCE:
            return mean_interval(self.values, confidence)
        found = mean_interval([math.log(value) for value in self.values], confidence)
        bounds = [None if value is None else math.exp(value) for value in found[:3]]
        return Interval(bounds[0], bounds[1], bounds[2], found.n)

    @property
    def two_sided(self) -> bool:
        """Return whether the claim has a bound on either side: an equivalence."""
        return self._bounded(self.low) and self._bounded(self.high)

    def _bounded(self, bound: float) -> bool:
        return math.isfinite(bound) and (bound > 0 or self.kind == DIFFERENCE)

    def p_value(self, bound: float) -> float:
        """Return how likely values as far from a bound are, where the true one is the bound (t, two-sided)."""
        if not self._bounded(bound):
            return 0.0
        scale: Callable[[float], float] = math.log if self.kind == RATIO else float
        data = np.array([scale(value) for value in self.values])
        spread = float(data.std(ddof=1)) / math.sqrt(data.size)
        away = abs(float(data.mean()) - scale(bound))
        # Values that are the same in every repetition, such as bytes, have an interval of no width.
        if spread <= 1e-12:
            return 0.0 if away > 1e-12 else 1.0
        return 2 * float(special.stdtr(data.size - 1, -away / spread))


def found_of(parts: Sequence[Part]) -> list[Finding]:
    """Decide the parts of a claim: the interval within the bounds, wholly outside, or neither.

    Within two bounds it is the interval of 90 % (two one-sided tests), see `ivsim.study.claims`.
    """
    return [_finding(part) for part in parts]


def _finding(part: Part) -> Finding:
    found = part.interval()
    if found.estimate is None:
        return Finding(CANNOT_TELL, f"{part.text}: not measured")
    text = f"{part.text} {found.estimate:.3g}"
    if found.low is None or found.high is None:
        return Finding(CANNOT_TELL, text)
    text += f" [{found.low:.3g}, {found.high:.3g}]"
    if len(part.values) < MIN_REPETITIONS:
        return Finding(CANNOT_TELL, text)
    within = part.interval(0.9) if part.two_sided else found
    assert within.low is not None
    assert within.high is not None
    if part.low <= within.low and within.high <= part.high:
        p_value = max(part.p_value(part.low), part.p_value(part.high))
        # It is 1 for values that are the bound itself in every repetition.
        return Finding(AGREE if p_value < 1 else CANNOT_TELL, text, p_value)
    for bound, outside in ((part.low, found.high < part.low), (part.high, found.low > part.high)):
        if outside:
            return Finding(DISAGREE, text, part.p_value(bound))
    return Finding(CANNOT_TELL, text)


class Cells(RepetitionCount):
    """A study's cells, found by sweep and values.

    Args:
        found: all of them.
    """

    def __init__(self, found: Sequence[CellResult]) -> None:
        super().__init__()
        self._cells = {(one.cell.sweep, _key(one.cell.values)): one for one in found}

    def get(self, sweep: str, **values: Any) -> CellResult | None:
        """Return a cell; None where it was not measured."""
        return self._cells.get((sweep, _key(values)))

    def figures(self, metric: str, sweep: str, **values: Any) -> Figures:
        """Return a figure of each valid repetition that has it: the others decide nothing."""
        found = self.get(sweep, **values)
        if found is None:
            return {}
        self.looked_at(len(found.valid))
        return {
            kept.task.repetition: float(kept.figures[metric])
            for kept in found.valid
            if kept.figures.get(metric) is not None
        }


def _key(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def ratios(above: Figures, below: Figures) -> list[float]:
    """Return above over below of each repetition that has both, and both above 0."""
    both = sorted(above.keys() & below.keys())
    return [above[one] / below[one] for one in both if above[one] > 0 and below[one] > 0]


def mean_ratios(pairs: Sequence[tuple[Figures, Figures]]) -> list[float]:
    """Return the geometric mean of several ratios, of each repetition that has all of them."""
    figures = [figures for pair in pairs for figures in pair]
    shared = set.intersection(*({at for at, value in one.items() if value > 0} for one in figures))
    return [
        math.exp(math.fsum(math.log(above[at] / below[at]) for above, below in pairs) / len(pairs))
        for at in sorted(shared)
    ]


class Pair(NamedTuple):
    """Two figures whose ratio a claim is about."""

    text: str
    above: Figures
    below: Figures


def each_and_mean(pairs: Sequence[Pair], what: str, low: float, high: float) -> list[Part]:
    """Return the parts that each ratio lies between the bounds, and so their mean, which is called `what`.

    What holds of each holds of their mean, whose interval is narrower: it may be contrary where none is surely so.
    """
    parts = [Part(one.text, ratios(one.above, one.below), low, high) for one in pairs]
    values = mean_ratios([(one.above, one.below) for one in pairs])
    return parts if len(pairs) == 1 else [*parts, Part(f"mean of {len(pairs)} {what}", values, low, high)]


def differences(first: Figures, second: Figures) -> list[float]:
    """Return first minus second of each repetition that has both."""
    return [first[one] - second[one] for one in sorted(first.keys() & second.keys())]
