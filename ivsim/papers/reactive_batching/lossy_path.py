"""A TCP connection over a link that loses segments, simulated event by event: when what was written is acknowledged; pure.

What decides how long an answer takes over such a link is how TCP notices a loss, and that has no closed form where a
connection sends little: a later segment's acknowledgement tells it within a round trip (RFC 8985, RACK), a probe of the
tail after two (RFC 8985, TLP), else the retransmission timer (RFC 6298), which Linux never sets below 200 ms and doubles
each time. The window follows CUBIC where it is Reno's friend (RFC 9438, 4.3). Segments arrive in order or are waited for.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Final

import numpy as np

from simulator.traces import Trace

# Linux: TCP_RTO_MIN, TCP_INIT_CWND; before a round trip is known the timer is 1 s (RFC 6298, 2.1).
TIMER_LEAST_S: Final = 0.2
TIMER_FIRST_S: Final = 1.0
FIRST_WINDOW: Final = 10.0
LEAST_WINDOW: Final = 2.0
# CUBIC's decrease, and its increase of a round trip where it follows Reno (RFC 9438, 4.6 and 4.3).
DECREASE: Final = 0.7
INCREASE: Final = 3 * (1 - DECREASE) / (1 + DECREASE)
MOST_DOUBLINGS: Final = 6


class Events:
    """What is to happen, in the order of its time; seconds of a clock that only it moves."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = itertools.count()

    def at(self, when_s: float, call: Callable[[float], None]) -> None:
        """Have `call(when_s)` made when it is time."""
        heapq.heappush(self._heap, (when_s, next(self._number), call))

    def run(self) -> None:
        """Make all calls, those that they ask for included."""
        while self._heap:
            when_s, _, call = heapq.heappop(self._heap)
            call(when_s)


class Path:
    """The link's series, a step a second, and its losses: each by itself, or in bursts (Gilbert-Elliott).

    Args:
        series: with rtt_ms and loss_ratio.
        burst: mean length of a burst in packets; None: each packet is lost by itself.
        rng: what the losses are drawn from.
    """

    def __init__(self, series: Trace, burst: float | None, rng: np.random.Generator) -> None:
        assert series.rtt_ms is not None
        assert series.loss_ratio is not None
        self._rtt_s = (np.asarray(series.rtt_ms) / 1e3).tolist()
        self._loss = np.asarray(series.loss_ratio).tolist()
        self._leave = None if burst is None else 1 / burst
        self._bad = False
        self._draw = rng.random

    def round_trip_s(self, now_s: float) -> float:
        """Return the round trip of a packet that is sent now."""
        return float(self._rtt_s[int(now_s) % len(self._rtt_s)])

    def loses(self, now_s: float) -> bool:
        """Return whether the packet that is sent now is lost."""
        loss = self._loss[int(now_s) % len(self._loss)]
        if self._leave is None:
            return bool(self._draw() < loss)
        enter = loss * self._leave / (1 - loss) if loss < 1 else 1.0
        self._bad = bool(self._draw() >= self._leave) if self._bad else bool(self._draw() < enter)
        return self._bad


