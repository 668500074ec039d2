"""Decisions of published claims from comparisons, intervals and counts; pure, and never by hand.

A claim is made of findings. Each compares what was measured here with what was published, and ends as one of four
verdicts: *agree*, *disagree*, *cannot tell* (the sample is too small, or nothing was measured) and *not comparable*
(the set-up here cannot decide it, however much it measures). A claim whose settings the work does not state *depends*,
where it agrees in one of them and disagrees in another.

1. A bound of relevance lies between agreement and contradiction, and a verdict is given only where a whole interval lies
   on one side of it. So more precision alone turns *cannot tell* into a verdict, and never one verdict into its contrary.
2. A claim agrees when each of its parts does: the rejection of all of several hypotheses, each at 5 %, is at 5 % itself
   (intersection-union test, Berger 1982), so that agreement needs no correction for the number of parts.
3. A claim is contradicted as soon as one part is, and any of many parts may be by chance: of works whose claims all hold, one
   in twenty has a claim contradicted at all. A part counts for its claim as one of the claim's parts (Bonferroni), a claim as one
   of the work's (Holm 1979), see `judged_together`.
4. That a figure lies between two bounds, or two are the same within a margin, is two one-sided tests at 5 % each: the 90 %
   interval lies within (Schuirmann 1987).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, NamedTuple

from scipy import special

from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.statistics import Comparison, Interval, holm_limits, narrowed, ratio_interval

Verdict = Literal["agree", "disagree", "depends", "cannot tell", "not comparable"]
AGREE: Final[Verdict] = "agree"
DISAGREE: Final[Verdict] = "disagree"
DEPENDS: Final[Verdict] = "depends"
CANNOT_TELL: Final[Verdict] = "cannot tell"
NOT_COMPARABLE: Final[Verdict] = "not comparable"
VERDICTS: Final = (AGREE, DISAGREE, DEPENDS, CANNOT_TELL, NOT_COMPARABLE)
ALPHA: Final = 0.05


class Finding(NamedTuple):
    """One part of a claim.

    Attributes:
        verdict: whether it holds.
        text: its numbers in a sentence.
        p_value: of what the verdict rules out: that an agreeing part does not hold, or a contrary one does; two-sided.
    """

    verdict: Verdict
    text: str
    p_value: float = 1.0


class Ordering(NamedTuple):
    """`lower` is claimed to be below `higher`.

    Attributes:
        text: what is compared.
        comparison: higher minus lower, None if not measured.
        unit: of the difference.
        margin: the smallest difference that matters, in `unit`: a contrary one below it contradicts nothing.
    """

    text: str
    comparison: Comparison | None
    unit: str = "ms"
    margin: float = 0.0


class Published(NamedTuple):
    """A published mean with the uncertainty that its authors state: standard deviation and number of values."""

    mean: float
    deviation: float
    n: int

    @property
    def half_width(self) -> float:
        """Return half of the mean's 95 % interval (Student's t)."""
        return float(special.stdtrit(self.n - 1, 1 - ALPHA / 2)) * self.deviation / math.sqrt(self.n)


def together(findings: Iterable[Finding]) -> Verdict:
    """Return disagree as soon as one finding does, else cannot tell if one cannot, else not comparable if one is not.

    So more of the same measurement may still decide what cannot be told, and never what is not comparable.
    """
    verdicts = {finding.verdict for finding in findings} or {CANNOT_TELL}
    return next(verdict for verdict in GRAVEST if verdict in verdicts)


# What decides a claim made of parts, first.
GRAVEST: Final = (DISAGREE, CANNOT_TELL, NOT_COMPARABLE, AGREE)


def across(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that all settings of a claim share, or that it depends on the setting.

    The published work does not say which setting it had. It depends where every setting is decided and they differ; one that
    is open, or not comparable, leaves the claim so.
    """
    found = set(verdicts)
    if len(found) == 1:
        return found.pop()
    if CANNOT_TELL in found:
        return CANNOT_TELL
    return NOT_COMPARABLE if NOT_COMPARABLE in found else DEPENDS


