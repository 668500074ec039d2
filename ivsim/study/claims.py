"""Decisions of published claims from comparisons, intervals and counts; pure, and never by hand.

A claim is made of findings. Each compares what was measured here with what was published, and ends as one of four
verdicts: *agree*, *disagree*, *cannot tell* (the sample is too small, or nothing was measured) and *not comparable*
(the set-up here cannot decide it, however much it measures). The rules have one thing in common: a bound of relevance
lies between agreement and contradiction, and a verdict is given only where a whole 95 % interval lies on one side of
it. So more precision alone turns *cannot tell* into a verdict, and never one verdict into its contrary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from scipy import special

from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.markdown import table
from ivsim.study.statistics import Comparison, Interval, holm, ratio_interval

Verdict = Literal["agree", "disagree", "cannot tell", "not comparable"]
AGREE: Final[Verdict] = "agree"
DISAGREE: Final[Verdict] = "disagree"
CANNOT_TELL: Final[Verdict] = "cannot tell"
NOT_COMPARABLE: Final[Verdict] = "not comparable"
VERDICTS: Final = (AGREE, DISAGREE, CANNOT_TELL, NOT_COMPARABLE)
_ALPHA: Final = 0.05
_Z: Final = float(special.ndtri(1 - _ALPHA / 2))


class Finding(NamedTuple):
    """One part of a claim: whether it holds, and its numbers in a sentence."""

    verdict: Verdict
    text: str


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
        return float(special.stdtrit(self.n - 1, 1 - _ALPHA / 2)) * self.deviation / math.sqrt(self.n)


def together(findings: Iterable[Finding]) -> Verdict:
    """Return disagree as soon as one finding does, else cannot tell if one cannot, else not comparable if one is not.

    So more of the same measurement may still decide what cannot be told, and never what is not comparable.
    """
    verdicts = {finding.verdict for finding in findings} or {CANNOT_TELL}
    return next(verdict for verdict in _GRAVEST if verdict in verdicts)


_GRAVEST: Final = (DISAGREE, CANNOT_TELL, NOT_COMPARABLE, AGREE)


def across(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that all settings of a claim share; cannot tell where they differ.

    The published work does not say which setting it had: a claim that holds in one alone is not decided.
    """
    found = set(verdicts)
    return found.pop() if len(found) == 1 else CANNOT_TELL


def ordered(claims: Sequence[Ordering], *, ties: bool = False) -> list[Finding]:
    """Decide each ordering, all tests together at 5 % (Holm): as claimed, contrary by more than the margin, or neither.

    Args:
        claims: the orderings of one claim.
        ties: a difference that is shown to be no more than the margin agrees too ("best" allows an equal).
    """
    # Towards the claim the test is against no difference (with ties: against a contrary one of the margin), away
    # from it against a contrary one of the margin.
    tested = [_p_of_ordering(claim, ties=ties) for claim in claims]
    rejected = holm(tested)
    return [
        _ordering(claim, significant, ties=ties) for claim, significant in zip(claims, rejected, strict=True)
    ]


def _p_of_ordering(claim: Ordering, *, ties: bool) -> float:
    found = claim.comparison
    if found is None:
        return 1.0
    if ties or found.difference < -claim.margin:
        return p_beyond(found, -claim.margin)
    return found.p_value if found.difference > 0 else 1.0


def p_beyond(found: Comparison, border: float) -> float:
    """Return the two-sided p-value of "the difference is `border`", from the interval (normal approximation)."""
    if border == 0:
        return found.p_value
    half = (found.high - found.low) / 2
    if half == 0:
        return 0.0 if found.difference != border else 1.0
    return 2 * float(special.ndtr(-_Z * abs(found.difference - border) / half))


def _ordering(claim: Ordering, significant: bool, *, ties: bool) -> Finding:
    found = claim.comparison
    if found is None:
        return Finding(CANNOT_TELL, f"{claim.text}: not measured")
    text = f"{claim.text}: {found.difference:+,.1f} [{found.low:+,.1f}, {found.high:+,.1f}] {claim.unit}"
    if found.difference < -claim.margin:
        return Finding(DISAGREE if significant and found.high < -claim.margin else CANNOT_TELL, text)
    border = -claim.margin if ties else 0.0
    return Finding(AGREE if significant and found.low > border else CANNOT_TELL, text)


def inside(
    what: str,
    interval: Interval,
    low: float,
    high: float,
    unit: str = "",
    *,
    published: Published | None = None,
) -> Finding:
    """Decide that a figure lies in [low, high]: its whole 95 % interval does, none of it does, or neither.

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
    if low - wider <= interval.low and interval.high <= high + wider:
        return Finding(AGREE, text)
    if interval.high < low - wider or interval.low > high + wider:
        return Finding(DISAGREE, text)
    return Finding(CANNOT_TELL, text)


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
        return Finding(AGREE, text)
    contrary = interval.low > most and differ((count, n), (0, n if published_n is None else published_n))
    return Finding(DISAGREE if contrary else CANNOT_TELL, text)


def some_of(what: str, count: int, n: int, least: float) -> Finding:
    """Decide that something happens to some: the exact 95 % interval of the share lies above `least`, or below it."""
    interval = ratio_interval(count, n)
    if interval.low is None or interval.high is None:
        return Finding(CANNOT_TELL, f"{what}: not measured")
    text = _share_text(what, count, n, interval.low, interval.high)
    if interval.low > least:
        return Finding(AGREE, text)
    return Finding(DISAGREE if interval.high < least else CANNOT_TELL, text)


def _share_text(what: str, count: int, n: int, low: float, high: float) -> str:
    return f"{what}: {count:,} of {n:,} [{low:.2%}, {high:.2%}]"


def differ(here: tuple[int, int], there: tuple[int, int]) -> bool:
    """Return whether two counts (each of how many) differ by more than chance at 5 %: Fisher's exact test, 1922."""
    from scipy import stats  # noqa: PLC0415 - a second to load, and no other claim needs it

    (a, n), (b, m) = here, there
    return bool(n and m and stats.fisher_exact([[a, b], [n - a, m - b]]).pvalue < _ALPHA)


