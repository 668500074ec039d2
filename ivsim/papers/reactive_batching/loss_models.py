"""Models of loss against cells that they were not fitted to; what needs scikit-learn says so where it is not there."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from gateways.batching.latency_laws import Shares
from gateways.batching.loss import Goodput, LossLogistic, tcp_bytes_per_s
from ivsim.papers.reactive_batching.cells import LOSS_COUNTS, LOSSES, UNACKNOWLEDGED, Cells, Floats

NETWORK, LOGISTIC, BOOSTING, FORMULA, MEAN_LOSS = (
    "network, as published",
    "logistic, 4 parameters",
    "boosting, monotone",
    "goodput formula, no fit",
    "mean of the others",
)
NEEDS_LEARNING: Final = frozenset({NETWORK, BOOSTING})
FOLDS: Final = 4
# Of the study's cells: records/s of a gateway, and what the document on the paper reckons for 500 B.
OFFERED_PER_S: Final = 200.0
IN_FLIGHT: Final = 5
RTT_MS: Final = 30.0
MESSAGE_BYTES: Final = 555.0
REQUEST_BYTES: Final = 150.0
SEGMENT_BYTES: Final = 1_448.0
# Linux waits so long at least before it sends again what no later packet tells it to (TCP_RTO_MIN).
TIMEOUT_MS: Final = 200.0
# Published: three inputs, four hidden layers, SGD; the activation is not, and this one learns.
LAYERS: Final = (200, 200, 200, 64)
LEARNING_RATE: Final = 0.5
EPOCHS: Final = 1_000

# Features (loss of the link, count, acknowledged) and what was lost, of cells to fit; features to predict.
Model = Callable[[Floats, Floats, Floats], Shares]


class LossCell(NamedTuple):
    """One cell: its link's loss, its count, whether answers are awaited, and what each repetition lost."""

    loss: float
    messages: int
    acknowledged: int
    lost: Mapping[int, float]


def loss_cells(cells: Cells) -> list[LossCell]:
    """Return the cells that have been measured."""
    asked = [(loss, count, "1") for loss in LOSSES for count in LOSS_COUNTS]
    asked += [(loss, count, "0") for loss in UNACKNOWLEDGED for count in LOSS_COUNTS]
    found = [LossCell(loss, count, int(acks), cells.lost(loss, count, acks)) for loss, count, acks in asked]
    return [one for one in found if one.lost]


def has_learning() -> bool:
    """Return whether scikit-learn is here."""
    return importlib.util.find_spec("sklearn") is not None


def fittable() -> list[str]:
    """Return the names of the models that can be had here."""
    return [name for name in MODELS if name not in NEEDS_LEARNING or has_learning()]


def predictions(found: Sequence[LossCell], model: Model) -> Shares:
    """Return what a model says of each cell, fitted to the cells of the other folds; NaN where it cannot be fitted."""
    features = np.array([one[:3] for one in found], dtype=np.float64)
    lost = np.array([float(np.mean(list(one.lost.values()))) for one in found])
    predicted = np.full(len(found), np.nan)
    for fold in range(FOLDS):
        held_out = np.arange(len(found)) % FOLDS == fold
        if held_out.any() and not held_out.all():
            try:
                predicted[held_out] = model(features[~held_out], lost[~held_out], features[held_out])
            except ValueError:  # too few cells, or a fit that diverges
                continue
    return predicted


def predicted_by(cells: Cells, name: str) -> Shares:
    """Return what a model of MODELS says of each cell of `loss_cells`, made once: the network takes a minute."""
    made: Shares = cells.remembered((name, 0), lambda: predictions(loss_cells(cells), MODELS[name]))
    return made


def mean_errors(found: Sequence[LossCell], predicted: Shares) -> dict[int, float]:
    """Return the MAE over all cells of each repetition that has them all; none where a prediction is missing."""
    if not found or np.isnan(predicted).any():
        return {}
    both = set.intersection(*(set(one.lost) for one in found))
    return {
        repetition: float(
            np.mean([abs(p - one.lost[repetition]) for p, one in zip(predicted, found, strict=True)])
        )
        for repetition in sorted(both)
    }


def largest_error(found: Sequence[LossCell], predicted: Shares) -> float | None:
    """Return the largest error of a cell's mean; None where a prediction is missing."""
    if not found or np.isnan(predicted).any():
        return None
    return float(
        max(abs(p - np.mean(list(one.lost.values()))) for p, one in zip(predicted, found, strict=True))
    )


def _formula(_features: Floats, _lost: Floats, asked: Floats) -> Shares:
    return np.array([_goodput(*row) for row in asked])


def _goodput(loss: float, count: float, acknowledged: float) -> float:
    """Return 1 - X/r with X = min(r, m B_S / R, C / (s + h / B_S)); R has a timeout for each request that loses its last packet."""
    in_flight = IN_FLIGHT if acknowledged else math.inf
    answer_ms = RTT_MS + loss / (1 - loss) * TIMEOUT_MS
    carried = tcp_bytes_per_s(SEGMENT_BYTES, RTT_MS, loss) if loss else math.inf
    model = Goodput(OFFERED_PER_S, in_flight, answer_ms, carried, MESSAGE_BYTES, REQUEST_BYTES)
    return float(model.lost(count))


def _logistic(features: Floats, lost: Floats, asked: Floats) -> Shares:
    return LossLogistic.fitted(features[:, 0], features[:, 1], features[:, 2], lost).lost(*asked.T)


def _mean(_features: Floats, lost: Floats, asked: Floats) -> Shares:
    return np.full(len(asked), lost.mean())


def _boosting(features: Floats, lost: Floats, asked: Floats) -> Shares:
    from gateways.batching.loss_boosting import LossBoosting  # noqa: PLC0415 - scikit-learn is an extra

    # Fewer cells than it is made for: each counts several times, which moves no mean of a leaf.
    again = math.ceil(20 / len(lost))
    link, messages, acknowledged = np.tile(features, (again, 1)).T
    return LossBoosting.fitted(link, messages, acknowledged, np.tile(lost, again)).lost(*asked.T)


def _network(features: Floats, lost: Floats, asked: Floats) -> Shares:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - as above
    from sklearn.neural_network import MLPRegressor  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    network = MLPRegressor(
        hidden_layer_sizes=LAYERS,
        activation="relu",
        solver="sgd",
        learning_rate_init=LEARNING_RATE,
        momentum=0.0,
        max_iter=EPOCHS,
        n_iter_no_change=EPOCHS,
        random_state=1,
    )
    with warnings.catch_warnings():
        # The published number of epochs is what it gets.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        fitted = make_pipeline(StandardScaler(), network).fit(features, lost)
    return np.asarray(np.clip(fitted.predict(asked), 0.0, 1.0))


MODELS: Final[Mapping[str, Model]] = {
    NETWORK: _network,
    LOGISTIC: _logistic,
    BOOSTING: _boosting,
    FORMULA: _formula,
    MEAN_LOSS: _mean,
}
