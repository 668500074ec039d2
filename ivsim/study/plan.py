"""Which cells are measured at the same time, and in which order; pure and seeded."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ivsim.study.model import Cell, Study

# More vehicles, or processes for them, would make the machine part of the result.
MOST_VEHICLES: Final = 1_200
MOST_PACERS: Final = 21
GATEWAY_OVERHEAD_S: Final = 45.0
SESSION_OVERHEAD_S: Final = 14.0


@dataclass(frozen=True)
class Task:
    """One repetition of one cell."""

    cell: Cell
    repetition: int

    @property
    def name(self) -> str:
        return f"{self.cell.name}/{self.repetition}"


@dataclass(frozen=True)
class Session:
    """Cells that run at the same time, each on vehicles of its own; a gateway cell runs alone."""

    tasks: tuple[Task, ...]

    @property
    def echo(self) -> bool:
        return self.tasks[0].cell.options.topology == "echo"

    @property
    def vehicles(self) -> int:
        return sum(task.cell.options.vehicles for task in self.tasks)

    @property
    def seconds(self) -> float:
        """Return how long it should take."""
        options = self.tasks[0].cell.options
        if self.echo:
            return SESSION_OVERHEAD_S + options.duration_s + options.loss_timeout_s
        return GATEWAY_OVERHEAD_S + options.duration_s


def sending(cell: Cell) -> tuple[Any, ...]:
    """Return what a process of vehicles does alike for all of them: cells equal in it share one."""
    o = cell.options
    return (o.protocol, o.mode, o.format, o.message_bytes or 0)


def _clock(cell: Cell, apart: Sequence[str]) -> tuple[Any, ...]:
    """Return what cells must have in common to be measured at the same time."""
    o = cell.options
    shared = (o.link, o.vehicles, o.interval_s, o.duration_s, o.warmup_s, o.loss_timeout_s, o.seed)
    return (*shared, *(str(cell.values.get(axis)) for axis in apart))


def sessions(study: Study, cells: Sequence[Cell], repetitions: int) -> list[Session]:
    """Return every repetition of every cell, in sessions, in an order drawn from the study's seed.

    A block, all modes of otherwise equal echo cells, is never torn apart: what slows the machine for a while
    slows all modes alike. Repetitions follow one another, each in an order of its own.
    """
    rng = random.Random(f"{study.seed}/order")
    found: list[Session] = []
    for repetition in range(1, repetitions + 1):
        here = _sessions(study, cells, repetition)
        rng.shuffle(here)
        found += here
    return found


def _sessions(study: Study, cells: Sequence[Cell], repetition: int) -> list[Session]:
    alone = [Session((Task(c, repetition),)) for c in cells if c.options.topology != "echo"]
    blocks: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        if cell.options.topology == "echo":
            others = tuple((axis, str(value)) for axis, value in cell.values.items() if axis != "mode")
            blocks.setdefault((cell.part, others), []).append(cell)
    by_clock: dict[tuple[Any, ...], list[list[Cell]]] = {}
    for block in blocks.values():
        by_clock.setdefault(_clock(block[0], study.apart), []).append(block)
    return alone + list(itertools.chain.from_iterable(_pack(bs, repetition) for bs in by_clock.values()))


def _pack(blocks: list[list[Cell]], repetition: int) -> list[Session]:
    """Fill sessions with blocks, those of the same payload together, so that few processes do."""
    packed: list[list[Cell]] = []
    for block in sorted(blocks, key=lambda b: [str(word) for word in sending(b[0])[2:]]):
        together = [*packed[-1], *block] if packed else block
        few = len({sending(cell) for cell in together}) <= MOST_PACERS
        if packed and few and sum(c.options.vehicles for c in together) <= MOST_VEHICLES:
            packed[-1] = together
        else:
            packed.append(list(block))
    return [Session(tuple(Task(cell, repetition) for cell in cells)) for cells in packed]
