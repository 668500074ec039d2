"""What a run's own packets and its light probes prove of the seconds without a rate in one direction; pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.link_seconds import LinkSeconds
from simulator.links.queueing import FRAME_BYTES

LEAK_S: Final = 0.1  # an outage that begins this late still passes for one


class OutageOfRun:
    """Judges the seconds without a rate: nothing passes that was not in the delay line, no probe comes before the end."""

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._seconds, self._leaked, self._offered = 0, 0, 0

    def take(self, seconds: LinkSeconds) -> None:
        """Add all seconds of some vehicles."""
        at = np.flatnonzero(seconds.rate_bps == 0)
        self._seconds += len(at)
        sent = seconds.probe_sent[at]
        earliest_ms = (seconds.outage_left_s[at] - LEAK_S) * 1e3
        self._offered += int(np.count_nonzero(sent))
        self._leaked += int(np.count_nonzero(sent & (seconds.probe_delay_ms[at] < earliest_ms)))
        capacity = seconds.capacity_bytes(at)
        judged = seconds.counted[at] & ~np.isnan(capacity)
        allowed = capacity + seconds.before(seconds.limit_bps, 0.0)[at] / 8 * LEAK_S + 2 * FRAME_BYTES
        self._offered += int(np.count_nonzero(judged & (seconds.backlog_bytes[at] != 0)))
        self._leaked += int(np.count_nonzero(judged & (seconds.bytes[at] > allowed)))

    def check(self) -> Check | None:
        """Return what all of it comes to; None where every second had a rate."""
        if not self._seconds:
            return None
        verdict: Verdict = "off" if self._leaked else "pass" if self._offered else "unproven"
        return Check(
            "outage",
            self._direction,
            f"{self._seconds} seconds without a rate",
            f"{self._leaked} leaks",
            "what was in the delay line",
            verdict,
            0.0,
            float(self._leaked),
            power=f"{self._offered} probes and queues waited in it",
        )
