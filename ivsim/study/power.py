"""What a number of blocks can find: the smallest difference, and the blocks that a difference of interest takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from scipy import special

from ivsim.study.compare import MIN_PAIRED_REPETITIONS, RELEVANT
from ivsim.study.differences import differences
from ivsim.study.model import Study
from ivsim.study.pairs import WITHOUT_FIGURES, Difference
from ivsim.study.pilot import MOST, freedom_at
from ivsim.study.results import CellResult
from ivsim.study.statistics import CONFIDENCE, Comparison
from ivsim.study.summary import DASH, short

POWER: Final = 0.8


class Findable(NamedTuple):
    """What of a difference that a headline compares is found.

    Attributes:
        smallest: difference that the blocks planned find with POWER; None where the pilot has no interval.
        blocks: that find a difference of one margin, RELEVANT of the first figure; None where there is no margin, or MOST do not.
    """

    of: Difference
    smallest: float | None
    blocks: int | None
    why: str = ""


def smallest(pilot: Comparison, blocks: int) -> float | None:
    """Return the difference that so many blocks find with POWER at 5 % two-sided, by the pilot's standard error.

    By the noncentral t distribution (Johnson, Kotz and Balakrishnan 1995, 31). The variance falls with the number of blocks.
    """
    if pilot.error is None or pilot.freedom is None:
        return None
    freedom = freedom_at(blocks, pilot.freedom, pilot.repetitions)
    border = special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)
    away = float(special.nctdtrinc(freedom, 1 - POWER, border))
    return away * pilot.error * math.sqrt(pilot.repetitions / blocks)


def blocks_for(pilot: Comparison, difference: float) -> int | None:
    """Return the least number of blocks that finds a difference; None where MOST do not, or nothing is known."""
    for blocks in range(MIN_PAIRED_REPETITIONS, MOST + 1):
        found = smallest(pilot, blocks)
        if found is None:
            return None
        if found <= difference:
            return blocks
    return None


def planned_blocks(study: Study) -> int:
    """Return the blocks of a study, of which fewer than MIN_PAIRED_REPETITIONS pair no repetitions."""
    return max(study.repetitions, MIN_PAIRED_REPETITIONS)


def findable(study: Study, pilot: Sequence[CellResult]) -> list[Findable]:
    """Return what is found of each difference that the headline compares, each tested by itself."""
    return [_findable(study, one) for one in differences(study, pilot)]


def _findable(study: Study, one: Difference) -> Findable:
    compared, first = one.row.comparison, one.row.first.estimate
    found = (
        None if compared is None or not compared.repetitions else smallest(compared, planned_blocks(study))
    )
    if one.row.verdict in WITHOUT_FIGURES:
        return Findable(one, None, None, one.row.verdict)
    if compared is None or found is None:
        return Findable(one, None, None, "the pilot has no interval")
    if study.metric(one.row.metric).unit == "ratio":
        return Findable(one, found, None, "a share of messages has no margin")
    if not first:
        return Findable(one, found, None, "the first figure is 0")
    blocks = blocks_for(compared, RELEVANT * abs(first))
    return Findable(one, found, blocks, "" if blocks else f"more than {MOST}")


def as_table_row(study: Study, row: Findable) -> tuple[str, str, str, str]:
    """Return a row as a table shows it: between which cells, of what, the smallest difference, and the blocks for a margin."""
    pair, metric, first = row.of.pair, row.of.row.metric, row.of.row.first.estimate
    place = ", ".join(filter(None, (pair.step, pair.beside)))
    if row.smallest is None:
        return place, metric, DASH, row.why
    unit = study.metric(metric).unit
    scale, unit = (100.0, "%") if unit == "ratio" else (1.0, "" if unit == "1" else unit)
    of_first = f" ({short(row.smallest / abs(first) * 100)} % of the first)" if first else ""
    shown = f"{short(row.smallest * scale)} {unit}".strip() + of_first
    return place, metric, shown, row.why or str(row.blocks)
