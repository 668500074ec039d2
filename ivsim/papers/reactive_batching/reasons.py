"""Why claims are contradicted: sentences whose premises hold in the cells of this run, with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from ivsim.papers.parts import Figures
from ivsim.papers.reactive_batching.cells import (
    FIXED_COUNTS,
    HINGE_RATES,
    LOST,
    RATE,
    TIMELY,
    WAIT_MS,
    Cells,
)
from ivsim.papers.reactive_batching.latency_claims import hinges
from ivsim.papers.reactive_batching.laws import ANALYTIC, UNIFORM, errors, mean_errors
from ivsim.papers.reactive_batching.regret import best_fixed
from ivsim.papers.reactive_batching.sections import CAUSES
from ivsim.study.claims_report import Cause

# A share of records that is no chance, and a change of it that a setting makes.
SOME: Final = 0.02
MATTERS: Final = 0.05
# From the lower rate to the higher the hinge moves by more than this factor.
MOVES: Final = 1.5
CALM: Final = 0.08
ROUGH: Final = 0.15


def reasons(cells: Cells) -> Mapping[int, Sequence[str]]:
    """Return the sentences that the cells bear out, by the claim that they are about."""
    found = {
        3: list(_moving(cells)),
        8: list(_not_uniform(cells)),
        11: [*_without_loss(cells), *_causes(cells, CALM)],
        12: list(_causes(cells, ROUGH)),
        13: [*_without_loss(cells), *_causes(cells, ROUGH)],
        14: list(_unacknowledged(cells)),
        18: list(_best_fixed(cells)),
    }
    return {number: sentences for number, sentences in found.items() if sentences}


_SETTING: Final = Cause("a setting that the paper leaves open changes what is lost", "With ")
_OFFERED: Final = Cause("five requests in flight carry less than is offered, loss or not", "Records are lost")
# The reasons in a few words, for the table of claims.
CAUSES_IN_SHORT: Final[Mapping[int, Sequence[Cause]]] = {
    3: [Cause("the hinge moves with the rate, as 1 + rate x B_T does")],
    8: [Cause("the law leaves out that a batch's first record waits all of B_T")],
    11: [_OFFERED, _SETTING],
    12: [_SETTING],
    13: [_OFFERED, _SETTING],
    14: [Cause("without answers nothing limits the requests in flight")],
    18: [Cause("one fixed count is best throughout: choosing anew gains nothing")],
}


def _mean(figures: Figures | Sequence[float]) -> float | None:
    values = list(figures.values()) if isinstance(figures, Mapping) else list(figures)
    return float(np.mean(values)) if values else None


def _moving(cells: Cells) -> Iterator[str]:
    rates = sorted((RATE, *HINGE_RATES))
    at = [_mean(hinges(cells, rate)) for rate in rates]
    if at[0] is None or at[-1] is None or not at[-1] > MOVES * at[0]:
        return
    pairs = ", ".join(
        f"{hinge:.3g} at {rate:g}/s" for rate, hinge in zip(rates, at, strict=True) if hinge is not None
    )
    yield f"The hinge moves with the rate ({pairs}), as 1 + rate x B_T does: 10 is one rate's, and no property of batches."


def _not_uniform(cells: Cells) -> Iterator[str]:
    count = 30
    own, other = (_mean(mean_errors(errors(cells, law, count))) for law in (UNIFORM, ANALYTIC))
    if own is not None and other is not None and other < own / 2:
        yield (
            f"The uniform law's bounds leave out that the record which begins a batch waits all of B_T ({WAIT_MS:g} ms) and that"
            f" alpha is not derived: at B_S {count} its MAE is {own:.2g}, that of the analytic model, with the wait, {other:.2g}."
        )


def _without_loss(cells: Cells) -> Iterator[str]:
    none = _mean(cells.lost(0.0, 1))
    if none is not None and none > SOME:
        yield (
            f"Records are lost where no packet is ({none:.0%} at B_S 1): 5 requests in flight over 30 ms carry 167 of the 200"
            " records/s that are offered, and the rest expires in the producer."
        )


def _causes(cells: Cells, loss: float) -> Iterator[str]:
    plain = _mean(cells.lost(loss, 1))
    if plain is None:
        return
    for sweep, (meaning, values) in CAUSES.items():
        other = _mean(cells.figures(LOST, sweep, loss=loss, batch_messages=1, **values))
        if other is not None and abs(other - plain) > MATTERS:
            yield f"With {meaning} {other:.0%} are lost at B_S 1 and {loss:.0%} loss of the link, not {plain:.0%}."


def _unacknowledged(cells: Cells) -> Iterator[str]:
    answered, unanswered = (_mean(cells.lost(ROUGH, 1, acks)) for acks in ("1", "0"))
    if answered is not None and unanswered is not None and unanswered < answered - MATTERS:
        yield (
            f"Without answers nothing limits the requests in flight, and TCP repeats what the link loses: at B_S 1 and {ROUGH:.0%}"
            f" {unanswered:.0%} are lost without answers, {answered:.0%} with them."
        )


def _best_fixed(cells: Cells) -> Iterator[str]:
    fixed = {count: cells.fixed(TIMELY, count) for count in FIXED_COUNTS}
    best = [count for count, _ in best_fixed(fixed).values()]
    if best and len(set(best)) == 1:
        own = _mean(cells.policy(TIMELY, "reactive"))
        most = _mean(fixed[best[0]])
        if own is not None and most is not None and own < most:
            yield (
                f"One count is best throughout (B_S {best[0]}: {most:.0f} timely records/s, the controller {own:.0f}): a choice"
                " made anew gains nothing where the best one does not change with the link."
            )