def ordered(claims: Sequence[Ordering], *, ties: bool = False) -> list[Finding]:
    """Decide each ordering: as claimed, contrary by more than the margin, or neither.

    Args:
        claims: the orderings of one claim.
        ties: a difference that is shown to be no more than the margin agrees too ("best" allows an equal).
    """
    return [_ordering(claim, ties=ties) for claim in claims]


def p_beyond(found: Comparison, border: float) -> float:
    """Return the two-sided p-value of "the difference is `border`", from the interval."""
    if border == 0:
        return found.p_value
    half = (found.high - found.low) / 2
    if half == 0:
        return 0.0 if found.difference != border else 1.0
    return _p_of_distance(abs(found.difference - border) / half, found.freedom)


def _p_of_distance(halves: float, freedom: float | None) -> float:
    """Return the two-sided p-value of what is so many half-widths of its 95 % interval away (Student's t, else normal)."""
    freedom = math.inf if freedom is None else freedom
    t = float(special.stdtrit(freedom, 1 - ALPHA / 2))
    return 2 * float(special.stdtr(freedom, -t * halves))


def _ordering(claim: Ordering, *, ties: bool) -> Finding:
    found = claim.comparison
    if found is None:
        return Finding(CANNOT_TELL, f"{claim.text}: not measured")
    text = f"{claim.text}: {found.difference:+,.1f} [{found.low:+,.1f}, {found.high:+,.1f}] {claim.unit}"
    if found.high < -claim.margin:
        return Finding(DISAGREE, text, p_beyond(found, -claim.margin))
    border = -claim.margin if ties else 0.0
    return Finding(AGREE, text, p_beyond(found, border)) if found.low > border else Finding(CANNOT_TELL, text)


def inside(
    what: str,
    interval: Interval,
    low: float,
    high: float,
    unit: str = "",
    *,
    published: Published | None = None,
) -> Finding:
    """Decide that a figure lies in [low, high]: its interval does, none of it does, or neither.

    Between two borders the interval that has to lie within is the 90 % one (two one-sided tests); contrary, and with one
    border, it is that of 95 %, which stands in the text.

    Args:
        what: the figure in words.
        interval: the figure measured here.
        low: lower border of what was published.
        high: upper border.
        unit: of all four.
        published: the mean that the borders rest on; its uncertainty widens them.
    """
    if interval.estimate is None or interval.low is None or interval.high is None:
        return Finding(CANNOT_TELL, f"{what}: not measured")
    text = (
        f"{what}: {interval.estimate:,.3g} [{interval.low:,.3g}, {interval.high:,.3g}]{unit and ' ' + unit}"
    )
    wider = 0.0 if published is None else published.half_width
    low, high = low - wider, high + wider
    equivalence = math.isfinite(low) and math.isfinite(high)
    inner_low, inner_high = narrowed(interval) if equivalence else (interval.low, interval.high)
    if low <= inner_low and inner_high <= high:
        return Finding(AGREE, text, max(p_of_border(interval, low), p_of_border(interval, high)))
    if interval.high < low:
        return Finding(DISAGREE, text, p_of_border(interval, low))
    if interval.low > high:
        return Finding(DISAGREE, text, p_of_border(interval, high))
    return Finding(CANNOT_TELL, text)


def p_of_border(interval: Interval, border: float) -> float:
    """Return the two-sided p-value of "the figure is the border", from the side of the interval that faces it.

    On the logarithm's scale where the interval is above 0, as those of times, sizes and ratios are.
    """
    assert interval.estimate is not None
    assert interval.low is not None
    assert interval.high is not None
    if not math.isfinite(border):
        return 0.0
    facing = interval.high if border > interval.estimate else interval.low
    points = (interval.estimate, facing, border)
    estimate, side, at = (math.log(one) for one in points) if min(points) > 0 else points
    if side == estimate:
        return float(at == estimate)
    return _p_of_distance(abs((at - estimate) / (side - estimate)), interval.freedom)


