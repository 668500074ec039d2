"""Claims 11 to 15: what the link's loss, the count of a batch and acknowledgement do to what arrives; see `claims`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from ivsim.papers.parts import ANY, DIFFERENCE, Figures, Part, differences, found_of
from ivsim.papers.reactive_batching.cells import LOSS_COUNTS, UNACKNOWLEDGED, Cells, slopes
from ivsim.papers.reactive_batching.loss_models import (
    NETWORK,
    has_learning,
    loss_cells,
    mean_errors,
    predicted_by,
)
from ivsim.study.claims import CANNOT_TELL, Finding, not_comparable

# Up to 8 % nothing is lost, which is to be below a hundredth; from 10 % on more than half of a hundredth a count.
CALM: Final = (0.0, 0.02, 0.05, 0.08)
ROUGH: Final = (0.15, 0.25)
NOTHING: Final = 0.01
AT: Final = 0.15
MOST_LOST: Final = 0.8
HARDLY_LOST: Final = 0.05
NETWORK_MAE: Final = 0.02


def none_lost(cells: Cells) -> list[Finding]:
    """Decide claim 11."""
    return found_of(
        [
            Part(
                f"link {loss:.0%}, B_S {count}, lost",
                list(cells.lost(loss, count).values()),
                -ANY,
                NOTHING,
                DIFFERENCE,
            )
            for loss in CALM
            for count in LOSS_COUNTS
        ]
    )


def less_with_count(cells: Cells) -> list[Finding]:
    """Decide claim 12."""
    parts = []
    for loss in ROUGH:
        by_count: Mapping[float, Figures] = {float(count): cells.lost(loss, count) for count in LOSS_COUNTS}
        text = f"link {loss:.0%}, slope of what is lost over log B_S"
        parts.append(Part(text, slopes(by_count, math.log), -ANY, 0.0, DIFFERENCE))
    return found_of(parts)


def from_one_to_three(cells: Cells) -> list[Finding]:
    """Decide claim 13."""
    first, third = (list(cells.lost(AT, count).values()) for count in (1, 3))
    return found_of(
        [
            Part(f"link {AT:.0%}, B_S 1, lost", first, MOST_LOST, ANY, DIFFERENCE),
            Part(f"link {AT:.0%}, B_S 3, lost", third, -ANY, HARDLY_LOST, DIFFERENCE),
        ]
    )


def acknowledged_less(cells: Cells) -> list[Finding]:
    """Decide claim 14."""
    return found_of(
        [
            Part(
                f"link {loss:.0%}, B_S {count}, at least once minus at most once",
                differences(cells.lost(loss, count), cells.lost(loss, count, "0")),
                -ANY,
                0.0,
                DIFFERENCE,
            )
            for loss in UNACKNOWLEDGED
            for count in LOSS_COUNTS
        ]
    )


def network(cells: Cells) -> list[Finding]:
    """Decide claim 15."""
    text = f"{NETWORK}, MAE of held-out cells"
    if not has_learning():
        return [not_comparable(text, "scikit-learn is not here (pip install 'ivsim[models]')")]
    found = loss_cells(cells)
    values = list(mean_errors(found, predicted_by(cells, NETWORK)).values())
    if found and not values:
        return [Finding(CANNOT_TELL, f"{text}: it gives no number, too few cells or a diverging fit")]
    return found_of([Part(text, values, 0.0, NETWORK_MAE, DIFFERENCE)])
