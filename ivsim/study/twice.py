"""One setting measured twice by a study's design: what differs there is the measuring's, and no setting's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ivsim.study.cells import Cell
from ivsim.study.compare import as_table_row, judged, row_of
from ivsim.study.markdown import table
from ivsim.study.model import Study
from ivsim.study.pairs import JUDGED, Row
from ivsim.study.results import CellResult
from schemas.errors import Refusal

# Below a study's results, where its report finds them.
FOLDER: Final = "aa"
HEAD: Final = ("metric", "difference", "by", "more than noise")


def asked(
    study: Study, cells: Sequence[Cell], cell: str | None, repetitions: int | None
) -> tuple[Study, str]:
    """Return the study of one setting twice, and the name of its cell, by default the first; Refusal for an unknown one."""
    names = [one.name for one in cells]
    if cell is not None and cell not in names:
        raise Refusal(f"--cell {cell}: cells of the study are {', '.join(names)}")
    sweeps = study.sweeps
    if repetitions is not None:
        sweeps = {key: one.model_copy(update={"repetitions": None}) for key, one in sweeps.items()}
    changed = {
        "sweeps": sweeps,
        "title": f"{study.title}: one setting twice",
        "question": "What does this design find between a setting and itself?",
        "repetitions": repetitions or study.repetitions,
        "headline": {},
        "service_levels": {},
    }
    return study.model_copy(update=changed), cell or names[0]


def rows(study: Study, found: Sequence[CellResult]) -> list[Row]:
    """Return each metric of the setting with the second measurement's difference from the first, all tests together at 5 %."""
    first, second = found
    metrics = study.all_sweeps()[first.cell.sweep].metrics or study.metrics
    return judged([row_of(metric, first, second) for metric in metrics], study)


def sentence(found: Sequence[Row]) -> str:
    """Return the headline of a setting measured twice."""
    decided = [row for row in found if row.verdict in JUDGED]
    if not decided:
        return "Of one setting measured twice no metric has a verdict."
    sure = [row.metric for row in decided if row.more_than_noise]
    names = f": {', '.join(sure)}" if sure else ""
    return f"Of one setting measured twice {len(sure)} of {len(decided)} metrics differ by more than noise{names}."


def section(found: Sequence[Row]) -> str:
    """Return the report's table."""
    cell = found[0].cell.removesuffix("-a")
    note = (
        f"`{cell}` measured twice in each block, as two cells of it; the second minus the first [95 % interval]. There is no"
        " difference: what is more than noise here is the measuring's own. All tests of the table together keep 5 % (Holm)."
    )
    shown = table(list(HEAD), [list(as_row(row)) for row in found])
    return f"## The same setting twice\n\n{sentence(found)}\n\n{shown}\n\n{note}"


def as_row(row: Row) -> tuple[str, str, str, str]:
    """Return a row as a table shows it."""
    _, metric, _, _, difference, verdict = as_table_row(row)
    return metric, difference, row.by, verdict
