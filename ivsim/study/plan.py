"""In which order the sessions of a study come; pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ivsim.study.cells import Cell, Session, Task
from ivsim.study.model import Study


def sessions(study: Study, cells: Sequence[Cell], repetitions: int) -> list[Session]:
    """Return every repetition of every cell, in sessions, in an order drawn from the study's seed.

    Which cells share a session is the engine's to say. Repetitions follow one another, each in an order of its own.
    """
    rng = random.Random(f"{study.seed}/order")
    found: list[Session] = []
    for repetition in range(1, repetitions + 1):
        together = study.measured_by.sessions(cells, study.apart)
        here = [Session(tuple(Task.of(cell, repetition) for cell in one)) for one in together]
        rng.shuffle(here)
        found += here
    return found
