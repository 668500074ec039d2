"""Ends a run early when a live figure says that going on is pointless."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ivsim.runs.runner import StoppedEarly
from ivsim.runs.started import StartedRun
from ivsim.thresholds import ABORT_ON, Threshold

# Live figures change once a second.
EVERY_S: Final = 1.0


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
                    f"{ABORT_ON} {condition.text!r}: it was {judged.value:.10g}{unit} in second {second}"
                )
