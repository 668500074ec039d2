"""Whether the best predictions are as accurate as was asked for, on runs, seeds and cells that they were not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ivsim.papers.parts import Figures
from ivsim.papers.reactive_batching import loss_models
from ivsim.papers.reactive_batching.cells import AGED, COUNTS, FILLED, Cells
from ivsim.papers.reactive_batching.laws import (
    ANALYTIC,
    CAUCHY,
    GAMMA,
    PHASE,
    RUNS,
    UNIFORM,
    errors,
    mean_errors,
)
from ivsim.papers.reactive_batching.sections import shown
from ivsim.study.markdown import table
from ivsim.study.statistics import mean_interval

# Bounds of the mean absolute error of a share.
LATE_WITHIN: Final = 0.02
LOST_WITHIN: Final = 0.03
# Laws at a count; every one of them has the analytic one.
LAWS: Final = (
    {1: (GAMMA, ANALYTIC)}
    | dict.fromkeys(FILLED, (PHASE, CAUCHY, ANALYTIC))
    | dict.fromkeys(AGED, (UNIFORM, ANALYTIC))
)


def accuracy(cells: Cells) -> str:
    """Return, for each count and for loss, the model with the least error, and whether that is within its bound."""
    rows = []
    for count in COUNTS:
        of_laws = {law: mean_errors(errors(cells, law, count)) for law in LAWS[count]}
        chance = mean_errors(errors(cells, RUNS, count))
        rows.append([f"late, B_S {count}", *best_model(of_laws, LATE_WITHIN), shown(chance)])
    found = loss_models.loss_cells(cells)
    of_models = {
        name: loss_models.mean_errors(found, loss_models.predicted_by(cells, name))
        for name in loss_models.fittable()
    }
    rows.append(["lost", *best_model(of_models, LOST_WITHIN), ""])
    return (
        "## Whether that is accurate enough\n\nThe model with the least mean absolute error (MAE) of each share, on repetitions"
        " and their seeds, or cells, that it was not fitted to. *Met* and *not met* take a whole 95 % interval over repetitions"
        " on one side of the bound. Where the other runs themselves are as far off, longer runs are what is missing, not a"
        " better model.\n\n" + table(["share", "best model", "MAE", "bound", "", "the other runs, MAE"], rows)
    )


def best_model(of_models: Mapping[str, Figures], bound: float) -> list[str]:
    """Return the best model's name, its error, the bound and whether it is met."""
    known = {name: list(values.values()) for name, values in of_models.items() if values}
    if not known:
        return ["none", shown({}), f"{bound:g}", "not measured"]
    best = min(known, key=lambda name: sum(known[name]) / len(known[name]))
    found = mean_interval(known[best])
    verdict = "undecided"
    if found.low is not None and found.high is not None:
        verdict = "met" if found.high <= bound else "not met" if found.low > bound else verdict
    return [best, shown(known[best]), f"{bound:g}", verdict]