class Connection:
    """One direction of a connection that is up, with selective acknowledgements.

    Args:
        events: the clock.
        path: what each segment meets; acknowledgements are not lost.
        on_progress: told of the time and of how many segments have been acknowledged from the first one on.
    """

    def __init__(self, events: Events, path: Path, on_progress: Callable[[float, int], None]) -> None:
        self._events, self._path, self._on_progress = events, path, on_progress
        self._written = self._next = self._acknowledged = self._sendings = 0
        # Segment -> number of its last sending; those that are in the network, and those that are to be sent again.
        self._sending: dict[int, int] = {}
        self._out: set[int] = set()
        self._missing: list[int] = []
        self._ahead: set[int] = set()
        self._window, self._threshold = FIRST_WINDOW, float("inf")
        self._round_trip_s: float | None = None
        self._deviation_s = 0.0
        self._doublings = self._timers = 0
        self._probed = False
        # Until this segment is acknowledged one loss has been answered, and no further one is.
        self._recovering_to: int | None = None

    def write(self, segments: int, now_s: float) -> int:
        """Write so many segments; return how many have been written in all."""
        self._written += segments
        self._pump(now_s)
        return self._written

    def _pump(self, now_s: float) -> None:
        sent = False
        while len(self._out) < max(1, int(self._window)) and (self._missing or self._next < self._written):
            self._send(heapq.heappop(self._missing) if self._missing else self._new(), now_s)
            sent = True
        if sent:
            self._arm(now_s)

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _send(self, segment: int, now_s: float) -> None:
        self._sendings += 1
        number = self._sending[segment] = self._sendings
        self._out.add(segment)
        if not self._path.loses(now_s):
            there_s = now_s + self._path.round_trip_s(now_s)
            self._events.at(there_s, lambda at_s: self._heard(segment, number, now_s, at_s))

    def _heard(self, segment: int, number: int, sent_s: float, now_s: float) -> None:
        if segment < self._acknowledged or segment in self._ahead:
            return
        if self._sending[segment] == number:
            self._measure(now_s - sent_s)
        self._forget(segment)
        self._ahead.add(segment)
        while self._acknowledged in self._ahead:
            self._ahead.remove(self._acknowledged)
            self._acknowledged += 1
        self._doublings, self._probed = 0, False
        if self._recovering_to is not None and self._acknowledged > self._recovering_to:
            self._recovering_to = None
        if self._recovering_to is None:
            slow = self._window < self._threshold
            self._window += 1.0 if slow else INCREASE / self._window
        self._overtaken(number)
        self._arm(now_s)
        self._on_progress(now_s, self._acknowledged)
        self._pump(now_s)

    def _measure(self, round_trip_s: float) -> None:
        if self._round_trip_s is None:
            self._round_trip_s, self._deviation_s = round_trip_s, round_trip_s / 2
        else:
            off_s = abs(self._round_trip_s - round_trip_s)
            self._deviation_s += (off_s - self._deviation_s) / 4
            self._round_trip_s += (round_trip_s - self._round_trip_s) / 8

    def _forget(self, segment: int) -> None:
        self._out.discard(segment)
        if segment in self._missing:
            self._missing.remove(segment)
            heapq.heapify(self._missing)

    def _overtaken(self, number: int) -> None:
        """Take for lost what was sent before a segment that has come."""
        lost = [segment for segment in self._out if self._sending[segment] < number]
        self._lose(lost)
        if lost and self._recovering_to is None:
            self._recovering_to = self._next - 1
            self._window = self._threshold = max(LEAST_WINDOW, self._window * DECREASE)

    def _lose(self, lost: list[int]) -> None:
        for segment in lost:
            self._out.remove(segment)
            heapq.heappush(self._missing, segment)

    def _arm(self, now_s: float) -> None:
        """Set the one timer, of a probe of the tail or of a retransmission; what was set before is void."""
        self._timers += 1
        if not self._out:
            return
        number, timer_s = self._timers, self._timer_s()
        call: Callable[[int, float], None] = self._over
        if not self._probed and not self._doublings and self._round_trip_s and self._recovering_to is None:
            probe_s = 2 * self._round_trip_s + (TIMER_LEAST_S if len(self._out) == 1 else 0.0)
            if probe_s < timer_s:
                timer_s, call = probe_s, self._probe
        self._events.at(now_s + timer_s, lambda at_s: call(number, at_s))

    def _timer_s(self) -> float:
        least_s = TIMER_FIRST_S
        if self._round_trip_s is not None:
            least_s = self._round_trip_s + max(TIMER_LEAST_S, 4 * self._deviation_s)
        return float(least_s * 2**self._doublings)

    def _probe(self, number: int, now_s: float) -> None:
        if number != self._timers:
            return
        self._probed = True
        self._send(self._new() if self._next < self._written else max(self._out), now_s)
        self._arm(now_s)

    def _over(self, number: int, now_s: float) -> None:
        if number != self._timers:
            return
        self._lose(sorted(self._out))
        self._threshold, self._window = max(LEAST_WINDOW, self._window * DECREASE), 1.0
        self._doublings = min(self._doublings + 1, MOST_DOUBLINGS)
        self._recovering_to = self._next - 1
        self._pump(now_s)
