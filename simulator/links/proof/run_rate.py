"""What a run's own packets prove of the rate in one direction; pure.

"off" is said of what no tolerance explains, "pass" only where the traffic was near enough to the rate to show the opposite,
and "unproven" otherwise: nothing near a rate proves nothing of it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.link_seconds import LinkSeconds, Mask, Values
from simulator.links.queueing import FRAME_BYTES

RATE_TOLERANCE: Final = 0.03
LEAST_SATURATED_SECONDS: Final = 3
LARGEST_RATE_TOLERANCE: Final = 0.15
NEAR_THE_RATE: Final = 0.8


class RateOfRun:
    """Judges the rate from above in every second, and from below where a queue stood before it throughout.

    Seconds with a queue at both ends are taken in runs, whatever rates they were asked for: what left the delay line
    in a run is the integral of the rates one delay earlier, and the frames cut by its ends count once a run.
    """

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._limited = False
        self._asked, self._above, self._near = 0, 0, 0
        self._saturated = _Saturated()

    def take(self, seconds: LinkSeconds) -> None:
        """Add all seconds of some vehicles."""
        self._limited |= bool(seconds.limit_bps.any())
        asked = (seconds.limit_bps != 0) & seconds.served_frame_by_frame
        near = seconds.queued_through | (seconds.utilisation >= NEAR_THE_RATE)
        self._asked += int(np.count_nonzero(asked))
        self._above += int(np.count_nonzero(asked & _above(seconds)))
        self._near += int(np.count_nonzero(asked & near))
        self._saturated.take(seconds)

    def check(self) -> Check | None:
        """Return what all of it comes to; None where no second had a rate."""
        if not self._limited:
            return None
        saturated, count = self._saturated, self._saturated.seconds
        ratio, tolerance = saturated.ratio, saturated.tolerance
        enough = count >= LEAST_SATURATED_SECONDS and tolerance <= LARGEST_RATE_TOLERANCE
        off = bool(self._above) or (enough and ratio is not None and abs(ratio - 1) > tolerance)
        verdict: Verdict = "off" if off else "pass" if enough else "unproven"
        return Check(
            "rate",
            self._direction,
            "the asked rate",
            f"{self._above} of {self._near} seconds near it above"
            + ("" if ratio is None else f"; {ratio:.3f} of it in {count} saturated seconds"),
            f"within {tolerance:.1%}" if enough else f"needs {LEAST_SATURATED_SECONDS} saturated seconds",
            verdict,
            1.0,
            ratio,
            power=f"{self._near} of {self._asked} seconds near the rate, {count} saturated",
        )


def _above(seconds: LinkSeconds) -> Mask:
    """Return where the step passed more than its rates allow; unlimited seconds before it allow anything."""
    rate_before = seconds.before(seconds.rate_bps, np.nan)
    began_ns, ended_ns = seconds.before(seconds.counted_at_ns, 0), seconds.counted_at_ns
    # 100 ms where nobody noted when the counters were read; and what a shorter delay lets out early.
    noted = (began_ns != 0) & (ended_ns != 0)
    apart_s = np.where(noted, np.maximum(1.0, (ended_ns - began_ns) / 1e9 + 0.01), 1.1)
    earlier_s = np.maximum(0.0, seconds.before(seconds.delay_ms, 0.0) - seconds.delay_ms) / 1e3
    rates = np.fmax(rate_before, seconds.rate_bps)
    allowed: Values = rates / 8 * (apart_s + earlier_s) * (1 + RATE_TOLERANCE) + 2 * FRAME_BYTES
    found: Mask = seconds.adjacent & seconds.counted & ~np.isnan(rate_before) & (seconds.bytes > allowed)
    return found


class _Saturated:
    """Sums over runs of seconds before which a queue stood throughout."""

    def __init__(self) -> None:
        self.seconds = 0
        self._runs = 0
        self._passed, self._capacity, self._variance, self._packets = 0.0, 0.0, 0.0, 0

    def take(self, seconds: LinkSeconds) -> None:
        rate_before = seconds.before(seconds.limit_bps, 0.0)
        usable = seconds.queued_through & seconds.served_frame_by_frame & (rate_before != 0)
        at = np.flatnonzero(usable)
        capacity = seconds.capacity_bytes(at)
        at, capacity = at[~np.isnan(capacity)], capacity[~np.isnan(capacity)]
        self.seconds += len(at)
        # Each second of a run follows the one before, of the same vehicle: a vehicle's first is in none.
        self._runs += len(at) - int(np.count_nonzero(np.diff(at) == 1))
        loss, packets = seconds.loss_ratio[at], seconds.packets[at]
        self._passed += float(seconds.bytes[at].sum())
        self._packets += int(packets.sum())
        spread = packets * loss / np.maximum(1e-9, 1 - loss)
        for bytes_, variance in zip((capacity * (1 - loss)).tolist(), spread.tolist(), strict=True):
            self._capacity += bytes_
            self._variance += variance

    @property
    def ratio(self) -> float | None:
        """Bytes passed, of those that a busy link passes."""
        return self._passed / self._capacity if self._capacity else None

    @property
    def tolerance(self) -> float:
        frames = 2 * FRAME_BYTES * self._runs / self._capacity if self._capacity else 0.0
        chance = 3.3 * math.sqrt(self._variance) / self._packets if self._packets else 0.0
        return RATE_TOLERANCE + frames + chance
