"""In which order the sessions of a study come; pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

from ivsim.study.cells import Cell, Session, Task
from ivsim.study.model import Study


def sessions(study: Study, cells: Sequence[Cell], repetitions: int) -> list[Session]:
    """Return every repetition of every cell, in sessions, in an order drawn from the study's seed.

    Which cells share a session is the engine's to say. Repetitions follow one another, each in an order of its own; a
    sweep may have fewer than the others. Within a repetition those sessions follow one another that stand on the same.
    """
    rng = random.Random(f"{study.seed}/order")
    sweeps = study.all_sweeps()
    found: list[Session] = []
    for repetition in range(1, repetitions + 1):
        left = [cell for cell in cells if (sweeps[cell.sweep].repetitions or repetition) >= repetition]
        together = study.measured_by.sessions(left, study.apart)
        here = [Session(tuple(Task.of(cell, repetition) for cell in one)) for one in together]
        rng.shuffle(here)
        found += _grouped(study, here)
    return found


def _grouped(study: Study, here: Sequence[Session]) -> list[Session]:
    """Return sessions in their order, but those that stand on the same behind the first of them."""
    groups: dict[Hashable, list[Session]] = {}
    for session in here:
        groups.setdefault(study.measured_by.stands_on(session), []).append(session)
    return [session for group in groups.values() for session in group]
