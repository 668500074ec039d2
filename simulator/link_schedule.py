"""What the link is asked to do for each vehicle in each second, out of a trace; pure and seeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.links.base import Condition, Conditions, GilbertElliott, Pair
from simulator.links.fleet_conditions import FleetConditions
from simulator.traces import Step, Trace
from simulator.traces.track import entry_s


@dataclass(frozen=True)
class Impairments:
    """What a link is like within a second, the same all the time; traces say nothing of it.

    Attributes:
        jitter_ms, distribution: spread of each packet's delay and its shape, as netem's tables have it.
        burst_packets: mean length of a burst of lost packets (Gilbert-Elliott); None loses independently.
        reorder_ratio, duplicate_ratio: share of packets that overtake, or come twice.
        queue_bytes: what may wait for the rate; None derives it from rate and delay.
    """

    jitter_ms: float = 0.0
    distribution: str = "uniform"
    burst_packets: float | None = None
    reorder_ratio: float = 0.0
    duplicate_ratio: float = 0.0
    queue_bytes: int | None = None

    def condition(self, rate_bps: float | None, delay_ms: float, loss_ratio: float) -> Condition:
        """Return the condition of one direction of this link."""
        if self == PLAIN:
            return Condition(rate_bps, delay_ms, loss_ratio)
        return Condition(
            rate_bps=rate_bps,
            delay_ms=delay_ms,
            loss_ratio=loss_ratio,
            jitter_ms=self.jitter_ms,
            distribution=self.distribution,
            gilbert_elliott=self._bursts(loss_ratio),
            # Nothing overtakes where there is no delay line.
            reorder_ratio=self.reorder_ratio if delay_ms else 0.0,
            duplicate_ratio=self.duplicate_ratio,
            queue_bytes=self.queue_bytes,
        )

    def _bursts(self, loss_ratio: float) -> GilbertElliott | None:
        """The bad state loses everything and is left after so many packets in the mean (Gilbert 1960)."""
        if self.burst_packets is None or not 0 < loss_ratio < 1:
            return None
        leave = 1 / self.burst_packets
        return GilbertElliott(min(1.0, leave * loss_ratio / (1 - loss_ratio)), leave)


PLAIN = Impairments()


@dataclass(frozen=True)
class LinkSchedule:
    """The conditions of every vehicle, second by second.

    Attributes:
        trace: rates, RTT and loss where it has those columns; it starts again when a run is longer. Rates that count
            less than frames are converted (simulator/traces/layers.py).
        others: further traces; vehicles take turns, the first has `trace`.
        vehicles: how many, from number `first` on.
        seed: of the vehicles' offsets into the trace.
        rtt: a trace whose RTT column replaces the first one's, a number of milliseconds, or None.
        loss_ratio: asked per direction where the trace has no loss column.
        uplink_loss, downlink_loss: whether that direction loses at all.
        offsets: whether each vehicle starts the trace at its own second.
        outages: (start second, seconds) in which no packet moves in either direction.
        egress_only: as with one netem on the cloud's machine: only what leaves it is shaped, by the trace's
            uplink rate (0 is no limit, as in netem), the whole RTT and the downlink's loss; the uplink is free.
        rate_factor: multiplies every rate of the trace.
        blackouts: (vehicle, second, seconds) in which each packet of the vehicle is lost, both ways.
        cuts: outages added while it is played.
        impairments: what happens within a second.
    """

    trace: Trace
    vehicles: int
    seed: int
    rtt: Trace | float | None = None
    loss_ratio: float = 0.0
    uplink_loss: bool = True
    downlink_loss: bool = True
    offsets: bool = True
    outages: Sequence[tuple[float, float]] = ()
    rate_factor: float = 1.0
    egress_only: bool = False
    blackouts: Sequence[tuple[int, int, int]] = ()
    cuts: list[tuple[float, float]] = field(default_factory=list)
    others: Sequence[Trace] = ()
    impairments: Impairments = PLAIN
    first: int = 1
    # What was worked out once: every pair of conditions, its place by what it is made of, and by the trace's steps that have it.
    _pairs: list[Pair] = field(default_factory=list, init=False, repr=False, compare=False)
    _known: dict[tuple[float | bool | None, ...], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _of_steps: dict[tuple[int, int, bool, bool], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "trace", self.trace.in_frames())
        object.__setattr__(self, "others", tuple(other.in_frames() for other in self.others))

    def cut(self, second: int, length_s: float) -> None:
        """Add an outage while the schedule is being played (faults on purpose); nothing is forgotten."""
        self.cuts.append((second, length_s))

    @property
    def numbers(self) -> range:
        """The vehicles, or who else has a link of its own."""
        return range(self.first, self.first + self.vehicles)

    def trace_of(self, vehicle: int) -> Trace:
        """Return the trace that the vehicle drives."""
        return (self.trace, *self.others)[(vehicle - self.first) % (1 + len(self.others))]

    @property
    def unlimited(self) -> list[str]:
        """The directions that some vehicle's trace does not limit."""
        found = {direction for trace in (self.trace, *self.others) for direction in trace.unlimited}
        return sorted(found, reverse=True)

    def offset_s(self, vehicle: int) -> int:
        """Return the second of the trace at which the vehicle starts; one random stream per vehicle."""
        return int(self._entries_s[vehicle - self.first])

    @cached_property
    def _entries_s(self) -> npt.NDArray[np.int64]:
        if not self.offsets:
            return np.zeros(self.vehicles, np.int64)
        drawn = (entry_s(self.seed, vehicle, self.trace_of(vehicle)) for vehicle in self.numbers)
        return np.fromiter(drawn, np.int64, self.vehicles)

    @cached_property
    def _vehicles(self) -> npt.NDArray[np.int64]:
        return np.arange(self.first, self.first + self.vehicles)

    def offsets_s(self) -> dict[int, int]:
        """Return every vehicle's offset, for the manifest."""
        return {vehicle: self.offset_s(vehicle) for vehicle in self.numbers}

    def at(self, second: int) -> FleetConditions:
        """Return (uplink, downlink) of every vehicle for the second that starts `second` after the start."""
        out = any(start <= second < start + length for start, length in (*self.outages, *self.cuts))
        traces = (self.trace, *self.others)
        steps = np.empty(self.vehicles, np.int64)
        places = np.empty(self.vehicles, np.int64)
        for which, trace in enumerate(traces):
            rows = slice(which, None, len(traces))
            steps[rows] = self._steps(trace, self._entries_s[rows] + second)
            found, inverse = np.unique(steps[rows], return_inverse=True)
            of_found = [self._place(which, step, out, black=False) for step in found.tolist()]
            places[rows] = np.array(of_found, np.int64)[inverse]
        for vehicle, first, length in self.blackouts:
            row = vehicle - self.first
            if first <= second < first + length and 0 <= row < self.vehicles:
                places[row] = self._place(row % len(traces), int(steps[row]), out, black=True)
        return FleetConditions(self._vehicles, places, self._pairs)

    def _steps(self, trace: Trace, whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return which step a vehicle meets at each second: the trace's, and with it that of the RTT's own trace."""
        seconds = whole.astype(np.float64)
        found = trace.indices_at(seconds)
        if isinstance(self.rtt, Trace):
            found = found * len(self.rtt.time_s) + self.rtt.indices_at(seconds)
        return found

    def _place(self, which: int, steps: int, out: bool, *, black: bool) -> int:
        """Return the place of the conditions that a trace's step means, the same one wherever they are equal."""
        found = self._of_steps.get((which, steps, out, black))
        if found is None:
            found = self._of_steps[which, steps, out, black] = self._place_anew(
                which, steps, out, black=black
            )
        return found

    def _place_anew(self, which: int, steps: int, out: bool, *, black: bool) -> int:
        rtt_ms = self.rtt
        if isinstance(rtt_ms, Trace):
            steps, index = divmod(steps, len(rtt_ms.time_s))
            rtt_ms = rtt_ms.step(index).rtt_ms or 0.0
        step = (self.trace, *self.others)[which].step(steps)
        delay_ms = (step.rtt_ms or 0.0 if rtt_ms is None else rtt_ms) / 2
        loss = self.loss_ratio if step.loss_ratio is None else step.loss_ratio
        key = (step.uplink_kbps, step.downlink_kbps, delay_ms, loss, out, black)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._pairs)
            self._pairs.append(self._pair(step, delay_ms, loss, out, black=black))
        return found

    def _pair(self, step: Step, delay_ms: float, loss: float, out: bool, *, black: bool) -> Pair:
        if black:
            return Condition(None, delay_ms, 1.0), Condition(None, delay_ms, 1.0)
        if self.egress_only:
            # `tc netem rate 0` sets no rate: where the series has a zero, one netem alone lets everything through.
            rate = 0.0 if out else self._rate(step.uplink_kbps, out) or None
            shaped = self.impairments.condition(rate, delay_ms * 2, loss if self.downlink_loss else 0.0)
            return (Condition(0.0 if out else None), shaped)
        up, down = self._rate(step.uplink_kbps, out), self._rate(step.downlink_kbps, out)
        return (
            self.impairments.condition(up, delay_ms, loss if self.uplink_loss else 0.0),
            self.impairments.condition(down, delay_ms, loss if self.downlink_loss else 0.0),
        )

    def _rate(self, kbps: float | None, out: bool) -> float | None:
        if out:
            return 0.0
        return None if kbps is None else kbps * 1_000.0 * self.rate_factor


@dataclass(frozen=True)
class SideBySide:
    """Schedules that are played at the same time, each on vehicles of its own.

    Attributes:
        parts: vehicles, and the schedule whose first vehicle is what the first of them is.
    """

    parts: Sequence[tuple[range, LinkSchedule]]

    def at(self, second: int) -> Conditions:
        """Return (uplink, downlink) of every vehicle, as `LinkSchedule.at`."""
        return {
            vehicles[number - schedule.first]: pair
            for vehicles, schedule in self.parts
            for number, pair in schedule.at(second).items()
        }

    def cut(self, second: int, length_s: float) -> None:
        """Add an outage for all of them, as `LinkSchedule.cut`."""
        for _, schedule in self.parts:
            schedule.cut(second, length_s)
