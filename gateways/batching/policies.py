"""Policies by which a gateway chooses the setting of its batches: one table, which imports none of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Policy:
    """A row of the table.

    Attributes:
        meaning: one clause for the help text.
        rule: name of the function of gateways.batching.rules that chooses; None never changes the setting.
        falls_back: to the deadline rule, when its predictions have drifted from what is measured.
    """

    meaning: str
    rule: str | None
    falls_back: bool = False


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "fixed": Policy("the count and age that were asked for", None),
        "timely": Policy("count and age with the most messages in time", "timely", falls_back=True),
        "reactive": Policy("the count with the most messages in time, as published", "reactive"),
        "pareto": Policy("the greatest throughput whose mean latency keeps the limit", "pareto"),
        "deadline": Policy("by age alone, as late as the limit allows", "deadline"),
    }
)
