"""Which repetitions of a study are not valid: said first in its report, and beside each figure that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ivsim.study.cells import Kept
from ivsim.study.results import CellResult

OFF = "link off"


def words_of(kept: Kept) -> str:
    """Return what a repetition is: valid, degraded, invalid, or `link off` where its certificate says no more than that."""
    verdict = str((kept.figures.get("validity") or {}).get("verdict") or "valid")
    certificate = (kept.figures.get("certificate") or {}).get("verdict")
    return OFF if verdict == "valid" and certificate == "off" else verdict


def first_words(results: Sequence[CellResult]) -> str:
    """Return how many repetitions are not valid, as what, and for which reasons; "" where all are."""
    done = [one for result in results for one in result.done]
    unsound = [one for one in done if words_of(one) != "valid"]
    if not unsound:
        return ""
    reasons = Counter(name for one in unsound for name in dict.fromkeys(_reasons(one)))
    said = ", ".join(f"{name} {count}" for name, count in reasons.most_common())
    kinds = ", ".join(f"{count} {words}" for words, count in Counter(map(words_of, unsound)).items())
    return f"**{len(unsound)} of {len(done)} repetitions are not valid** ({kinds}): {said or 'without a reason'}."


def _reasons(kept: Kept) -> list[str]:
    causes: Sequence[dict[str, Any]] = (kept.figures.get("validity") or {}).get("causes") or ()
    return [str(cause["name"]).replace("_", " ") for cause in causes] or [words_of(kept)]


def beside(result: CellResult) -> str:
    """Return what stands beside a cell's figures: how many of its repetitions are what."""
    counts = Counter(map(words_of, result.done))
    if not counts:
        return "none"
    return ", ".join(words if len(counts) == 1 else f"{count} {words}" for words, count in counts.items())
