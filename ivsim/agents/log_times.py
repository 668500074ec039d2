"""An emission log of another machine by the clock of this one, and what a lost one leaves unsaid; pure but for one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator.emission_log import RECORD, Kind, Reason
from simulator.emission_table import EVENT, read_events
from simulator.fleet import schedule
from simulator.scenario import Scenario

Events = npt.NDArray[Any]
Times = npt.NDArray[np.int64]
# Words are no time, and the start is the coordinator's own.
_AS_THEY_ARE: Final = (Kind.WORDS, Kind.STARTED)


def by_our_clock(events: Events, ours: Callable[[Times], Times]) -> Events:
    """Return the events (EVENT) of a log with their times by our clock."""
    translated = events.copy()
    timed = ~np.isin(events["kind"], _AS_THEY_ARE)
    translated["at_ns"][timed] = ours(events["at_ns"][timed])
    return translated


def give_up(
    log: Path, scenario: Scenario, vehicles: Sequence[int], at_ns: int, reason: Reason = Reason.AGENT_LOST
) -> int:
    """Note each message due of these vehicles that the log says nothing final of as unsent, with this reason.

    Args:
        log: what came of it, whole records; a missing one is one of which nothing came.
        scenario: the fleet.
        vehicles: whose log it is.
        at_ns: when the agent was lost, or when nothing was known any more.
        reason: why nobody knows what became of them.

    Returns:
        how many messages that are.
    """
    events = read_events(log)
    settled = events[np.isin(events["kind"], (Kind.EMITTED, Kind.UNSENT))]
    known = set(
        zip(settled["vehicle"].tolist(), settled["epoch"].tolist(), settled["sequence"].tolist(), strict=True)
    )
    left = [
        due for due in schedule(scenario, vehicles) if (due.vehicle, due.epoch, due.sequence) not in known
    ]
    with log.open("ab") as file:
        for due in left:
            file.write(RECORD.pack(Kind.UNSENT, reason, 0, due.vehicle, due.epoch, 0, due.sequence, at_ns))
    return len(left)


def events_of(records: bytes) -> Events:
    """Return whole records of a log as an array of EVENT; ValueError where one is cut short."""
    return np.frombuffer(records, EVENT)
