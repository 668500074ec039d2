"""How gateways chose their batches in a run: the decisions that they wrote down, as a table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ivsim.report.style import number

HEADS = (
    "gateway",
    "decisions",
    "changes",
    "by rule",
    "predictions that can be judged",
    "late, predicted less measured, mean of the absolute",
    "largest",
)

Decisions = dict[str, list[dict[str, Any]]]


def read_decisions(directory: Path) -> Decisions:
    """Return the decisions of each gateway that made some, in their order, by the gateway's number.

    The last line of a gateway that was killed while it wrote has no end, and is none.
    """
    found: Decisions = {}
    for path in sorted(directory.glob("decisions-*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        if lines:
            found[path.stem.removeprefix("decisions-")] = [json.loads(line) for line in lines]
    return found


def decision_rows(decisions: Decisions) -> list[list[str]]:
    """Return a row a gateway under HEADS."""
    return [[gateway, *_row(several)] for gateway, several in decisions.items()]


def _row(decisions: list[dict[str, Any]]) -> list[str]:
    changes = sum(
        (one["messages"], one["wait_ms"]) != (one["messages_before"], one["wait_ms_before"])
        for one in decisions
    )
    rules = Counter(one["rule"] for one in decisions)
    off = [
        abs(one["observed_late_ratio"] - one["expected_late_ratio"])
        for one in decisions
        if one["observed_late_ratio"] is not None and one["expected_late_ratio"] is not None
    ]
    return [
        number(len(decisions)),
        number(changes),
        ", ".join(f"{rule} {count}" for rule, count in rules.most_common()),
        number(len(off)),
        number(sum(off) / len(off) if off else None, "ratio"),
        number(max(off, default=None), "ratio"),
    ]