def not_comparable(what: str, why: str) -> Finding:
    """Return that the set-up here cannot decide something, with the reason."""
    return Finding(NOT_COMPARABLE, f"{what}: {why}")


def as_interval(comparison: Comparison | None) -> Interval:
    """Return a difference as an interval; undefined when it was not measured."""
    if comparison is None:
        return Interval(None, None, None, 0)
    return Interval(comparison.difference, comparison.low, comparison.high, 2)


# What claims are decided from, each paper's own: cells, their comparisons, the pings of a link.
Evidence = Any
MOST_SHOWN: Final = 4


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
    """

    number: int
    statement: str
    test: str
    decide: Callable[[Evidence], list[Finding]]


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
    def summary(self) -> str:
        """Return the findings that decided it in a few words, contrary ones first."""
        parts = []
        if self.too_few:
            parts.append(f"too few repetitions ({self.repetitions} of at least {MIN_REPETITIONS})")
        if self.settings:
            parts += [f"{name}: *{together(f)}*, {_summary(f)}" for name, f in self.settings.items()]
        else:
            parts.append(_summary(self.findings))
        return "; ".join(parts)


def _summary(findings: Sequence[Finding]) -> str:
    ranked = sorted(findings, key=lambda f: _GRAVEST.index(f.verdict))
    telling = [f for f in ranked if f.verdict == together(findings)] or ranked
    counts = Counter(f.verdict for f in findings)
    share = f"{counts[AGREE]} of {len(findings)} as claimed"
    if counts[DISAGREE]:
        share += f", {counts[DISAGREE]} contrary"
    if counts[NOT_COMPARABLE]:
        share += f", {counts[NOT_COMPARABLE]} not comparable"
    return f"{share}; " + "; ".join(f.text for f in telling[:MOST_SHOWN])


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


def answer(decided: Sequence[Decided]) -> str:
    """Return how many claims agree, disagree, cannot be told and cannot be compared, in a sentence."""
    words = {
        AGREE: "agree",
        DISAGREE: "disagree",
        CANNOT_TELL: "cannot be told",
        NOT_COMPARABLE: "are not comparable",
    }
    parts = []
    for verdict in VERDICTS:
        numbers = [str(one.number) for one in decided if one.verdict == verdict]
        if numbers:
            parts.append(f"{len(numbers)} {words[verdict]} ({', '.join(numbers)})")
    text = f"Of the {len(decided)} claims " + ", ".join(parts) + "."
    few = [str(one.number) for one in decided if one.too_few and one.verdict != NOT_COMPARABLE]
    if few:
        text += f" {len(few)} have fewer than {MIN_REPETITIONS} repetitions and are not decided."
    return text


def claims_text(decided: Sequence[Decided]) -> str:
    """Return the claims as lines for a terminal."""
    lines = [
        f"{one.number:2}  {one.verdict:14}  {one.claim.statement}\n{'':20}{one.summary}" for one in decided
    ]
    return "\n".join([*lines, "", answer(decided)])


def claims_section(decided: Sequence[Decided], note: str = "") -> str:
    """Return the table of claims, as a section."""
    rows = [[str(d.number), d.claim.statement, f"**{d.verdict}**", d.summary, d.claim.test] for d in decided]
    rule = (
        "A claim agrees when every statement it is made of does, disagrees as soon as one is contrary, is not comparable"
        " where the set-up here cannot decide a statement of it, and cannot be told otherwise. Fewer than"
        f" {MIN_REPETITIONS} repetitions decide nothing. Differences and ratios stand with their 95 % intervals"
        f"{note and '; ' + note}."
    )
    head = ["#", "claim", "verdict", f"found here (at most {MOST_SHOWN} of what decided it)", "decided by"]
    return f"## Claims\n\n{table(head, rows)}\n\n{rule}"


def reasons_section(decided: Sequence[Decided], reasons: Mapping[int, Sequence[str]]) -> str:
    """Return why claims are contradicted, as far as the results of this run bear a reason out.

    Args:
        decided: all claims.
        reasons: number -> the sentences whose premises hold in this run, its numbers in them.
    """
    lines = [
        f"- **{d.number}.** {' '.join(reasons.get(d.number, ())) or 'No reason of ours holds in this run.'}"
        for d in decided
        if d.verdict == DISAGREE
    ]
    return "## Why we disagree\n\n" + ("\n".join(lines) if lines else "We do not.")
