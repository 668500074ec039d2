"""The report's own sections on what decides latency and loss, and how well both are predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ivsim.papers.parts import Figures
from ivsim.papers.reactive_batching import loss_models
from ivsim.papers.reactive_batching.cells import (
    AGED,
    COUNTS,
    FILLED,
    HINGE_RATES,
    LOST,
    RATE,
    WAIT_MS,
    Cells,
)
from ivsim.papers.reactive_batching.latency_claims import hinges
from ivsim.papers.reactive_batching.laws import (
    ANALYTIC,
    CAUCHY,
    GAMMA,
    PHASE,
    RUNS,
    UNIFORM,
    errors,
    long_errors,
    mean_errors,
)
from ivsim.report.style import number
from ivsim.study.markdown import table
from ivsim.study.statistics import mean_interval

# Sweep -> how its cells differ from `loss`, values of the axis beside loss and count.
CAUSES: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "unlimited": ("requests in flight without limit", {"in_flight": 1_000_000}),
    "slower": ("100 records/s instead of 200", {"rate": 400.0}),
    "bbr": ("BBR instead of CUBIC", {"tcp": "bbr"}),
    "bursts": ("loss in bursts of 3.5 packets", {"loss_burst": 3.5}),
    "both_ways": ("loss on both directions", {"loss_direction": "both"}),
    "patient": ("expiry 4 s instead of 1 s", {"expiry": 4_000}),
}
CAUSE_LOSSES: Final = (0.08, 0.15)
CAUSE_COUNTS: Final = (1, 3)


def shown(values: Sequence[float] | Figures) -> str:
    """Return a mean with its 95 % interval over repetitions."""
    data = list(values.values()) if isinstance(values, Mapping) else list(values)
    found = mean_interval([float(one) for one in data])
    if found.estimate is None:
        return number(None)
    text = f"{found.estimate:.3g}"
    return text if found.low is None or found.high is None else f"{text} [{found.low:.3g}, {found.high:.3g}]"


def causes(cells: Cells) -> str:
    """Return what is lost when one of the settings that the paper leaves open is another."""
    rows = []
    for loss in CAUSE_LOSSES:
        plain = [shown(cells.lost(loss, count)) for count in CAUSE_COUNTS]
        rows.append([f"{loss:.0%}", "as in the claims: CUBIC, 5 in flight, 200/s, expiry 1 s", *plain])
        for sweep, (meaning, values) in CAUSES.items():
            found = [
                cells.figures(LOST, sweep, loss=loss, batch_messages=count, **values)
                for count in CAUSE_COUNTS
            ]
            if any(found):
                rows.append([f"{loss:.0%}", meaning, *map(shown, found)])
    none = [shown(cells.lost(0.0, count)) for count in CAUSE_COUNTS]
    rows.insert(0, ["0%", "as in the claims", *none])
    head = ["link's loss", "setting", *(f"lost, B_S {count}" for count in CAUSE_COUNTS)]
    return (
        "## What decides the loss\n\nShare of the records due that no consumer was given, one setting at a time; 5 requests in"
        " flight over a round trip of 30 ms carry 167 records/s at B_S 1.\n\n" + table(head, rows)
    )


def hinge(cells: Cells) -> str:
    """Return the hinge at each rate beside 1 + rate x B_T."""
    rows = [
        [f"{rate:g}", shown(hinges(cells, rate)), f"{1 + rate * WAIT_MS / 1e3:g}"]
        for rate in sorted((RATE, *HINGE_RATES))
    ]
    head = ["records/s and partition", "hinge, records", "1 + rate x B_T"]
    return (
        "## Where the hinge lies\n\nHinge of the mean latency over B_S. The published 10 is one rate's.\n\n"
        + table(head, rows)
    )


def laws(cells: Cells) -> str:
    """Return the errors of every law at every count, on runs that it was not made from."""
    rows = []
    for count in COUNTS:
        named = {1: (GAMMA,)} | dict.fromkeys(FILLED, (PHASE, CAUCHY)) | dict.fromkeys(AGED, (UNIFORM,))
        for law in (*named[count], ANALYTIC, RUNS):
            found = errors(cells, law, count)
            largest = max((one.largest for one in found.values()), default=None)
            rows.append([str(count), law, shown(mean_errors(found)), number(largest)])
    for count in FILLED:
        for law in (PHASE, CAUCHY, RUNS):
            found = long_errors(cells, law, count)
            largest = max((one.largest for one in found.values()), default=None)
            rows.append([f"{count}, long runs", law, shown(mean_errors(found)), number(largest)])
    return (
        "## How well latency is predicted\n\nShare of late records at ten limits, on held-out runs. *Analytic* has no fit: the"
        " wait of Poisson arrivals upon the latencies at B_S 1. *The other runs* differ by chance, which no law is below.\n\n"
        + table(["B_S", "law", "MAE", "largest error"], rows)
    )


def losses(cells: Cells) -> str:
    """Return the errors of every model of loss on cells that it was not fitted to."""
    found = loss_models.loss_cells(cells)
    rows = []
    for name in loss_models.MODELS:
        if name in loss_models.NEEDS_LEARNING and not loss_models.has_learning():
            rows.append([name, "scikit-learn is not here", ""])
            continue
        predicted = loss_models.predicted_by(cells, name)
        largest = loss_models.largest_error(found, predicted)
        rows.append([name, shown(loss_models.mean_errors(found, predicted)), number(largest)])
    return (
        f"## How well loss is predicted\n\n{len(found)} cells in {loss_models.FOLDS} folds, each predicted from the others.\n\n"
        + table(["model", "MAE", "largest error"], rows)
    )
