"""When a study has blocks enough: the intervals of its headline's differences are narrow; no verdict has a part in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ivsim.study.cells import DONE, Cell, Kept, Task
from ivsim.study.differences import differences
from ivsim.study.model import Study
from ivsim.study.pairs import WITHOUT_FIGURES, Row
from ivsim.study.pilot import Width, width_of
from ivsim.study.results import CellResult
from ivsim.study.store import Store
from ivsim.study.summary import short
from schemas.errors import Refusal

OPTION: Final = "--until-width"
# With fewer, what a repetition has once is not compared repetition by repetition; more than that many cost more than they tell.
LEAST, MOST = 4, 12


class Widest(NamedTuple):
    """The widest interval of the differences that a headline compares.

    Attributes:
        metric: of the difference.
        width: from end to end, as the rule has it: in the metric's unit or of the first figure; None without an interval.
    """

    metric: str
    width: float | None


def check_rule(study: Study, cells: Sequence[Cell], where: str, *, width: str, quick: bool) -> None:
    """Refuse a rule that a study cannot be run by."""
    width_of(width, OPTION)
    if quick:
        raise Refusal(f"{OPTION} {width}: has no effect with --quick, which runs one block")
    # As if each cell had a figure of its own: an extreme is one by its figures alone.
    figures = [dict.fromkeys(study.metrics, float(n)) for n in range(len(cells))]
    made_up = [
        CellResult(cell, [Kept(Task(cell, 1), DONE, None, own, Path())])
        for cell, own in zip(cells, figures, strict=True)
    ]
    if not differences(study, made_up):
        raise Refusal(
            f"{where}: headline: compares no two cells in a metric of the study; {OPTION} needs a pair"
        )


def widest(study: Study, found: Sequence[CellResult], rule: Width) -> Widest:
    """Return the widest of the headline's differences; one that has no interval is wider than any.

    Of a cell that is never valid, or never measured, more blocks tell nothing either.
    """
    rows = [one.row for one in differences(study, found)]
    known = [row for row in rows if row.verdict not in WITHOUT_FIGURES]
    looked = [Widest(row.metric, _width(row, rule)) for row in known]
    unknown = [one for one in looked if one.width is None] or (
        [] if looked else [Widest(study.metrics[0], None)]
    )
    return unknown[0] if unknown else max(looked, key=lambda one: one.width or 0.0)


def _width(row: Row, rule: Width) -> float | None:
    if row.comparison is None:
        return None
    span = row.comparison.high - row.comparison.low
    if not rule.relative or span == 0:
        return span
    return span / abs(row.first.estimate) if row.first.estimate else None


def told(store: Store) -> str:
    """Return by which rule the blocks ended, and how wide the widest interval is then; "" without a rule."""
    until = store.until
    if until is None:
        return ""
    rule, blocks = width_of(until["width"], OPTION), until["blocks"]
    wanted = f"at most {_shown(rule.value, rule, '')} wide" + (
        "" if rule.relative else " in its metric's unit"
    )
    if until["reached"] is None:
        return f"blocks until every headline interval is {wanted}; {blocks} begun"
    found = Widest(**until["widest"])
    is_wide = f"widest {_shown(found.width, rule, store.study.metric(found.metric).unit)}, {found.metric}"
    if until["reached"]:
        return f"stopped after {blocks} blocks: every headline interval is {wanted} ({is_wide})"
    return f"wanted is every headline interval {wanted}; {blocks} blocks did not reach it: {is_wide}"


def _shown(width: float | None, rule: Width, unit: str) -> str:
    if width is None:
        return "has no bounds"
    return f"{short(width * 100)} %" if rule.relative else f"{short(width)} {unit}".strip()


def new_rule(width: str) -> dict[str, Any]:
    """Return what study.json says of a rule whose first block is to begin."""
    return {"width": width, "blocks": 1, "reached": None, "widest": None}
