"""A run's link log, second by second: what may have waited, what may have passed; pure and without a verdict.

A link holds a queue in front of its rate, and a delay line behind it. What the kernel counts as passed has left the
delay line, so the bytes of one step were let through by the meter one delay earlier, at the rates of that time. A
packet's excess over the asked delay is its wait in the queue, which the run's own traffic makes and the link is not
to blame for. `LinkSeconds` therefore gives bounds: how long a packet of a second can have waited at most, and how
many bytes a link that is never idle lets through in it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from simulator.links.queueing import FLOOR_BYTES, FRAME_BYTES

COLUMNS: Final = (
    "second", "asked_rate_bps", "asked_delay_ms", "asked_loss_ratio", "asked_jitter_ms", "asked_reorder_ratio",
    "asked_burst_packets", "applied_at_ns", "counted_at_ns", "qdisc_bytes", "qdisc_packets", "drops", "queue_drops",
    "backlog_bytes", "probe_sent", "probe_received", "probe_delay_ms",
)  # fmt: skip
SECOND_NS: Final = 1_000_000_000
LOOK_AHEAD_S: Final = 120  # seconds after its own in which a packet's wait is followed
Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class LinkSeconds:
    """Rows of the link log of one direction as columns, vehicle by vehicle, each vehicle's in the order of seconds.

    Attributes:
        rate_bps: NaN where it is unlimited, 0 in an outage; `outage_left_s` is how many whole seconds without a rate follow
            one.
        probe_delay_ms: NaN where no probe came.
        counted, packets_known: where the kernel counted bytes, and packets; unknown counts are 0 in their columns.
        adjacent: where the row before is the same vehicle's second before.

    Args:
        rows: of one direction: `COLUMNS` of link.parquet, and `vehicle`, a number.
    """

    def __init__(self, rows: pa.Table) -> None:
        of_vehicle = rows["vehicle"].to_numpy()
        order = np.lexsort((rows["second"].to_numpy(), of_vehicle))
        self._rows, self._order = rows, order
        own = of_vehicle[order]
        self._begin: Numbers = np.searchsorted(own, own, side="left")
        self._end: Numbers = np.searchsorted(own, own, side="right")
        self.second = self.numbers("second")
        self.rate_bps, self.delay_ms = self.values("asked_rate_bps"), self.values("asked_delay_ms")
        self.loss_ratio = self.values("asked_loss_ratio")
        self.bytes, self.packets = self.numbers("qdisc_bytes"), self.numbers("qdisc_packets")
        self.counted, self.packets_known = self._known("qdisc_bytes"), self._known("qdisc_packets")
        self.drops, self.queue_drops = self.numbers("drops"), self.numbers("queue_drops")
        self.backlog_bytes = self.numbers("backlog_bytes")
        self.probe_sent = self.numbers("probe_sent") != 0
        self.probe_delay_ms = self.values("probe_delay_ms")
        self.counted_at_ns = self.numbers("counted_at_ns")
        self.adjacent: Mask = np.zeros(len(order), np.bool_)
        self.adjacent[1:] = (own[1:] == own[:-1]) & (self.second[1:] == self.second[:-1] + 1)

    def _known(self, name: str) -> Mask:
        found: Mask = self._rows[name].is_valid().to_numpy()[self._order]
        return found

    def numbers(self, name: str) -> Numbers:
        """Return a column of whole numbers in this order, 0 for null."""
        column = pc.fill_null(self._rows[name], 0).to_numpy().astype(np.int64)
        found: Numbers = column[self._order]
        return found

    def values(self, name: str) -> Values:
        """Return a column of real numbers in this order, NaN for null."""
        column = pc.fill_null(self._rows[name], np.nan).to_numpy()
        found: Values = column[self._order]
        return found

    def before(self, column: npt.NDArray[Any], otherwise: float) -> npt.NDArray[Any]:
        """Return what a column has one second before each row, `otherwise` where there is no such row."""
        earlier = np.full_like(column, otherwise)
        earlier[1:] = column[:-1]
        earlier[~self.adjacent] = otherwise
        return earlier

    @cached_property
    def limited(self) -> Mask:
        return ~np.isnan(self.rate_bps)

    @cached_property
    def limit_bps(self) -> Values:
        """The rate, 0 where there is none that limits."""
        return np.nan_to_num(self.rate_bps, nan=0.0)

    @cached_property
    def served_frame_by_frame(self) -> Mask:
        """Whether the rate is none at all or one that each second can follow (docs/decisions/link-rate.md)."""
        return ~self.limited | (self.limit_bps / 8 >= FLOOR_BYTES)

    @cached_property
    def outage_left_s(self) -> Numbers:
        index = np.arange(len(self.second))
        lit = np.where(self.rate_bps == 0, len(index), index)
        following = np.minimum.accumulate(lit[::-1])[::-1]
        left: Numbers = np.minimum(following, self._end) - index
        return np.maximum(0, left - 1)

    @cached_property
    def line_bytes(self) -> Values:
        """What the delay line holds at the rate, and the frames in service: more than that waits for the rate."""
        return self.limit_bps / 8 * self.delay_ms / 1e3 + 4 * FRAME_BYTES

    @cached_property
    def queued_through(self) -> Mask:
        """Whether packets waited for the rate at the step's begin and end."""
        earlier = self.before(self.limit_bps, 0.0) / 8 * self.delay_ms / 1e3
        waited = np.minimum(self.before(self.backlog_bytes, 0), self.backlog_bytes)
        busy: Mask = waited > np.maximum(self.line_bytes, earlier)
        busy &= self.adjacent & self.counted & (self.limit_bps != 0)
        return busy

    @cached_property
    def utilisation(self) -> Values:
        """The share of the step in which the rate was in use; 0 without a rate, 1 where nobody counted."""
        found: Values = np.where(self.limited, 1.0, 0.0)
        known = self.counted & (self.limit_bps != 0)
        found[known] = self.bytes[known] * 8 / self.rate_bps[known]
        return found

    def longest_wait_ms(self, at: Numbers) -> Values:
        """Return how long a packet sent in the seconds `at` can have waited for the rate; NaN where nothing bounds it.

        Ahead of it is at most what waited before, or what came in the second; it is served at the lowest rate that
        holds until then.
        """
        waited = self.before(self.backlog_bytes, 0)[at]
        ahead = np.maximum(waited, self.bytes[at] + self.backlog_bytes[at]).astype(np.float64)
        until = np.minimum(self._end[at], at + 1 + LOOK_AHEAD_S)
        # When in its second the packet was sent is not in the log: at its begin, or when the next one began.
        first, then = self._drained_in_s(ahead, at, until), self._drained_in_s(ahead, at + 1, until)
        longest: Values = np.where(at + 1 < until, np.maximum(first, then), first) * 1e3
        longest[~self.counted[at]] = np.nan
        longest[~self.limited[at]] = 0.0
        return longest

    def _drained_in_s(self, ahead_bytes: Values, since: Numbers, until: Numbers) -> Values:
        """Return how long it takes to serve `ahead_bytes`, a second at each rate, and at the last one for good."""
        left, wait_s = ahead_bytes.copy(), np.full(len(since), np.nan)
        active, lag = np.flatnonzero(since < until), 0
        while active.size:
            place = since[active] + lag
            rate, last = self.rate_bps[place], place == until[active] - 1
            wait_s[active[np.isnan(rate)]] = lag
            served = (rate > 0) & ((left[active] <= rate / 8) | last)
            wait_s[active[served]] = lag + left[active[served]] * 8 / rate[served]
            rest = ~(np.isnan(rate) | served | last)
            active, rate = active[rest], rate[rest]
            left[active] -= rate / 8
            lag += 1
        return wait_s

    @cached_property
    def _delay_ns(self) -> Numbers:
        return np.rint(self.delay_ms * 1e6).astype(np.int64)

    @cached_property
    def _began_ns(self) -> Numbers:
        applied = self.numbers("applied_at_ns")
        return np.where(applied != 0, applied, self.second * SECOND_NS)

    @cached_property
    def _ended_ns(self) -> Numbers:
        return np.where(self.counted_at_ns != 0, self.counted_at_ns, (self.second + 1) * SECOND_NS)

    def capacity_bytes(self, at: Numbers) -> Values:
        """Return what a link that is never idle passes in the seconds `at`; NaN where a rate in force is unlimited.

        It is the integral of the rate over what leaves the delay line between two counts. What the meter passes while a row
        is in force leaves the line one delay of that row later.
        """
        until_ns, total = self._ended_ns[at], np.zeros(len(at))
        # What holds in a vehicle's first row was set before the start, and in force since.
        since_ns = np.where(at > self._begin[at], self._ended_ns[at - 1], self._began_ns[at])
        active, lag = np.arange(len(at)), 0
        while active.size:
            place = at[active] - lag
            first, delay_ns, since = place == self._begin[at[active]], self._delay_ns[place], since_ns[active]
            begins_ns = np.where(first, since, self._began_ns[place] + delay_ns)
            ends_ns = self._next_ns(place) + delay_ns
            overlap_ns = np.minimum(until_ns[active], ends_ns) - np.maximum(since, begins_ns)
            overlaps = overlap_ns > 0
            # NaN, of an unlimited rate, stays.
            total[active[overlaps]] += self.rate_bps[place[overlaps]] / 8 * overlap_ns[overlaps] / 1e9
            over = first | ((ends_ns < since) & (lag > 1 + delay_ns // SECOND_NS))
            active, lag = active[~over], lag + 1
        return total

    def _next_ns(self, place: Numbers) -> Numbers:
        """Return when what follows each row came into force; for a vehicle's last row, when it was counted."""
        following = np.minimum(place + 1, len(self.second) - 1)
        return np.where(place + 1 < self._end[place], self._began_ns[following], self._ended_ns[place])
