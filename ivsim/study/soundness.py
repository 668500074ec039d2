"""Which repetitions of a study are not valid: said first in its report, beside each figure, and each with its reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ivsim.study.cells import DONE, Kept
from ivsim.study.markdown import table
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH

OFF: Final = "link off"
MOST_SHOWN: Final = 40


def words_of(kept: Kept) -> str:
    """Return what a repetition is: valid, degraded, invalid, or `link off` where its certificate says no more than that."""
    certificate = (kept.figures.get("certificate") or {}).get("verdict")
    return OFF if kept.verdict == "valid" and certificate == "off" else kept.verdict


def _measured(results: Sequence[CellResult]) -> list[Kept]:
    """Return the repetitions that were measured, those included that failed for being invalid."""
    return [one for result in results for one in result.kept if one.state == DONE or one.invalid]


def first_words(results: Sequence[CellResult]) -> str:
    """Return how many repetitions are not valid, as what, and for which reasons; "" where all are."""
    measured = _measured(results)
    unsound = [one for one in measured if words_of(one) != "valid"]
    if not unsound:
        return ""
    reasons = Counter(name for one in unsound for name in dict.fromkeys(one.causes or [words_of(one)]))
    said = ", ".join(f"{name} {count}" for name, count in reasons.most_common(5))
    kinds = ", ".join(f"{count} {words}" for words, count in Counter(map(words_of, unsound)).items())
    return f"**{len(unsound)} of {len(measured)} repetitions are not valid** ({kinds}): {said}."


def section(results: Sequence[CellResult]) -> str:
    """Return the repetitions that are degraded or invalid, with their reasons and the machine's load; "" where none is."""
    unsound = [one for one in _measured(results) if one.verdict != "valid"]
    if not unsound:
        return ""
    rows = [
        [
            one.task.name,
            one.verdict,
            "; ".join(one.causes),
            DASH if one.load_average is None else f"{one.load_average:.1f}",
        ]
        for one in unsound[:MOST_SHOWN]
    ]
    more = f" {len(unsound) - MOST_SHOWN} more are not shown." if len(unsound) > MOST_SHOWN else ""
    note = (
        "They decide nothing: no claim, no difference and no service level. The load average is that of the last"
        f" minute, the measurement's own included.{more}"
    )
    return (
        "## Repetitions that are not valid\n\n"
        + table(["repetition", "validity", "why", "load average"], rows)
        + f"\n\n{note}"
    )


def beside(result: CellResult) -> str:
    """Return what stands beside a cell's figures: how many of its repetitions are what."""
    counts = Counter(map(words_of, result.done))
    if not counts:
        return "none"
    return ", ".join(words if len(counts) == 1 else f"{count} {words}" for words, count in counts.items())
