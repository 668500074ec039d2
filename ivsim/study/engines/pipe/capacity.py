"""The highest rate at which a platform's backlog stays bounded, by search, beside full speed and the platform's own tool.

At full speed nothing is ever late: a producer waits for room, so that all go as fast as the slowest of them, whose share
of the machine the others leave. Here records are due at a rate, whoever is behind. What is behind grows as long as the
rate is above the capacity C: after t seconds at a rate r it is (r - C) t records, or (r / C - 1) t seconds of latency. A
step meets the level when the records due in its last second have a median latency of `BEHIND_MS` at most, so that a step
of 7 s fails from a rate of about 1.04 C on. The search is that of `ivsim load` (ivsim/search.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

import numpy as np

from ivsim.search import Ask, Bounds, Found, Verdict, find
from ivsim.study.engines.pipe.ledger import CONSUMED, FATES
from ivsim.study.engines.pipe.measured import Measured
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import PipeOptions, pipe_options
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.platforms.base import Tool
from ivsim.study.engines.pipe.records import BYTES
from ivsim.study.engines.pipe.session import Platforms
from ivsim.testbed.process import NotReady, OwnedProcess, ProcessDied
from ivsim.testbed.registry import RunRecord

HOLD_S: Final = 7.0
WARMUP_S: Final = 1.0
BEHIND_MS: Final = 250.0
LAST_NS: Final = 1_000_000_000
RESOLUTION_RATIO: Final = 0.05
# The first step is this share of full speed, and none is above that many times it.
FIRST_RATIO: Final = 0.25
MOST_RATIO: Final = 4.0
GROWTH: Final = 2.0
REPETITIONS: Final = 2
ATTEMPTS: Final = 4
# How long the platform's own tool goes on, by the rate that full speed had.
TOOL_S: Final = 8.0
TOOL_MOST_S: Final = 120.0
# A process with one thread that works fills one core; of the machine's, this share is all that it can be given.
FULL_CORE: Final = 0.9


@dataclass(frozen=True)
class Cell:
    """One search: a platform, what its acknowledgement means, and the records."""

    platform: str
    durability: str
    record: str

    @property
    def name(self) -> str:
        return f"{self.platform} {self.durability} {self.record}"

    def options(self, **more: Any) -> PipeOptions:
        """Return the settings of a measurement: payloads made before, so that the platform is what works."""
        given = {
            "platform": self.platform,
            "durability": self.durability,
            "record": self.record,
            "format": "raw",
            "content": "encoded",
            "different": 20,
            "partitions": 2,
            "duration_s": HOLD_S,
            "warmup_s": WARMUP_S,
        }
        return pipe_options({**given, **more})


class Step(NamedTuple):
    """One measurement of a search.

    Attributes:
        rate: records due each second.
        behind_ms: median latency of the records due in the last second; None where they did not all come.
        cores: busy, by part: producer, consumer, platform, and all of the machine; None where that was not measured.
        why: why it did not meet the level; "" where it did.
    """

    kind: str
    rate: int
    verdict: Verdict
    behind_ms: float | None
    cores: dict[str, float | None]
    why: str


class Searched(NamedTuple):
    """What was found of one cell.

    Attributes:
        full_speed_per_s: what came through when each waited for room.
        found: the search's; `capacity` is the highest rate that was confirmed.
        most: the rate that no step was above.
        tool: name of the platform's own tool, and what it said; None where there is none to be had.
        error: why there is no result; None where there is one.
    """

    cell: Cell
    full_speed_per_s: float | None = None
    found: Found | None = None
    most: int | None = None
    steps: tuple[Step, ...] = ()
    tool: str | None = None
    tool_per_s: float | None = None
    error: str | None = None

    @property
    def at_capacity(self) -> Step | None:
        """Return the last measurement at the rate that was found."""
        if self.found is None or self.found.capacity is None:
            return None
        return next(
            one for one in reversed(self.steps) if one.rate == self.found.capacity and one.verdict == "met"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON file."""
        return {
            **self._asdict(),
            "cell": vars(self.cell),
            "found": None if self.found is None else self.found._asdict(),
            "steps": [one._asdict() for one in self.steps],
        }


def search(cell: Cell, platforms: Platforms, record: RunRecord, tell: Callable[[str], None]) -> Searched:
    """Search one cell; what breaks it is its `error`.

    Args:
        cell: what is searched.
        platforms: those that stay up.
        record: of the run.
        tell: is told each step in a few words.
    """
    steps: list[Step] = []
    so_far = Searched(cell)
    try:
        tell(f"{cell.name}: full speed")
        options = cell.options()
        platforms.break_in(options)
        speed = platforms.full_speed_per_s(options)
        bounds = bounds_of(cell, speed)
        so_far = so_far._replace(full_speed_per_s=speed, most=bounds.most)

        def once(ask: Ask) -> Verdict:
            tell(f"{cell.name}: {ask.kind}, {ask.load:,}/s")
            steps.append(_step(cell, platforms, ask))
            return steps[-1].verdict

        so_far = so_far._replace(found=find(bounds, once))
        tell(f"{cell.name}: its own tool")
        so_far = so_far._replace(**_own_tool(cell, platforms, record, speed))
    except (ProcessDied, NotReady) as error:
        so_far = so_far._replace(error=" ".join(str(error).split()))
    return so_far._replace(steps=tuple(steps))


