"""Which vehicles, road and process each cell of a session has; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ivsim.runner import road_of
from ivsim.study.plan import Session, Task, sending
from ivsim.testbed.child import Child
from simulator.links import Condition
from simulator.links.base import Conditions
from simulator.road import Road
from simulator.scenario import Scenario

# Modes send the same messages at the same offsets; a little apart, they do not wait for each other's CPU.
STAGGER_NS: Final = 40_000_000


@dataclass
class Place:
    """Where a cell is in its session: its vehicles, its road, and how it went."""

    task: Task
    vehicles: range
    road: Road
    failure: str | None = None


@dataclass
class Group:
    """One process of vehicles: the cells of one mode and payload."""

    name: str
    places: list[Place]
    scenario: Scenario
    stagger_ns: int
    events: Path
    child: Child | None = None
    failure: str | None = None
    cpu_s: float = 0.0
    totals: dict[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        return [number for place in self.places for number in place.vehicles]


def places_of(session: Session) -> list[Place]:
    """Give every cell of the session vehicles of its own; vehicle j of each has the same trace offset."""
    found, first = [], 1
    for task in session.tasks:
        options = task.cell.options
        found.append(Place(task, range(first, first + options.vehicles), road_of(options)))
        first += options.vehicles
    return found


def conditions(places: list[Place], second: int) -> Conditions:
    """Return what every vehicle of the session is asked in a second, each cell by its own road."""
    asked: dict[int, tuple[Condition, Condition]] = {}
    for place in places:
        for number, pair in place.road.at(second).items():
            asked[place.vehicles.start + number - 1] = pair
    return asked


def groups_of(places: list[Place], work: Path) -> list[Group]:
    """Put cells of one mode and payload into one process."""
    by_key: dict[tuple[Any, ...], list[Place]] = {}
    for place in places:
        by_key.setdefault(sending(place.task.cell), []).append(place)
    most = max(place.vehicles.stop - 1 for place in places)
    groups = []
    for index, (key, members) in enumerate(by_key.items()):
        options = members[0].task.cell.options
        scenario = Scenario(
            vehicles=most,
            interval_s=options.interval_s,
            duration_s=options.duration_s,
            format=options.format,
            message_bytes=options.message_bytes,
            seed=options.seed,
            alike_every=options.vehicles,
        )
        name = "-".join(str(word) for word in key)
        groups.append(Group(name, members, scenario, index * STAGGER_NS, work / f"{name}.events"))
    return groups
