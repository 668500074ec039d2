"""Which share of the messages is lost behind a bad link, by the link's loss, the batch's count and acknowledgement.

Over TCP nothing is lost while a connection lives: messages expire, or find no room, in front of a producer that cannot
send as fast as they come. `Goodput` says so without a fit; the others are fitted to measured cells.
"""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

Shares = NDArray[np.float64]
# Starts of the fit: losses of the link at which half of the messages are lost.
_STARTS = (0.05, 0.15, 0.3)


class LossModel(typing.Protocol):
    """The share of messages that are lost: eta_l."""

    def lost(self, loss_ratio: ArrayLike, messages: ArrayLike, acknowledged: ArrayLike) -> Shares:
        """Return the share lost in each cell.

        Args:
            loss_ratio: share of packets that the link loses.
            messages: that close a batch.
            acknowledged: 1 where the producer awaits Kafka's answer, else 0.
        """


def tcp_bytes_per_s(segment_bytes: float, rtt_ms: float, loss_ratio: float) -> float:
    """Return the goodput of a TCP connection whose loss is random and whose congestion control halves its window.

    MSS / RTT x sqrt(3 / (2 p)): Mathis, Semke, Mahdavi and Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
    Algorithm" (1997), without delayed acknowledgements. It holds for Reno and, with small windows, CUBIC; not for BBR.
    Without loss it knows no limit: infinite. ValueError for what is no segment, delay or loss.
    """
    if not (segment_bytes > 0 and rtt_ms > 0 and 0 <= loss_ratio <= 1):
        raise ValueError(
            f"{segment_bytes} bytes, {rtt_ms} ms, loss {loss_ratio}: above 0, above 0, from 0 to 1"
        )
    if loss_ratio == 0:
        return math.inf
    return segment_bytes / (rtt_ms / 1e3) * math.sqrt(1.5 / loss_ratio)


@dataclass(frozen=True, slots=True)
class Goodput:
    """What gets through of an open-loop load, in a run much longer than the messages' expiry.

    X = min(r, m B_S / R, C / (s + h / B_S)): what is offered, what the requests in flight carry, what the link carries.

    Attributes:
        per_s: messages offered (r).
        in_flight: requests that may be unanswered (m); infinite without answers.
        answer_ms: time from a request to its answer, at this loss (R).
        bytes_per_s: what TCP carries at this loss (C).
        message_bytes: of a message on the link (s).
        request_bytes: of a request beside its messages, headers of every layer included (h).
    """

    per_s: float
    in_flight: float
    answer_ms: float
    bytes_per_s: float
    message_bytes: float
    request_bytes: float

    def __post_init__(self) -> None:
        for name in ("per_s", "in_flight", "answer_ms", "bytes_per_s", "message_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")
        if not self.request_bytes >= 0:
            raise ValueError(f"request_bytes {self.request_bytes}: must not be below 0")

    def through_per_s(self, messages: ArrayLike) -> Shares:
        """Return the messages a second that get through, by the count of a batch."""
        count = np.asarray(messages, dtype=np.float64)
        carried = self.bytes_per_s / (self.message_bytes + self.request_bytes / count)
        return np.minimum(np.minimum(self.per_s, self.in_flight * count / self.answer_ms * 1e3), carried)

    def lost(self, messages: ArrayLike) -> Shares:
        """Return the share of the messages that does not get through."""
        return np.asarray(1 - self.through_per_s(messages) / self.per_s)


@dataclass(frozen=True, slots=True)
class LossLogistic:
    """A logistic curve in the link's loss, moved by count and acknowledgement.

    Attributes:
        middle: loss of the link at which half is lost, at count 0 and unacknowledged.
        a_message, acknowledged: by how much each moves it.
        spread: how flat it is, above 0.
    """

    middle: float
    a_message: float
    acknowledged: float
    spread: float

    @classmethod
    def fitted(
        cls, loss_ratio: ArrayLike, messages: ArrayLike, acknowledged: ArrayLike, lost: ArrayLike
    ) -> Self:
        """Return the curve of least squares; ValueError for fewer cells than parameters."""
        cells = cells_of(loss_ratio, messages, acknowledged)
        shares = np.asarray(lost, dtype=np.float64)
        if len(shares) != len(cells) or len(cells) < 4:
            raise ValueError(f"{len(cells)} cells with {len(shares)} losses: as many of both, and 4 at least")

        def residuals(parameters: Shares) -> Shares:
            middle, a_message, moved, log_spread = parameters
            model = cls(middle, a_message, moved, math.exp(log_spread))
            return model.lost(*cells.T) - shares

        starts = [(middle, 0.0, 0.0, math.log(spread)) for middle in _STARTS for spread in (0.02, 0.1)]
        bounds = ([-1.0, -1.0, -1.0, -8.0], [2.0, 1.0, 1.0, 2.0])
        fits = [optimize.least_squares(residuals, start, bounds=bounds) for start in starts]
        middle, a_message, moved, log_spread = map(float, min(fits, key=lambda fit: fit.cost).x)
        return cls(middle, a_message, moved, math.exp(log_spread))

    def lost(self, loss_ratio: ArrayLike, messages: ArrayLike, acknowledged: ArrayLike) -> Shares:
        at = (
            self.middle + self.a_message * np.asarray(messages) + self.acknowledged * np.asarray(acknowledged)
        )
        return np.asarray(special.expit((np.asarray(loss_ratio) - at) / self.spread))


def cells_of(loss_ratio: ArrayLike, messages: ArrayLike, acknowledged: ArrayLike) -> Shares:
    """Return cells as rows of (loss of the link, count, acknowledged); single values are the same in every cell."""
    columns = np.broadcast_arrays(
        *(np.asarray(c, dtype=np.float64) for c in (loss_ratio, messages, acknowledged))
    )
    return np.stack([column.ravel() for column in columns], axis=1)
