"""The search for the highest load that meets a service level; pure, it measures nothing itself.

Loads are whole numbers: messages/s, or vehicles. The load is raised by a constant factor until a step fails; the gap
between the last that met the level and the first that did not is halved, by ratio, to the resolution; then the highest that
met it has to meet it again, several times and held longer. Where it does not, it counts as failed, and the search goes
on below it, a bounded number of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

# What a step came to. `generator`: the run was generator-limited or degraded, so that it says nothing of the system.
Verdict = Literal["met", "missed", "generator", "invalid", "broke"]
Kind = Literal["warm-up", "step", "bisection", "confirmation"]

NOTHING_SAID: Final = ("generator", "invalid")

GROWTH: Final = 1.5
REPETITIONS: Final = 3
ATTEMPTS: Final = 5


@dataclass(frozen=True)
class Bounds:
    """Where is searched.

    Attributes:
        first: load of the first step.
        most: the load that no step goes beyond.
        resolution_ratio: how far the first load that fails may be above the highest that does not, as a share of it.
        growth: factor from one step to the next.
        repetitions: how often the found load has to meet the level again.
        attempts: how many loads are tried to be confirmed.
    """

    first: int
    most: int
    resolution_ratio: float
    growth: float = GROWTH
    repetitions: int = REPETITIONS
    attempts: int = ATTEMPTS

    @property
    def most_measurements(self) -> int:
        """Return a number of measurements that no search goes beyond."""
        raised = math.ceil(math.log(self.most / self.first) / math.log(self.growth)) + 2
        # Steps of whole numbers are wider than the growth at the low end: from 1 to 2 is twice.
        widest = math.log(max(self.growth, 2.0)) / math.log1p(self.resolution_ratio)
        halved = math.ceil(math.log2(max(2.0, widest))) + 3
        return 2 * (raised + self.attempts * (halved + self.repetitions))


class Ask(NamedTuple):
    """What is measured next; `repetition` counts from 0 among the confirmations of one load."""

    kind: Kind
    load: int
    repetition: int = 0


class Found(NamedTuple):
    """What a search came to.

    Attributes:
        capacity: the highest load that was confirmed; None: none was.
        failed_at: the lowest load above it that did not meet the level; None: the search came to its end without one.
        verdict: why that one did not; None without one.
    """

    capacity: int | None
    failed_at: int | None
    verdict: Verdict | None


def find(bounds: Bounds, once: Callable[[Ask], Verdict]) -> Found:
    """Return the highest load that meets the level; `once`, which measures, is called at most `bounds.most_measurements` times.

    A run that says nothing of the system is made once more: a clock that moved once must not end the search.
    """
    met: list[int] = []

    def measure(ask: Ask) -> Verdict:
        verdict = once(ask)
        return once(ask) if verdict in NOTHING_SAID else verdict

    failed, verdict = _raise(bounds, measure, met)
    for _ in range(bounds.attempts):
        if not met:
            break
        if failed is not None:
            failed, verdict = _halve(bounds, measure, met, failed, verdict)
        candidate = met.pop()
        again = _confirm(bounds, measure, candidate)
        if again == "met":
            return Found(candidate, failed, verdict)
        failed, verdict = candidate, again
    return Found(None, failed, verdict)


def _raise(
    bounds: Bounds, measure: Callable[[Ask], Verdict], met: list[int]
) -> tuple[int | None, Verdict | None]:
    """Raise the load until a step fails, which is returned, or until there is no more."""
    load = bounds.first
    while True:
        verdict = measure(Ask("step", load))
        if verdict != "met":
            return load, verdict
        met.append(load)
        if load >= bounds.most:
            return None, None
        load = min(bounds.most, max(load + 1, round(load * bounds.growth)))


def _halve(
    bounds: Bounds, measure: Callable[[Ask], Verdict], met: list[int], failed: int, verdict: Verdict | None
) -> tuple[int, Verdict | None]:
    """Halve the gap between the last of `met` and the lowest that failed, to the resolution; return the latter."""
    while failed - met[-1] > max(1.0, met[-1] * bounds.resolution_ratio):
        load = min(failed - 1, max(met[-1] + 1, round(math.sqrt(met[-1] * failed))))
        found = measure(Ask("bisection", load))
        if found == "met":
            met.append(load)
        else:
            failed, verdict = load, found
    return failed, verdict


def _confirm(bounds: Bounds, measure: Callable[[Ask], Verdict], load: int) -> Verdict:
    """Return the first verdict of the repetitions that is not `met`, and nothing is measured behind it."""
    for repetition in range(bounds.repetitions):
        verdict = measure(Ask("confirmation", load, repetition))
        if verdict != "met":
            return verdict
    return "met"
