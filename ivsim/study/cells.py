"""Cells of a study, when they are measured, and what became of them: values that all modules of studies share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

DONE: Final = "done"
FAILED: Final = "failed"
OPEN: Final = "open"


class Cell(NamedTuple):
    """One combination of the axes' values.

    Attributes:
        name: stable and readable, from sweep and values alone; names its results.
        sweep: the sweep of the study that it belongs to, "" where there is one alone.
        values: axis to value, in the order of the engine's axes.
        options: what the engine has made of it, checked; a model of the engine's own.
    """

    name: str
    sweep: str
    values: dict[str, Any]
    options: Any


def twice(cells: Sequence[Cell], name: str) -> list[Cell]:
    """Return the cell of a name as two cells that are alike but for their names."""
    (cell,) = (one for one in cells if one.name == name)
    return [cell._replace(name=f"{name}-{which}") for which in ("a", "b")]


def repetition_seed(seed: int, repetition: int) -> int:
    """Return the seed of a repetition: the first six bytes of the SHA-256 of `ivsim/<seed>/repetition/<n>`.

    Trace offsets, contents and offsets of sending are drawn from it, so that no repetition replays another's. All
    cells of a repetition have the same, so that vehicle j is the same in each. Six bytes are exact in every JSON.
    """
    return int.from_bytes(hashlib.sha256(f"ivsim/{seed}/repetition/{repetition}".encode()).digest()[:6])


class Task(NamedTuple):
    """One repetition of one cell, counted from 1; the options of the cell have the repetition's seed."""

    cell: Cell
    repetition: int

    @classmethod
    def of(cls, cell: Cell, repetition: int) -> Task:
        """Return a repetition of a cell of the study, whose options have the study's seed."""
        options = cell.options
        if isinstance(options, BaseModel) and "seed" in type(options).model_fields:
            own = repetition_seed(options.seed, repetition)  # type: ignore[attr-defined]
            cell = cell._replace(options=options.model_copy(update={"seed": own}))
        return cls(cell, repetition)

    @property
    def seed(self) -> int | None:
        """Return the repetition's seed; None where the engine draws nothing."""
        return getattr(self.cell.options, "seed", None)

    @property
    def name(self) -> str:
        return f"{self.cell.name}/{self.repetition}"


class Session(NamedTuple):
    """Tasks that an engine measures at the same time."""

    tasks: tuple[Task, ...]

    @property
    def repetition(self) -> int:
        return self.tasks[0].repetition

    @property
    def cells(self) -> list[Cell]:
        return [task.cell for task in self.tasks]


class Kept(NamedTuple):
    """What is known of one task: its state, why it failed, its figures, and where its files are.

    Attributes:
        seed: the repetition's, as it was stored with the cell; None where nothing was drawn or nothing is kept.
        invalid: it failed since its figures are invalid.
        load_average: the machine's, of the minute in which it ended; None where an earlier version did not note it.
    """

    task: Task
    state: str
    reason: str | None
    figures: dict[str, Any]
    directory: Path
    seed: int | None = None
    invalid: bool = False
    load_average: float | None = None

    @property
    def verdict(self) -> str:
        """Return what its engine says of its figures: valid, degraded or invalid; valid where it judges none."""
        return (
            "invalid" if self.invalid else str((self.figures.get("validity") or {}).get("verdict") or "valid")
        )

    @property
    def causes(self) -> list[str]:
        """Return why it is not valid, in words."""
        if self.invalid:
            return [self.reason or "without a reason"]
        causes = (self.figures.get("validity") or {}).get("causes") or ()
        return [str(cause.get("name") or cause["words"]).replace("_", " ") for cause in causes]
