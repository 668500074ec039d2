"""How gateways chose their batches in a run: the decisions that they wrote down, as a table and a figure."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from ivsim.report.charts import legend_above
from ivsim.report.drawing import Drawing
from ivsim.report.style import BLUE, GREEN, GREY, ORANGE, number

HEADS = (
    "gateway",
    "decisions",
    "changes",
    "by rule",
    "predictions that can be judged",
    "late, predicted less measured, mean of the absolute",
    "largest",
)
# The figure's curves: name, key of a decision, colour, what it looks like.
_CURVES = (
    ("messages a batch", "messages", BLUE, "steps-post"),
    ("age of a batch, ms", "wait_ms", ORANGE, "steps-post"),
    ("answer, ms", "answer_ms", GREY, "default"),
    ("round trip of TCP, ms", "rtt_ms", GREEN, "default"),
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


def chosen_over_time(decisions: list[dict[str, Any]], start_at_ns: int) -> Drawing:
    """Draw one gateway's setting, and what it knew of its link, against the time of each decision."""

    def draw(axes: Axes) -> None:
        at_s = [(one["decided_at_ns"] - start_at_ns) / 1e9 for one in decisions]
        for label, key, colour, style in _CURVES:
            values = [float("nan") if one[key] is None else one[key] for one in decisions]
            axes.plot(at_s, values, drawstyle=style, marker=".", color=colour, label=label)
        axes.set(xlabel="s after the start", ylabel="messages, ms")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=0)
        legend_above(axes)

    return Drawing(draw)
