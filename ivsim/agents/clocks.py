"""How far another machine's clock is ahead of this one's, and how sure that is; pure, it reads no clock.

Four timestamps an exchange, as NTP takes them (RFC 5905, section 8): what the ways there and back took is known in sum
alone, so half of it bounds the error, however unequal they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

# How far two clocks may drift apart meanwhile, as a share of it (RFC 5905, section 7.1: PHI, 15 ppm).
DRIFT_PER_S: Final = 15e-6
CLOCK_FIGURES: Final = ("clock_ahead_before_ms", "clock_ahead_after_ms", "clock_uncertainty_ms")


class Exchange(NamedTuple):
    """One question and its answer: T1 to T4 of RFC 5905, in ns of the clock that is named.

    Attributes:
        sent_at_ns: the question left, by our clock.
        received_at_ns: it came, by theirs.
        answered_at_ns: the answer left, by theirs.
        returned_at_ns: it came, by ours.
    """

    sent_at_ns: int
    received_at_ns: int
    answered_at_ns: int
    returned_at_ns: int

    @property
    def delay_ns(self) -> int:
        """Return how long both ways took together."""
        return (self.returned_at_ns - self.sent_at_ns) - (self.answered_at_ns - self.received_at_ns)


class Reading(NamedTuple):
    """What one exchange says of the other clock.

    Attributes:
        at_ns: when, by the other clock.
        ahead_ns: how far the other clock is ahead of ours.
        uncertainty_ns: the true one is at most so far from it.
    """

    at_ns: int
    ahead_ns: int
    uncertainty_ns: int


def reading_of(exchange: Exchange) -> Reading:
    """Return what an exchange says; ValueError where a clock was set meanwhile, so that it says nothing."""
    drift_ns = round((exchange.returned_at_ns - exchange.sent_at_ns) * DRIFT_PER_S)
    # Ways that take no longer than the two clocks drift apart meanwhile may seem to take less than nothing.
    if exchange.delay_ns < -drift_ns or exchange.answered_at_ns < exchange.received_at_ns:
        raise ValueError(f"the ways took {exchange.delay_ns} ns: a clock was set meanwhile")
    there = exchange.received_at_ns - exchange.sent_at_ns
    back = exchange.answered_at_ns - exchange.returned_at_ns
    at_ns = (exchange.received_at_ns + exchange.answered_at_ns) // 2
    # Half a nanosecond is lost by each of two divisions.
    uncertainty_ns = exchange.delay_ns // 2 + 1 + drift_ns
    return Reading(at_ns, (there + back) // 2, uncertainty_ns)


def surest(exchanges: Iterable[Exchange]) -> Reading | None:
    """Return the reading that is surest, which is the one that took least; None where none says anything."""
    readings = []
    for exchange in exchanges:
        try:
            readings.append(reading_of(exchange))
        except ValueError:
            continue
    return min(readings, key=lambda one: one.uncertainty_ns, default=None)


@dataclass(frozen=True)
class ClockLine:
    """The other clock over a run: a straight line between a reading before it and one after it."""

    before: Reading
    after: Reading

    @property
    def uncertainty_ns(self) -> int:
        """Return by how much a time in between may be wrong when it is ours.

        That the other clock went evenly is not seen. As long as it moved in one direction it was between the two readings
        all the time, and so no further from the line than they are from each other.
        """
        moved_ns = abs(self.after.ahead_ns - self.before.ahead_ns)
        return max(self.before.uncertainty_ns, self.after.uncertainty_ns) + moved_ns

    def ours(self, theirs_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return times of the other clock as times of ours; outside the two readings the nearer one holds."""
        span_ns = self.after.at_ns - self.before.at_ns
        moved_ns = self.after.ahead_ns - self.before.ahead_ns
        if span_ns <= 0:
            return theirs_ns - self.after.ahead_ns
        # The differences are small enough for floating point, times since 1970 are not.
        share = np.clip((theirs_ns - self.before.at_ns) / span_ns, 0.0, 1.0)
        return theirs_ns - self.before.ahead_ns - np.rint(share * moved_ns).astype(np.int64)

    def figures(self) -> dict[str, Any]:
        """Return what a result says of it, in ms."""
        found_ns = (self.before.ahead_ns, self.after.ahead_ns, self.uncertainty_ns)
        return {name: value / 1e6 for name, value in zip(CLOCK_FIGURES, found_ns, strict=True)}