def bounds_of(cell: Cell, full_speed_per_s: float) -> Bounds:
    """Return where is searched: around full speed, and no further than what the platform has room for."""
    room = platform_named(cell.platform).room_bytes()
    fits = float("inf") if room is None else room / BYTES[cell.record] / HOLD_S
    most = max(1, int(min(MOST_RATIO * full_speed_per_s, fits)))
    first = max(1, min(most, round(FIRST_RATIO * full_speed_per_s)))
    return Bounds(first, most, RESOLUTION_RATIO, GROWTH, REPETITIONS, ATTEMPTS)


def _step(cell: Cell, platforms: Platforms, ask: Ask) -> Step:
    """Measure at a rate; a platform that died is one that could not carry it."""
    seed = 1 + ask.repetition
    try:
        measured = platforms.measure(cell.options(rate=float(ask.load), seed=seed))
    except (ProcessDied, NotReady) as error:
        why = " ".join(str(error).split())
        return Step(ask.kind, ask.load, "broke", None, {}, why)
    figures = figures_of(measured)
    behind_ms = behind(measured)
    verdict, why = judged(figures["validity"], behind_ms)
    return Step(ask.kind, ask.load, verdict, behind_ms, cores(figures, ask.load), why)


def behind(measured: Measured) -> float | None:
    """Return the median latency in ms of the records due in the last second; None where they did not all come."""
    ledger = measured.ledger
    due = ledger.produced.due_at_ns
    end_ns = measured.start_at_ns + round(measured.options.duration_s * 1e9)
    last = due >= end_ns - LAST_NS
    if not last.any() or (ledger.fate[last] != FATES.index(CONSUMED)).any():
        return None
    return float(np.median((ledger.received_at_ns - due)[last])) / 1e6


def judged(validity: dict[str, Any], behind_ms: float | None) -> tuple[Verdict, str]:
    """Return what a step came to, and why it did not meet the level."""
    if behind_ms is None:
        return "missed", "records due in the last second did not come"
    if behind_ms > BEHIND_MS:
        return "missed", f"{behind_ms:,.0f} ms behind at the end"
    if validity["verdict"] == "invalid":
        return "invalid", "; ".join(cause["words"] for cause in validity["causes"])
    return "met", ""


def cores(figures: dict[str, Any], rate: int) -> dict[str, float | None]:
    """Return the cores that each part kept busy, and all of the machine."""
    found: dict[str, float | None] = {}
    for part in ("producer", "consumer", "platform"):
        each = figures[f"{part}_cpu_us"]
        found[part] = None if each is None else each * rate / 1e6
    return {**found, "machine": figures["machine_busy_cores"]}


def _own_tool(cell: Cell, platforms: Platforms, record: RunRecord, speed: float) -> dict[str, Any]:
    """Let the platform's own tool send at full speed, without a consumer, with the batches that our clients have."""
    tool = platform_named(cell.platform).tool
    if tool is None:
        return {}
    options = cell.options()
    size = BYTES[cell.record]
    room = platform_named(cell.platform).room_bytes()
    records = max(10, int(min(speed * TOOL_S, float("inf") if room is None else room / size)))
    opened = platforms.open(options).platform
    settings = options.model_dump(mode="json")
    place = opened.place(f"tool-{secrets.token_hex(4)}", settings)
    try:
        return {
            "tool": tool.name,
            "tool_per_s": _said(tool, tool.command(place, settings, records, size), record, size),
        }
    finally:
        opened.clear(place)


def _said(tool: Tool, command: Sequence[str], record: RunRecord, size: int) -> float:
    """Run the tool to its end; return the records each second that it prints last."""
    with TemporaryFile() as payload:
        payload.write(Random(size).randbytes(size).hex()[:size].encode())
        payload.seek(0)
        with OwnedProcess(tool.name, command, record, stdin=payload.fileno()) as process:
            if not process.wait_end(TOOL_MOST_S):
                raise NotReady(f"{tool.name} had not ended after {TOOL_MOST_S:g} s")
            said = process.last_words()
            code = process.stop()
    found = tool.rate.findall(said)
    if code != 0 or not found:
        raise process.death(code)
    return float(found[-1])
