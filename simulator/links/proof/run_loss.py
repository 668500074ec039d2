"""What a run's own packets and its light probes prove of the loss in one direction; pure.

"off" is said of what chance does not explain (see `power`), "pass" only where the traffic could have shown the opposite,
and "unproven" otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.link_seconds import LinkSeconds, Mask, Numbers, Values
from simulator.links.proof.power import ALPHA, SharePower, least_by_chance, most_by_chance, share_power

SETTLE_S: Final = 3.0  # what a probe may need beside delay and queue before the run's end


class LossOfRun:
    """Judges loss twice, by netem's own counts of all packets and by the probes that came back, as one verdict.

    Args:
        last: the run's last second.
    """

    def __init__(self, direction: str, last: int) -> None:
        self._direction, self._last = direction, last
        self._bursts: list[float] = []
        self._by_kernel, self._by_probes = _Sent(), _Sent()

    def take(self, seconds: LinkSeconds) -> None:
        """Add all seconds of some vehicles."""
        bursts = np.nan_to_num(seconds.values("asked_burst_packets"), nan=0.0)
        if len(bursts):
            self._bursts.append(float(np.where(bursts != 0, bursts, 1.0).max()))
        known = seconds.packets_known
        dropped = seconds.drops[known] - seconds.queue_drops[known]
        offered = seconds.packets[known] + dropped
        self._by_kernel.add(offered, int(dropped.sum()), seconds.loss_ratio[known])
        # A probe sent into an outage, a full queue, or into a queue that outlived the run was not lost by the link's loss.
        at = np.flatnonzero(seconds.probe_sent)
        at = at[~self._may_still_wait(seconds, at)]
        lost = len(at) - int(seconds.numbers("probe_received")[at].sum())
        self._by_probes.add(np.ones(len(at), np.int64), lost, seconds.loss_ratio[at])

    def _may_still_wait(self, seconds: LinkSeconds, at: Numbers) -> Mask:
        wait_ms = seconds.longest_wait_ms(at)
        until_s = seconds.second[at] + (seconds.delay_ms[at] + wait_ms) / 1e3 + SETTLE_S
        outlives: Mask = np.isnan(wait_ms) | (until_s > self._last + 1)
        outlives |= (seconds.rate_bps[at] == 0) | (seconds.queue_drops[at] != 0)
        return outlives

    def check(self) -> Check:
        """Return what all of it comes to."""
        bursts = max(self._bursts, default=1.0)
        by_kernel, by_probes = Loss.of(self._by_kernel, bursts), Loss.of(self._by_probes, bursts)
        both = (by_kernel, by_probes)
        best = min(both, key=lambda loss: loss.finds.above)
        verdicts = {loss.verdict for loss in both}
        verdict: Verdict = "off" if "off" in verdicts else "pass" if "pass" in verdicts else "unproven"
        shown = by_kernel if by_kernel.packets else by_probes
        return Check(
            "loss",
            self._direction,
            "" if shown.asked is None else f"{shown.asked:.4f}",
            f"kernel {by_kernel.words()}, probes {by_probes.words()}",
            "chance",
            verdict,
            shown.asked,
            shown.ratio,
            power=best.power_words(),
        )


@dataclass
class _Sent:
    """Packets so far, how many of them were lost, and how many should have been, row by row."""

    packets: int = 0
    lost: int = 0
    asked: list[Values] = field(default_factory=list)

    def add(self, packets: Numbers, lost: int, asked_ratio: Values) -> None:
        self.packets += int(packets.sum())
        self.lost += lost
        asked = asked_ratio * packets
        self.asked.append(asked[asked != 0])


class Loss:
    """Packets lost of packets sent, against the mean of what was asked for each."""

    def __init__(self, packets: int, lost: int, asked: float | None, bursts: float) -> None:
        self.packets, self.lost, self.asked = packets, lost, asked
        # Lost in bursts, packets tell as much as fewer independent ones: n / (2 b - 1), a two-state chain's mean.
        worth = 2 * bursts - 1
        self.n, self.count = round(packets / worth), round(lost / worth)
        self.finds = SharePower(1.0, None) if asked is None else share_power(self.n, asked, two_sided=True)

    @classmethod
    def of(cls, sent: _Sent, bursts: float) -> Loss:
        if not sent.packets:
            return cls(0, 0, None, bursts)
        asked = sum(chain.from_iterable(part.tolist() for part in sent.asked)) / sent.packets
        return cls(sent.packets, sent.lost, min(1.0, asked), bursts)

    @property
    def verdict(self) -> Verdict:
        return "off" if self.off else "pass" if self.tells else "unproven"

    @property
    def ratio(self) -> float | None:
        return self.lost / self.packets if self.packets else None

    @property
    def off(self) -> bool:
        if self.asked is None or not self.n:
            return False
        half = 0.5  # of the check's share of chance, on each side
        if self.asked in {0.0, 1.0}:
            return self.count != round(self.n * self.asked)
        alpha = ALPHA * half
        return self.count > most_by_chance(self.n, self.asked, alpha) or self.count < least_by_chance(
            self.n, self.asked, alpha
        )

    @property
    def tells(self) -> bool:
        """Whether twice the loss (and a hundredth) would have shown, and a third of it where it is large."""
        if self.asked is None:
            return False
        low = self.asked / 3 - 0.01
        enough_below = low <= 0 or (self.finds.below is not None and self.finds.below >= low)
        return self.finds.above <= 2 * self.asked + 0.02 and enough_below

    def words(self) -> str:
        return "no packet" if self.ratio is None else f"{self.ratio:.4f} ({self.lost:,} of {self.packets:,})"

    def power_words(self) -> str:
        if self.asked is None:
            return "nothing was sent"
        below = "" if self.finds.below is None else f" or below {self.finds.below:.4f}"
        return f"a loss above {self.finds.above:.4f}{below} would show"
