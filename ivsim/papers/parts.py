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
from ivsim.study.statistics import Interval, holm, mean_interval

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

    def interval(self) -> Interval:
        """Return the mean with its 95 % t interval over repetitions: of logarithms for a ratio."""
        if not self.values:
            return Interval(None, None, None, 0)
        if self.kind == DIFFERENCE:
            return mean_interval(self.values)
        found = mean_interval([math.log(value) for value in self.values])
        bounds = [None if value is None else math.exp(value) for value in found[:3]]
        return Interval(bounds[0], bounds[1], bounds[2], found.n)

    def p_value(self) -> float:
        """Return how likely values as far from the nearest bound are, where the true one is the bound (t, two-sided)."""
        if len(self.values) < MIN_REPETITIONS:
            return 1.0
        scale: Callable[[float], float] = math.log if self.kind == RATIO else float
        data = np.array([scale(value) for value in self.values])
        bounds = [
            scale(bound)
            for bound in (self.low, self.high)
            if math.isfinite(bound) and (bound > 0 or self.kind == DIFFERENCE)
        ]
        spread = float(data.std(ddof=1)) / math.sqrt(data.size)
        mean = float(data.mean())
        if not bounds:
            return 0.0
        nearest = min(abs(mean - bound) for bound in bounds)
        if spread <= 1e-12:
            return 0.0 if nearest > 1e-12 else 1.0
        return 2 * float(special.stdtr(data.size - 1, -nearest / spread))


def found_of(parts: Sequence[Part]) -> list[Finding]:
    """Decide the parts of a claim, all together at 5 % (Holm): the interval within the bounds, wholly outside, or neither."""
    rejected = holm([part.p_value() for part in parts])
    return [_finding(part, significant) for part, significant in zip(parts, rejected, strict=True)]


def _finding(part: Part, significant: bool) -> Finding:
    found = part.interval()
    if found.estimate is None:
        return Finding(CANNOT_TELL, f"{part.text}: not measured")
    text = f"{part.text} {found.estimate:.3g}"
    if found.low is None or found.high is None:
        return Finding(CANNOT_TELL, text)
    text += f" [{found.low:.3g}, {found.high:.3g}]"
    # Values that are the same in every repetition, such as bytes, have an interval of no width.
    if part.low <= found.low and found.high <= part.high:
        return Finding(AGREE if significant else CANNOT_TELL, text)
    outside = found.high < part.low or found.low > part.high
    return Finding(DISAGREE if outside and significant else CANNOT_TELL, text)


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
        """Return a figure of each repetition that has it."""
        found = self.get(sweep, **values)
        if found is None:
            return {}
        self.looked_at(len(found.done))
        return {
            kept.task.repetition: float(kept.figures[metric])
            for kept in found.done
            if kept.figures.get(metric) is not None
        }


def _key(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def ratios(above: Figures, below: Figures) -> list[float]:
    """Return above over below of each repetition that has both, and both above 0."""
    both = sorted(above.keys() & below.keys())
    return [above[one] / below[one] for one in both if above[one] > 0 and below[one] > 0]


def differences(first: Figures, second: Figures) -> list[float]:
    """Return first minus second of each repetition that has both."""
    return [first[one] - second[one] for one in sorted(first.keys() & second.keys())]
