"""Searches of capacity over platforms, durabilities and records: their file, their table, their report."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any, Final

from ivsim.report.style import number
from ivsim.runs.versions import environment
from ivsim.study.engines.pipe.capacity import (
    BEHIND_MS,
    FULL_CORE,
    HOLD_S,
    RESOLUTION_RATIO,
    Cell,
    Searched,
    search,
)
from ivsim.study.engines.pipe.platforms import PLATFORMS, check_promises, platform_named
from ivsim.study.engines.pipe.records import BYTES
from ivsim.study.engines.pipe.session import Platforms
from ivsim.study.markdown import table
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.json_files import write_json

SCHEMA: Final = 1
FILE: Final = "capacity.json"
REPORT: Final = "report.md"
HEAD: Final = (
    "platform",
    "durability",
    "record",
    "capacity/s",
    "full speed/s",
    "own tool/s",
    "tool / capacity",
)
_CORES: Final = ("cores, producer", "consumer", "platform")
_TEXT: Final = """# The highest rate that each platform carries

One producer and one consumer of ours, payloads made before, two partitions. *Capacity* is the highest rate at which the
backlog stays bounded: records are due at that rate for {hold:g} s, and those of the last second come within {behind:g} ms
in the median; two further measurements confirm it, and {resolution:.0%} above it one fails. *Full speed* is what comes
through when each waits for room. The platform's *own tool* sends at full speed with the same batches, without a consumer:
where it is far above the capacity, it leaves the platform the cores that producer and consumer have here (at the capacity).
"""


@dataclass(frozen=True)
class Asked:
    """What a series is to do.

    Attributes:
        platforms: names of the table `PLATFORMS`.
        durabilities: of each platform: `cache`, `synced`.
        records: names of the table `BYTES`.
        seed: of the order.
    """

    platforms: Sequence[str]
    durabilities: Sequence[str]
    records: Sequence[str]
    seed: int

    def order(self) -> list[Cell]:
        """Return the cells: platforms in a random order, and those of one, so that each starts once a durability."""
        random = Random(self.seed)
        platforms = random.sample(list(self.platforms), len(self.platforms))
        found = []
        for platform in platforms:
            for durability in random.sample(list(self.durabilities), len(self.durabilities)):
                records = random.sample(list(self.records), len(self.records))
                found += [Cell(platform, durability, record) for record in records]
        return found


def checked(asked: Asked) -> Asked:
    """Return what was asked, if this machine can do it; Refusal names what it cannot."""
    check_promises(asked.platforms, asked.durabilities)
    for record in asked.records:
        if record not in BYTES:
            raise Refusal(f"--record {record!r}: allowed are {', '.join(BYTES)}")
    return asked


def searches(asked: Asked, path: Path, tell: Callable[[int, int, str], None]) -> list[Searched]:
    """Search all that was asked; the file in `path` is whole after each.

    Args:
        asked: checked.
        path: an empty directory.
        tell: is called before each measurement: how many searches are over, how many there are, and what comes.
    """
    order = asked.order()
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-capacity-{secrets.token_hex(3)}"
    said: dict[str, Any] = {
        "schema": SCHEMA,
        "asked": asdict(asked),
        "load_before": os.getloadavg(),
        **environment(),
        "searches": [],
    }
    packages = sorted({package for one in asked.platforms for package in platform_named(one).packages})
    said["versions"] |= {package: metadata.version(package) for package in packages}
    found: list[Searched] = []
    with (
        RunRecord(name, path) as record,
        record.scratch_within(path / "work") as work,
        Platforms(record, work) as platforms,
    ):
        for index, cell in enumerate(order):
            found.append(search(cell, platforms, record, partial(tell, index, len(order))))
            said["searches"] = [one.as_dict() for one in found]
            write_json(path / FILE, said)
    (path / REPORT).write_text(page(said, found))
    return found


def rows(found: Sequence[Searched]) -> list[tuple[str, ...]]:
    """Return the table below `HEAD`, in the tables' order."""
    return [_row(one) for one in _sorted(found)]


def _sorted(found: Sequence[Searched]) -> list[Searched]:
    names, sizes = list(PLATFORMS), list(BYTES)
    return sorted(
        found,
        key=lambda one: (names.index(one.cell.platform), one.cell.durability, sizes.index(one.cell.record)),
    )


def _row(one: Searched) -> tuple[str, ...]:
    capacity = None if one.found is None else one.found.capacity
    # Nothing failed up to the rate that was tried last: it carries that much at least.
    least = "≥ " if capacity is not None and one.found is not None and one.found.failed_at is None else ""
    ratio = None if capacity is None or one.tool_per_s is None else one.tool_per_s / capacity
    figures = (capacity, one.full_speed_per_s, one.tool_per_s)
    first, *others = (number(None if value is None else round(value)) for value in figures)
    return (*vars(one.cell).values(), least + first, *others, number(ratio, "ratio"))


def why(one: Searched) -> str:
    """Return what the capacity ends at: a client that fills a core, the machine, or the platform; or what broke the search."""
    at = one.at_capacity
    if one.error is not None or at is None:
        return one.error or "no rate was confirmed"
    full = [
        f"the {part}'s process ({busy:.2f} cores)"
        for part in ("producer", "consumer")
        if (busy := at.cores.get(part) or 0.0) >= FULL_CORE
    ]
    if full:
        return " and ".join(full) + " had no more to give"
    machine, platform = at.cores.get("machine"), at.cores.get("platform")
    most = len(os.sched_getaffinity(0))
    if machine is not None and machine >= FULL_CORE * most:
        return f"the machine was full ({machine:.2f} of {most} cores, the platform {platform or 0.0:.2f})"
    known = "" if machine is None else f" ({machine:.2f} of {most} cores busy)"
    return f"the platform waited{known}: for its disk, or for one of its threads"


def _cores(one: Searched) -> list[str]:
    at = one.at_capacity
    return [
        number(None if at is None else at.cores.get(part)) for part in ("producer", "consumer", "platform")
    ]


def page(said: dict[str, Any], found: Sequence[Searched]) -> str:
    """Return the report: the table, what each search ended at, and the gaps to the platforms' own tools."""
    ordered = _sorted(found)
    lines = [
        _TEXT.format(hold=HOLD_S, behind=BEHIND_MS, resolution=RESOLUTION_RATIO),
        table([*HEAD, *_CORES, "ended at"], [[*_row(one), *_cores(one), why(one)] for one in ordered]),
    ]
    tools = {one.cell.platform: platform_named(one.cell.platform).tool for one in ordered}
    lines += ["", *(_told(name, tool) for name, tool in tools.items()), ""]
    versions = ", ".join(f"{name} {value}" for name, value in sorted(said["versions"].items()))
    lines.append(f"Seed {said['asked']['seed']}; load before it {said['load_before'][0]:.1f}; {versions}.\n")
    return "\n".join(lines)


def _told(platform: str, tool: Any) -> str:
    if tool is None:
        return f"- {platform}: its own tool is on no package registry."
    return f"- {platform}: {tool.name}."
