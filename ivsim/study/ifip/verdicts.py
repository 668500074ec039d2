"""Three-valued decisions of claims from comparisons and intervals; pure, and never by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from ivsim.study.statistics import Comparison, Interval, holm

Verdict = Literal["agree", "disagree", "cannot tell"]
AGREE: Final[Verdict] = "agree"
DISAGREE: Final[Verdict] = "disagree"
CANNOT_TELL: Final[Verdict] = "cannot tell"


class Finding(NamedTuple):
    """One statement that a claim is made of: whether it holds, and its numbers in words."""

    verdict: Verdict
    words: str


class Ordering(NamedTuple):
    """`lower` is claimed to be below `higher`; `comparison` is higher minus lower, None if not measured."""

    words: str
    comparison: Comparison | None
    unit: str = "ms"


def together(findings: Iterable[Finding]) -> Verdict:
    """Return agree when every finding does, disagree as soon as one does, cannot tell otherwise."""
    verdicts = {finding.verdict for finding in findings}
    if DISAGREE in verdicts:
        return DISAGREE
    return AGREE if verdicts == {AGREE} else CANNOT_TELL


def ordered(claims: Sequence[Ordering]) -> list[Finding]:
    """Decide each ordering, all tests together at 5 % (Holm): significant as claimed, contrary, or neither."""
    rejected = holm([1.0 if c.comparison is None else c.comparison.p_value for c in claims])
    return [_ordering(claim, significant) for claim, significant in zip(claims, rejected, strict=True)]


def _ordering(claim: Ordering, significant: bool) -> Finding:
    found = claim.comparison
    if found is None:
        return Finding(CANNOT_TELL, f"{claim.words}: not measured")
    words = f"{claim.words}: {found.difference:+,.1f} [{found.low:+,.1f}, {found.high:+,.1f}] {claim.unit}"
    if not significant:
        return Finding(CANNOT_TELL, words)
    return Finding(AGREE if found.difference > 0 else DISAGREE, words)


def inside(words: str, interval: Interval, low: float, high: float, unit: str = "") -> Finding:
    """Decide that a figure lies in [low, high]: its whole 95 % interval does, none of it does, or neither."""
    if interval.estimate is None or interval.low is None or interval.high is None:
        return Finding(CANNOT_TELL, f"{words}: not measured")
    text = (
        f"{words}: {interval.estimate:,.3g} [{interval.low:,.3g}, {interval.high:,.3g}]{unit and ' ' + unit}"
    )
    if low <= interval.low and interval.high <= high:
        return Finding(AGREE, text)
    if interval.high < low or interval.low > high:
        return Finding(DISAGREE, text)
    return Finding(CANNOT_TELL, text)


def as_interval(comparison: Comparison | None) -> Interval:
    """Return a difference as an interval; undefined when it was not measured."""
    if comparison is None:
        return Interval(None, None, None, 0)
    return Interval(comparison.difference, comparison.low, comparison.high, 2)
