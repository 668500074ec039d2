"""The smallest schedule that still fails, found by running ever smaller ones; it knows no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ivsim.chaos.schedule import FIRST_S, Schedule

SHORTEST_S = 1.0


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], budget: int) -> tuple[Schedule, int]:
    """Return the smallest failing schedule that was found, and how many smaller ones were tried.

    First faults are left out one by one, for as long as one can be; then what is left begins sooner and stays half as
    long. A result may be flaky: what is returned has failed in a run of its own, or is `schedule` itself.

    Args:
        schedule: one that failed.
        fails: runs a schedule and says whether it fails too.
        budget: at most so many runs.
    """
    tried = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in (*_fewer(schedule), *_shorter(schedule)):
            if tried >= budget:
                return schedule, tried
            tried += 1
            if fails(candidate):
                schedule, smaller = candidate, True
                break
    return schedule, tried


def _fewer(schedule: Schedule) -> Iterator[Schedule]:
    faults = schedule.faults
    for index in range(len(faults) if len(faults) > 1 else 0):
        yield schedule.with_faults(faults[:index] + faults[index + 1 :])


def _shorter(schedule: Schedule) -> Iterator[Schedule]:
    early = schedule.faults[0].at_s - FIRST_S
    if early >= SHORTEST_S:
        yield schedule.with_faults(tuple(replace(p, at_s=round(p.at_s - early, 1)) for p in schedule.faults))
    if any(planned.down_s > SHORTEST_S for planned in schedule.faults):
        halved = (replace(p, down_s=round(max(SHORTEST_S, p.down_s / 2), 1)) for p in schedule.faults)
        yield schedule.with_faults(tuple(halved))