def none_of(what: str, count: int, n: int, most: float, published_n: int | None = None) -> Finding:
    """Decide that something happens to none, as published of `published_n` (as many as here where not stated).

    It agrees when the exact 95 % interval of the share ends below `most`. It is contrary when the interval begins
    above it, and the two counts differ (Fisher's exact test): 1 of 450 does not contradict 0 of 450.
    """
    interval = ratio_interval(count, n)
    if interval.low is None or interval.high is None:
        return Finding(CANNOT_TELL, f"{what}: not measured")
    text = _share_text(what, count, n, interval.low, interval.high)
    if interval.high < most:
        return Finding(AGREE, text, 2 * float(special.bdtr(count, n, most)))
    p_value = p_of_counts((count, n), (0, n if published_n is None else published_n))
    if interval.low > most and p_value < ALPHA:
        return Finding(DISAGREE, text, max(p_value, 2 * float(special.bdtrc(count - 1, n, most))))
    return Finding(CANNOT_TELL, text)


def some_of(what: str, count: int, n: int, least: float) -> Finding:
    """Decide that something happens to some: the exact 95 % interval of the share lies above `least`, or below it."""
    interval = ratio_interval(count, n)
    if interval.low is None or interval.high is None:
        return Finding(CANNOT_TELL, f"{what}: not measured")
    text = _share_text(what, count, n, interval.low, interval.high)
    if interval.low > least:
        return Finding(AGREE, text, 2 * float(special.bdtrc(count - 1, n, least)))
    if interval.high < least:
        return Finding(DISAGREE, text, 2 * float(special.bdtr(count, n, least)))
    return Finding(CANNOT_TELL, text)


def _share_text(what: str, count: int, n: int, low: float, high: float) -> str:
    return f"{what}: {count:,} of {n:,} [{low:.2%}, {high:.2%}]"


def p_of_counts(here: tuple[int, int], there: tuple[int, int]) -> float:
    """Return the p-value of "two counts (each of how many) are of one share": Fisher's exact test, 1922; 1 without any."""
    from scipy import stats  # noqa: PLC0415 - a second to load, and no other claim needs it

    (a, n), (b, m) = here, there
    return float(stats.fisher_exact([[a, b], [n - a, m - b]]).pvalue) if n and m else 1.0


def not_comparable(what: str, why: str) -> Finding:
    """Return that the set-up here cannot decide something, with the reason."""
    return Finding(NOT_COMPARABLE, f"{what}: {why}")


def as_interval(comparison: Comparison | None) -> Interval:
    """Return a difference as an interval; undefined when it was not measured."""
    if comparison is None:
        return Interval(None, None, None, 0)
    bounds = (comparison.low, comparison.high)
    return Interval(comparison.difference, *bounds, 2, freedom=comparison.freedom)


# What claims are decided from, each paper's own: cells, their comparisons, the pings of a link.
Evidence = Any


class RepetitionCount:
    """Evidence made of cells, which notes how many repetitions are behind those that a claim looks at."""

    def __init__(self) -> None:
        self._fewest: int | None = None

    def looked_at(self, repetitions: int) -> None:
        """Note a cell that a claim has looked at."""
        self._fewest = repetitions if self._fewest is None else min(self._fewest, repetitions)

    def taken(self) -> int | None:
        """Return the fewest since the last call, None where no cell was looked at."""
        fewest, self._fewest = self._fewest, None
        return fewest


@dataclass(frozen=True)
class Claim:
    """One published claim.

    Attributes:
        number: its number in the report.
        statement: the claim in a few words.
        test: how it is decided, in a few words.
        decide: from the evidence to the findings of all its parts.
        picture: file of the report's chart that shows it, "" where none does.
    """

    number: int
    statement: str
    test: str
    decide: Callable[[Evidence], list[Finding]]
    picture: str = ""


