"""What a run's light probes prove of the delay in one direction; pure.

"off" is said of what chance does not explain (see `power`), "pass" only where the probes could have shown the opposite,
and "unproven" otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from simulator.links.proof import prober
from simulator.links.proof.checks import Check, quantile
from simulator.links.proof.link_seconds import LinkSeconds, Mask, Values
from simulator.links.proof.power import most_by_chance, share_power

DELAY_TOLERANCE_MS: Final = 1.0
EARLY_MS: Final = 0.1
# Later than this by no queue: of at most 5 %, and of at most 1 % of the probes.
P95_LATE_MS, P99_LATE_MS = 10.0, 50.0
# A probe of a second used less than this, with no queue before it, meets another packet less than half of the time.
QUIET_UTILISATION: Final = 0.25
LARGEST_HIDDEN_SHARE: Final = 0.3  # a delay passes where a late share above this would have been found


class DelayOfRun:
    """Judges propagation by the probes' excess over what was asked, apart from the wait in the run's own queue.

    The median where the link was hardly used; p95 and p99 of what is above the longest wait that the queue explains,
    and early packets, everywhere.
    """

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._quiet_ms: list[Values] = []
        self._unexplained_ms: list[Values] = []
        self._late_by_ms: list[Values] = []
        self._spread_ms = 0.0
        self._reorders = False

    def take(self, seconds: LinkSeconds) -> None:
        """Add all seconds of some vehicles."""
        spread_ms = np.nan_to_num(seconds.values("asked_jitter_ms"), nan=0.0)
        self._spread_ms = max(self._spread_ms, float(spread_ms.max(initial=0.0)))
        self._reorders |= bool(np.nan_to_num(seconds.values("asked_reorder_ratio"), nan=0.0).any())
        came = ~np.isnan(seconds.probe_delay_ms) & (seconds.rate_bps != 0) & seconds.served_frame_by_frame
        at = np.flatnonzero(came)
        transmission_ms = np.zeros(len(at))
        limited = seconds.limited[at]
        transmission_ms[limited] = prober.FRAME_BYTES * 8e3 / seconds.rate_bps[at][limited]
        excess_ms = seconds.probe_delay_ms[at] - seconds.delay_ms[at] - transmission_ms
        waited = seconds.before(seconds.backlog_bytes, 0)[at]
        quiet = (seconds.utilisation[at] < QUIET_UTILISATION) & (waited <= seconds.line_bytes[at])
        wait_ms = seconds.longest_wait_ms(at)
        bounded = ~np.isnan(wait_ms)
        self._late_by_ms.append(excess_ms)
        self._quiet_ms.append(excess_ms[quiet])
        self._unexplained_ms.append(excess_ms[bounded] - wait_ms[bounded])

    def check(self) -> Check:
        """Return what all of it comes to."""
        late_by, quiet, unexplained = map(_all, (self._late_by_ms, self._quiet_ms, self._unexplained_ms))
        asked = "0.00 ms more"
        if self._reorders:
            seen = f"{len(late_by)} packets, some of which were asked to overtake"
            return Check("delay", self._direction, asked, seen, "", "unproven", 0.0)
        if not len(late_by):
            return Check("delay", self._direction, asked, "no probe came", "", "unproven", 0.0)
        spread_ms = self._spread_ms
        n, tail_ms = len(unexplained), 4 * spread_ms  # netem's tables end at four times the spread
        early = _count(late_by < -(EARLY_MS + tail_ms))
        off = (
            early > most_by_chance(len(late_by), 0.01)
            or _count(quiet > DELAY_TOLERANCE_MS + spread_ms) > most_by_chance(len(quiet), 0.5)
            or _count(unexplained > P95_LATE_MS + tail_ms) > most_by_chance(n, 0.05)
            or _count(unexplained > P99_LATE_MS + tail_ms) > most_by_chance(n, 0.01)
        )
        hidden = share_power(n, 0.05, two_sided=False).above if n else 1.0
        shifted = share_power(len(quiet), 0.5, two_sided=False).above if len(quiet) else 1.0
        proven = hidden <= LARGEST_HIDDEN_SHARE and shifted < 1
        above = np.where(unexplained > 0, unexplained, 0.0).tolist() or [math.nan]
        median_ms = quantile((quiet if len(quiet) else late_by).tolist(), 0.5)
        return Check(
            "delay",
            self._direction,
            asked,
            f"p50 {median_ms:.2f} ms {'on a quiet link' if len(quiet) else 'queues included'}; beyond the"
            f" longest queue p95 {quantile(above, 0.95):.2f}, p99 {quantile(above, 0.99):.2f} ms; {early} early",
            f"p50 {DELAY_TOLERANCE_MS + spread_ms:g}, p95 {P95_LATE_MS + tail_ms:g}, p99 {P99_LATE_MS + tail_ms:g} ms",
            "off" if off else "pass" if proven else "unproven",
            0.0,
            median_ms,
            power=f"{n} probes, {len(quiet)} on a quiet link: a share of {hidden:.0%} late would show",
        )


def _all(parts: Sequence[Values]) -> Values:
    found: Values = np.concatenate([*parts, np.empty(0)])
    return found


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
