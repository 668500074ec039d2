"""Schedules of faults for a campaign, from its seed alone, and as JSON; pure, it starts nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from gateways.protocols import PROTOCOLS
from ivsim.chaos.disturbances import DISTURBANCES
from schemas.errors import Refusal

MODES: Final = tuple((protocol.name, mode) for protocol in PROTOCOLS.values() for mode in protocol.modes)
FEWEST, MOST = 5, 15  # faults of one run
FIRST_S: Final = 4.0
GAP_S: Final = 5.0  # at most, between the begins of two faults
REST_S: Final = 3.0  # of a part behind its fault, at least
AFTER_S: Final = 10.0
# What a run of a campaign takes beside its schedule: opening, drain, ledger. An estimate for the progress alone.
OVERHEAD_S: Final = 25.0


@dataclass(frozen=True)
class Planned:
    """One fault of a schedule: which, when it begins after second 0, and how long it stays."""

    fault: str
    at_s: float
    down_s: float

    @property
    def end_s(self) -> float:
        return self.at_s + self.down_s


@dataclass(frozen=True)
class Schedule:
    """One run of a campaign: its mode, its run's seed, and its faults by begin."""

    name: str
    protocol: str
    mode: str
    seed: int
    faults: tuple[Planned, ...]

    @property
    def duration_s(self) -> float:
        """How long messages are due."""
        return round(max((planned.end_s for planned in self.faults), default=FIRST_S) + AFTER_S, 1)

    def with_faults(self, faults: tuple[Planned, ...]) -> Schedule:
        return replace(self, faults=faults)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def draw(faults: int, seed: int) -> list[Schedule]:
    """Return schedules with so many faults in all; the same for the same arguments.

    Each sixteen runs have every mode once. A schedule has 5 to 15 faults, the last what is left; those of different
    parts may overlap, and a part has a rest behind each of its own.
    """
    schedules: list[Schedule] = []
    left = faults
    for index in count():
        if left <= 0:
            return schedules
        if index % len(MODES) == 0:
            modes = Random(f"chaos/{seed}/modes/{index // len(MODES)}").sample(MODES, len(MODES))
        protocol, mode = modes[index % len(MODES)]
        stream = Random(f"chaos/{seed}/{index}")
        number = min(left, stream.randint(FEWEST, MOST))
        left -= number
        planned = _faults(stream, protocol, number)
        schedules.append(Schedule(f"run-{index:04d}", protocol, mode, stream.randrange(1, 2**31), planned))
    raise AssertionError("`count` has no end")


def _faults(stream: Random, protocol: str, number: int) -> tuple[Planned, ...]:
    allowed = [row for row in DISTURBANCES.values() if row.fault.applies_to(protocol)]
    free_s: dict[str, float] = {}
    planned: list[Planned] = []
    at_s = FIRST_S
    for _ in range(number):
        at_s += round(stream.uniform(0, GAP_S), 1)
        ready_s = {row: max(free_s.get(part, 0.0) for part in row.fault.parts) for row in allowed}
        at_s = max(at_s, min(ready_s.values()))
        chosen = stream.choice([row for row in allowed if ready_s[row] <= at_s])
        found = Planned(chosen.fault.name, round(at_s, 1), round(stream.uniform(*chosen.down_range_s), 1))
        planned.append(found)
        free_s.update(dict.fromkeys(chosen.fault.parts, round(found.end_s + REST_S, 1)))
    return tuple(planned)


def estimate_s(schedules: Sequence[Schedule]) -> float:
    """Return about how long they take one behind another."""
    return sum(schedule.duration_s + OVERHEAD_S for schedule in schedules)


def read(path: Path) -> Schedule:
    """Return the schedule of a file; Refusal with the file and what is wrong in it."""
    try:
        found = json.loads(path.read_text())
        faults = tuple(Planned(**planned) for planned in found.pop("faults"))
        schedule = Schedule(**found, faults=faults)
    except OSError as error:
        raise Refusal(f"--schedule {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refusal(f"--schedule {path}: not a schedule of a campaign: {error}") from None
    _check(schedule, path)
    return schedule


def _check(schedule: Schedule, path: Path) -> None:
    if (schedule.protocol, schedule.mode) not in MODES:
        raise Refusal(f"--schedule {path}: no mode {schedule.protocol} {schedule.mode}")
    if not schedule.faults:
        raise Refusal(f"--schedule {path}: has no fault")
    if Path(schedule.name).name != schedule.name or not schedule.name:
        raise Refusal(f"--schedule {path}: name {schedule.name!r}: expected the name of a directory")
    for planned in schedule.faults:
        row = DISTURBANCES.get(planned.fault)
        if row is None or not row.fault.applies_to(schedule.protocol):
            raise Refusal(
                f"--schedule {path}: fault {planned.fault!r}: allowed are {', '.join(DISTURBANCES)}"
            )
        times = (planned.at_s, planned.down_s)
        if not all(isinstance(value, int | float) and 0 <= value <= 600 for value in times):
            raise Refusal(f"--schedule {path}: {planned.fault}: at_s and down_s: allowed are 0 to 600")
