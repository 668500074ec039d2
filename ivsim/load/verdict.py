"""The first word on a load test: whether its figures are the system's, or those of a generator that was too slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Word = Literal["valid", "generator-limited", "degraded", "invalid", "no figures"]


def first_word(metrics: Mapping[str, Any]) -> tuple[Word, str]:
    """Return the word and its reasons, from the run's validity.

    A sender that was late by itself comes first: whatever else was found, the load was not the one that was asked for.
    """
    validity = metrics.get("validity")
    if not validity:
        return "no figures", "the run came to no ledger"
    causes = validity["causes"]
    if limited := [cause["words"] for cause in causes if cause["name"] == "generator_limited"]:
        others = [cause["words"] for cause in causes if cause["name"] != "generator_limited"]
        return "generator-limited", "; ".join([*limited, *others])
    return validity["verdict"], "; ".join(cause["words"] for cause in causes)
