"""Decided claims as people read them: a sentence, a line each with the number that decides it, and the evidence below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ivsim.study.claims import (
    AGREE,
    CANNOT_TELL,
    DEPENDS,
    DISAGREE,
    GRAVEST,
    NOT_COMPARABLE,
    VERDICTS,
    Decided,
    Finding,
    together,
)
from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.markdown import table

_SAYS: Final = {
    AGREE: "agree",
    DISAGREE: "disagree",
    DEPENDS: "depend on what the work does not state",
    CANNOT_TELL: "cannot be told",
    NOT_COMPARABLE: "are not comparable",
}
_RULE: Final = (
    "A claim agrees when each of its parts does, and disagrees as soon as one is contrary, with its parts (Bonferroni) and"
    " all claims (Holm) together at 5 %. It depends where the work leaves a setting open and the claim agrees in one and"
    " disagrees in another. It is not comparable where the set-up here cannot decide a part, and cannot be told otherwise. Fewer"
    f" than {MIN_REPETITIONS} repetitions decide nothing. Differences and ratios stand with their 95 % intervals; that a figure"
    " lies between two bounds is decided by that of 90 % (two one-sided tests)"
)


class Cause(NamedTuple):
    """Why a claim is contradicted, in at most fifteen words.

    Attributes:
        text: for the table of claims.
        borne_by: how the sentence begins, among the reasons of a claim, that bears it out; "" for any of them.
    """

    text: str
    borne_by: str = ""


def borne_out(reasons: Mapping[int, Sequence[str]], causes: Mapping[int, Sequence[Cause]]) -> dict[int, str]:
    """Return, of each claim, the first cause that a sentence of this run bears out."""
    found = {}
    for number, sentences in reasons.items():
        held = [one for one in causes.get(number, ()) if any(s.startswith(one.borne_by) for s in sentences)]
        if held:
            found[number] = held[0].text
    return found


def answer(decided: Sequence[Decided]) -> str:
    """Return how many claims have which verdict, in a sentence."""
    parts = []
    for verdict in VERDICTS:
        numbers = [str(one.number) for one in decided if one.verdict == verdict]
        if numbers:
            parts.append(f"{len(numbers)} {_SAYS[verdict]} ({', '.join(numbers)})")
    text = f"Of the {len(decided)} claims " + ", ".join(parts) + "."
    few = [str(one.number) for one in decided if one.too_few and one.verdict != NOT_COMPARABLE]
    if few:
        text += f" {len(few)} have fewer than {MIN_REPETITIONS} repetitions and are not decided."
    return text


def claims_text(decided: Sequence[Decided]) -> str:
    """Return the claims as lines for a terminal."""
    lines = []
    for one in decided:
        lines.append(f"{one.number:2}  {one.verdict:14}  {one.claim.statement}")
        lines += [f"{'':20}{line}" for line in (number_of(one), cause_of(one)) if line]
    return "\n".join([*lines, "", answer(decided)])


def number_of(one: Decided) -> str:
    """Return the one finding that decides a claim, with its setting; "" without any."""
    found = one.deciding()
    if found is None:
        return ""
    setting, finding = found
    return f"{setting}: {finding.text}" if setting else finding.text


def cause_of(one: Decided, said: str = "") -> str:
    """Return why a claim has its verdict, in at most fifteen words.

    Args:
        one: the claim.
        said: the cause of a contradiction, where this run bears one out.
    """
    if one.too_few and one.verdict == CANNOT_TELL:
        return f"{one.repetitions} of at least {MIN_REPETITIONS} repetitions"
    if one.verdict == DEPENDS:
        by = {
            verdict: [n for n, f in one.in_each.items() if together(f) == verdict]
            for verdict in (AGREE, DISAGREE)
        }
        return f"agrees with {' and '.join(by[AGREE])}, disagrees with {' and '.join(by[DISAGREE])}"
    if one.verdict == DISAGREE and said:
        return said
    open_in = [name for name, some in one.in_each.items() if together(some) == one.verdict] or list(
        one.in_each
    )
    counts = Counter(part.verdict for name in open_in for part in one.in_each[name])
    n = sum(counts.values())
    where = f" with {' and '.join(open_in)}" if len(open_in) < len(one.in_each) else ""
    words = {
        AGREE: f"all {n} parts as claimed" if n > 1 else "as claimed",
        DISAGREE: f"{counts[DISAGREE]} of {n} parts contrary",
        CANNOT_TELL: f"{counts[CANNOT_TELL]} of {n} parts open{where}",
        NOT_COMPARABLE: "the set-up here cannot decide it",
    }
    return words[one.verdict]


def claims_section(
    decided: Sequence[Decided], note: str = "", causes: Mapping[int, str] | None = None, title: str = "Claims"
) -> str:
    """Return the table of claims, a line each.

    Args:
        decided: the claims.
        note: what else is to be known of the numbers.
        causes: number -> why a claim is contradicted, in a few words.
        title: of the section.
    """
    causes = causes or {}
    rows = [
        [
            str(d.number),
            d.claim.statement,
            f"**{d.verdict}**",
            number_of(d),
            cause_of(d, causes.get(d.number, "")),
        ]
        for d in decided
    ]
    head = ["#", "claim", "verdict", "the number that decides it", "because"]
    return f"## {title}\n\n{table(head, rows)}\n\n{_RULE}{note and '; ' + note}."


def evidence_section(
    decided: Sequence[Decided], reasons: Mapping[int, Sequence[str]] | None = None, title: str = "Evidence"
) -> str:
    """Return a section for each claim: its rule, all its parts, why it is contradicted, and its picture.

    Args:
        decided: the claims.
        reasons: number -> the sentences whose premises hold in this run, its numbers in them.
        title: of the whole.
    """
    reasons = reasons or {}
    parts, shown = [f"## {title}"], dict[str, int]()
    for one in decided:
        parts.append(_evidence(one, reasons.get(one.number, ())))
        picture = one.claim.picture
        if picture in shown:
            parts.append(f"Picture: at claim {shown[picture]}.")
        elif picture:
            parts.append(f"![]({picture})")
            shown[picture] = one.number
    return "\n\n".join(parts)


def _evidence(one: Decided, reasons: Sequence[str]) -> str:
    several = len(one.in_each) > 1
    rows = [
        [*([name] if several else []), finding.text, finding.verdict]
        for name, some in one.in_each.items()
        for finding in _gravest_first(some)
    ]
    parts = [
        f"### {one.number}. {one.claim.statement}",
        f"**{one.verdict}**. Rule: {one.claim.test}.",
        table([*(["setting"] if several else []), "part", ""], rows),
        " ".join(reasons),
    ]
    return "\n\n".join(part for part in parts if part)


def _gravest_first(some: Sequence[Finding]) -> list[Finding]:
    return sorted(some, key=lambda finding: GRAVEST.index(finding.verdict))
