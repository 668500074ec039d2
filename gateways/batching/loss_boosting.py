"""Loss by gradient boosting over measured cells; needs scikit-learn, which `pip install 'ivsim[models]'` brings."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gateways.batching.loss import Shares, cells_of

# With the link's loss more is lost, with a greater count less; of acknowledgement nothing is known beforehand.
_MONOTONE = (1, -1, 0)
_LEAST = 20


class LossBoosting:
    """Implements gateways.batching.loss.LossModel: monotone in the link's loss and in the batch's count."""

    def __init__(self, trees: HistGradientBoostingRegressor) -> None:
        self._trees = trees

    @classmethod
    def fitted(
        cls,
        loss_ratio: ArrayLike,
        messages: ArrayLike,
        acknowledged: ArrayLike,
        lost: ArrayLike,
        *,
        seed: int = 1,
    ) -> Self:
        """Return the trees; the same cells and seed give the same ones. ValueError for too few cells."""
        cells = cells_of(loss_ratio, messages, acknowledged)
        shares = np.asarray(lost, dtype=np.float64)
        if len(shares) != len(cells) or len(cells) < _LEAST:
            raise ValueError(
                f"{len(cells)} cells with {len(shares)} losses: as many of both, and {_LEAST} at least"
            )
        leaf = max(2, min(20, len(cells) // 20))
        trees = HistGradientBoostingRegressor(
            monotonic_cst=list(_MONOTONE), min_samples_leaf=leaf, early_stopping=False, random_state=seed
        )
        # Some hundred cells are no work for threads, and OpenMP's wait for each other by spinning: on two cores that others
        # used too, a fit took 4.5 s in place of 0.24.
        with threadpool_limits(1, "openmp"):
            return cls(trees.fit(cells, shares))

    def lost(self, loss_ratio: ArrayLike, messages: ArrayLike, acknowledged: ArrayLike) -> Shares:
        shape = np.broadcast_shapes(*(np.shape(column) for column in (loss_ratio, messages, acknowledged)))
        predicted = self._trees.predict(cells_of(loss_ratio, messages, acknowledged))
        return np.asarray(np.clip(np.asarray(predicted), 0.0, 1.0).reshape(shape))