@dataclass(frozen=True)
class Decided:
    """One claim with what was found.

    Attributes:
        claim: the claim.
        findings: of its parts; in the first setting, where there are several.
        repetitions: the fewest behind any cell that decided it; None where that does not apply.
        settings: name -> findings, where the published work leaves open which of several settings it had.
    """

    claim: Claim
    findings: Sequence[Finding]
    repetitions: int | None = None
    settings: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.claim.number

    @property
    def too_few(self) -> bool:
        """Return whether there are too few repetitions for a verdict."""
        return self.repetitions is not None and self.repetitions < MIN_REPETITIONS

    @property
    def verdict(self) -> Verdict:
        found = self.found
        return CANNOT_TELL if self.too_few and found != NOT_COMPARABLE else found

    @property
    def found(self) -> Verdict:
        """Return the verdict as if there were repetitions enough."""
        return (
            across(together(f) for f in self.settings.values()) if self.settings else together(self.findings)
        )

    @property
    def in_each(self) -> Mapping[str, Sequence[Finding]]:
        """Return the findings by setting; of one that is called "" where the published work leaves none open."""
        return self.settings or {"": self.findings}

    def deciding(self) -> tuple[str, Finding] | None:
        """Return the one finding that decides, with its setting: the surest contrary one, else what is open, else the least sure.

        None without any.
        """
        of_it = {name: some for name, some in self.in_each.items() if together(some) == self.verdict}
        told = [(name, one) for name, some in (of_it or self.in_each).items() for one in some]
        for verdict in GRAVEST:
            parts = [(name, one) for name, one in told if one.verdict == verdict]
            if parts:
                surest = min if verdict == DISAGREE else max
                return surest(parts, key=lambda pair: pair[1].p_value)
        return None


def decide(
    claims: Iterable[Claim], evidence: Evidence, settings: Mapping[str, Evidence] | None = None
) -> list[Decided]:
    """Return the claims decided, by their numbers.

    Args:
        claims: to decide.
        evidence: what they are decided from.
        settings: name -> evidence of each setting, for claims whose published work leaves open which it had.
    """
    found = []
    for claim in claims:
        each = {name: claim.decide(one) for name, one in (settings or {}).items()}
        findings = next(iter(each.values())) if each else claim.decide(evidence)
        counted = [one for one in (evidence, *(settings or {}).values()) if isinstance(one, RepetitionCount)]
        fewest = [n for one in counted if (n := one.taken()) is not None]
        found.append(Decided(claim, findings, min(fewest, default=None), each))
    return sorted(found, key=lambda decided: decided.number)


def judged_together(decided: Iterable[Decided], claims: int | None = None) -> list[Decided]:
    """Return all claims of a work by their numbers, with contradictions that hold for all of them together at 5 %.

    The chance that a claim that holds is contradicted is at most its surest part's times the number of its parts (Bonferroni);
    those of all claims are judged by Holm (1979). A contrary part that is not sure enough is open.

    Args:
        decided: the claims.
        claims: how many the work has, where these are some of them.
    """
    found = sorted(decided, key=lambda one: one.number)
    limits = holm_limits([_chance(one) for one in found], claims)
    judged = []
    for one, limit in zip(found, limits, strict=True):
        most = limit / max(1, _parts(one))
        each = {name: [_kept(part, most) for part in some] for name, some in one.in_each.items()}
        judged.append(replace(one, findings=next(iter(each.values())), settings=each if one.settings else {}))
    return judged


def _parts(decided: Decided) -> int:
    """Return how many parts a claim has; one that several settings share is one."""
    in_each = (Counter(part.text for part in some) for some in decided.in_each.values())
    return sum(reduce(or_, in_each, Counter()).values())


def _chance(decided: Decided) -> float:
    """Return the most that the chance may be of a contrary part where all hold."""
    contrary = [
        part.p_value for some in decided.in_each.values() for part in some if part.verdict == DISAGREE
    ]
    return min(1.0, _parts(decided) * min(contrary, default=1.0))


def _kept(part: Finding, most: float) -> Finding:
    """Return a part, open where it is contrary and not as sure as this."""
    unsure = part.verdict == DISAGREE and part.p_value > most
    return part._replace(verdict=CANNOT_TELL, p_value=1.0) if unsure else part
