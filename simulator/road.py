"""What the link is asked to do for each vehicle in each second, out of a trace; pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.links.base import Condition
from simulator.traces import Step, Trace


@dataclass(frozen=True)
class Road:
    """The conditions of every vehicle, second by second.

    Attributes:
        trace: rates, RTT and loss where it has those columns; it starts again when a run is longer.
        vehicles: numbers 1 to this.
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

    def cut(self, second: int, length_s: float) -> None:
        """Add an outage while the road is being played (faults on purpose); nothing is forgotten."""
        self.cuts.append((second, length_s))

    def offset_s(self, vehicle: int) -> int:
        """Return the second of the trace at which the vehicle starts; one random stream per vehicle."""
        if not self.offsets:
            return 0
        length_s = max(1, int(self.trace.duration_s))
        return random.Random(f"road/{self.seed}/{vehicle}").randrange(length_s)

    def offsets_s(self) -> dict[int, int]:
        """Return every vehicle's offset, for the manifest."""
        return {vehicle: self.offset_s(vehicle) for vehicle in range(1, self.vehicles + 1)}

    def at(self, second: int) -> dict[int, tuple[Condition, Condition]]:
        """Return (uplink, downlink) of every vehicle for the second that starts `second` after the start."""
        out = any(start <= second < start + length for start, length in (*self.outages, *self.cuts))
        return {k: self._conditions(k, second, out) for k in range(1, self.vehicles + 1)}

    def _conditions(self, vehicle: int, second: int, out: bool) -> tuple[Condition, Condition]:
        when = self.offset_s(vehicle) + second
        step = self.trace.step_at(when)
        delay_ms = self._rtt_ms(step, when) / 2
        loss = self.loss_ratio if step.loss_ratio is None else step.loss_ratio
        if any(k == vehicle and first <= second < first + length for k, first, length in self.blackouts):
            return Condition(None, delay_ms, 1.0), Condition(None, delay_ms, 1.0)
        if self.egress_only:
            # `tc netem rate 0` sets no rate: where the series has a zero, one netem alone lets everything through.
            rate = 0.0 if out else self._rate(step.uplink_kbps, out) or None
            shaped = Condition(rate, delay_ms * 2, loss if self.downlink_loss else 0.0)
            return (Condition(0.0 if out else None), shaped)
        return (
            Condition(self._rate(step.uplink_kbps, out), delay_ms, loss if self.uplink_loss else 0.0),
            Condition(self._rate(step.downlink_kbps, out), delay_ms, loss if self.downlink_loss else 0.0),
        )

    def _rate(self, kbps: float | None, out: bool) -> float | None:
        if out:
            return 0.0
        return None if kbps is None else kbps * 1_000.0 * self.rate_factor

    def _rtt_ms(self, step: Step, when: int) -> float:
        if isinstance(self.rtt, Trace):
            return self.rtt.step_at(when).rtt_ms or 0.0
        if self.rtt is not None:
            return self.rtt
        return step.rtt_ms or 0.0
