"""In which order the sessions of a study come; pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from ivsim.study.cells import Cell, Session, Task
from ivsim.study.model import Study


def sessions(study: Study, cells: Sequence[Cell], repetitions: int) -> list[Session]:
    """Return every repetition of every cell, in sessions, in an order drawn from the study's seed.

    Which cells share a session is the engine's to say. Repetitions follow one another, each in an order of its own; a
    sweep may have fewer than the others. Within a repetition those sessions follow one another that stand on the same, and of
    those whose cells differ in the axis `adjacent` alone.
    """
    rng = random.Random(f"{study.seed}/order")
    sweeps = study.all_sweeps()
    found: list[Session] = []
    for repetition in range(1, repetitions + 1):
        left = [cell for cell in cells if (sweeps[cell.sweep].repetitions or repetition) >= repetition]
        together = study.measured_by.sessions(left, study.apart)
        here = [Session(tuple(Task.of(cell, repetition) for cell in one)) for one in together]
        rng.shuffle(here)
        if study.adjacent is not None:
            here = _grouped(here, partial(_but_for, study.adjacent))
        found += _grouped(here, study.measured_by.stands_on)
    return found


def _but_for(axis: str, session: Session) -> Hashable:
    """Return what the cells of a session are but for their value of an axis."""
    return tuple(
        (cell.sweep, *((name, str(value)) for name, value in cell.values.items() if name != axis))
        for cell in session.cells
    )


def _grouped(here: Sequence[Session], alike: Callable[[Session], Hashable]) -> list[Session]:
    """Return sessions in their order, but those that are alike behind the first of them."""
    groups: dict[Hashable, list[Session]] = {}
    for session in here:
        groups.setdefault(alike(session), []).append(session)
    return [session for group in groups.values() for session in group]
