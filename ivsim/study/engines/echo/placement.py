"""Which vehicles, schedule and process each cell of a session has; pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ivsim.runs.processes import sender_config
from ivsim.runs.runner import link_schedule_of
from ivsim.study.cells import Session, Task
from ivsim.study.engines.echo.plan import numbered, sending
from ivsim.testbed.child import Child
from simulator.link_schedule import LinkSchedule, SideBySide
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig

# Modes send the same messages at the same offsets; a little apart, they do not wait for each other's CPU.
STAGGER_NS: Final = 40_000_000
CONNECT_S: Final = 60.0
# Vehicles go on sending until all measured messages had their time-out: no last one is spared a successor.
BEYOND_S: Final = 86_400.0


@dataclass
class Placement:
    """Where a cell is in its session: its vehicles, its schedule, and how it went."""

    task: Task
    vehicles: range
    schedule: LinkSchedule
    failure: str | None = None


@dataclass
class Group:
    """One process of vehicles: the cells of one mode and payload."""

    name: str
    placements: list[Placement]
    scenario: Scenario
    stagger_ns: int
    events: Path
    child: Child | None = None
    failure: str | None = None
    cpu_s: float = 0.0

    @property
    def numbers(self) -> list[int]:
        return [number for placement in self.placements for number in placement.vehicles]


def placements_of(session: Session) -> list[Placement]:
    """Give every cell of the session vehicles of its own; vehicle j of each has the same trace offset."""
    return [
        Placement(task, numbers, link_schedule_of(task.cell.options))
        for task, numbers in zip(session.tasks, numbered(session.cells), strict=True)
    ]


def side_by_side(placements: list[Placement]) -> SideBySide:
    """Return the schedule of all vehicles of the session, each cell's its own."""
    return SideBySide([(placement.vehicles, placement.schedule) for placement in placements])


def groups_of(placements: list[Placement], work: Path) -> list[Group]:
    """Put cells of one mode and payload into one process."""
    by_key: dict[tuple[Any, ...], list[Placement]] = {}
    for placement in placements:
        by_key.setdefault(sending(placement.task.cell), []).append(placement)
    most = max(placement.vehicles.stop - 1 for placement in placements)
    groups = []
    for index, members in enumerate(by_key.values()):
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
        name = "-".join([str(index), options.protocol, options.mode, options.format])
        groups.append(Group(name, members, scenario, index * STAGGER_NS, work / f"{name}.events"))
    return groups


def sender_config_of(group: Group, *, port: int, client_prefix: str) -> SenderConfig:
    """Return what the process of a group is told; its cells are alike in all of it."""
    options = group.placements[0].task.cell.options
    return sender_config(
        options,
        port=port,
        events_path=group.events,
        scenario=group.scenario.model_copy(update={"duration_s": options.duration_s + BEYOND_S}),
        vehicles=group.numbers,
        connect_wait_s=CONNECT_S,
        client_prefix=client_prefix,
    )
