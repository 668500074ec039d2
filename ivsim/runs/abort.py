"""Ends a load test early when a live figure says that going on is pointless."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ivsim.runs.runner import StoppedEarly
from ivsim.runs.started import StartedRun
from ivsim.thresholds import Threshold, parse

OPTION: Final = "--abort-on"
# Live figures, with their units. Quantiles are of all messages so far, as the streaming job has them.
LIVE_FIGURES: Final = {
    "end_to_end_latency_p50_ms": "ms",
    "end_to_end_latency_p99_ms": "ms",
    "emitted": "1",
    "acknowledged": "1",
    "refused": "1",
    "unsent": "1",
    "disconnected": "1",
    "connect_failed": "1",
}
# Live figures change once a second.
EVERY_S: Final = 1.0


def parse_conditions(texts: Sequence[str]) -> list[Threshold]:
    """Return the conditions; Refusal for a figure that no run has while it goes."""
    return [parse(text, OPTION, LIVE_FIGURES) for text in texts]


class Watch:
    """Is called several times a second while a run goes, and ends it once a condition holds.

    A figure that is not there yet meets no condition.
    """

    def __init__(self, conditions: Sequence[Threshold]) -> None:
        self._conditions = conditions
        self._next_s = 0.0

    def __call__(self, run: StartedRun) -> None:
        """Raise StoppedEarly with the condition that holds and the value."""
        if not self._conditions or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVERY_S
        reader = run.components.live_reader
        self.check(run.publisher.totals() | ({} if reader is None else reader.live()), run.second())

    def check(self, figures: Mapping[str, Any], second: int) -> None:
        """Judge figures of this second."""
        for condition in self._conditions:
            judged = condition.judge(figures.get(condition.figure))
            if judged.verdict == "met":
                unit = "" if condition.unit == "1" else f" {condition.unit}"
                raise StoppedEarly(
                    f"{OPTION} {condition.text!r}: it was {judged.value:.10g}{unit} in second {second}"
                )
