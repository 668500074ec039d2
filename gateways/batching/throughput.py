"""How many messages a second a producer sends that is never without one, by the count of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize


@dataclass(frozen=True, slots=True)
class Throughput:
    """1 / X = a + b / B_S: a message costs time by itself, and its share of its request.

    Attributes:
        message_s: time of a message (a).
        request_s: time of a request (b).
    """

    message_s: float
    request_s: float

    def __post_init__(self) -> None:
        if not (self.message_s >= 0 and self.request_s >= 0 and self.message_s + self.request_s > 0):
            raise ValueError(
                f"{self.message_s} s a message, {self.request_s} s a request: not below 0, nor both 0"
            )

    @classmethod
    def fitted(cls, messages: ArrayLike, per_s: ArrayLike) -> Self:
        """Return the curve of least squares of the relative errors; ValueError for fewer than two counts."""
        count, rate = np.asarray(messages, dtype=np.float64), np.asarray(per_s, dtype=np.float64)
        if count.shape != rate.shape or len(np.unique(count)) < 2 or not (rate > 0).all():
            raise ValueError("throughput: needs a rate above 0 for each of two different counts at least")
        (message_s, request_s), _ = optimize.nnls(np.stack([rate, rate / count], axis=1), np.ones(len(rate)))
        return cls(float(message_s), float(request_s))

    def per_s(self, messages: ArrayLike) -> NDArray[np.float64]:
        """Return the messages a second at each count."""
        return np.asarray(1 / (self.message_s + self.request_s / np.asarray(messages, dtype=np.float64)))
