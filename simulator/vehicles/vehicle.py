"""One vehicle: a status that lives, changed in place from tick to tick; knows no clock and no format."""

from __future__ import annotations

from random import Random

from schemas.messages import CurrentStatus
from simulator.vehicles.content import VARIANTS, first_content
from simulator.vehicles.drive import Drive
from simulator.vehicles.gauges import Gauges

STEP_NS = 1_000_000_000


class Vehicle:
    """A vehicle of a variant (`rigid`, `trailer`, `hybrid`, `stub`), numbered 1 to 9,999,999.

    All it does comes from `rng`: the same stream gives the same drive.
    """

    __slots__ = ("_gauges", "_offset_ns", "chance", "content", "drive", "variant")

    def __init__(self, number: int, variant: str, rng: Random) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r}: allowed are {', '.join(VARIANTS)}")
        self.variant = variant
        self._offset_ns = -1
        self.drive = Drive(variant, rng)
        self.content = first_content(number, variant, rng)
        self._gauges = Gauges(variant, self.content, self.drive, rng)
        self.chance = self._gauges.chance

    def advance(self, to_offset_ns: int) -> None:
        """Drive on until `to_offset_ns` nanoseconds after the start, and bring the status up to it."""
        self.drive_to(to_offset_ns)
        self._gauges.read()

    def drive_to(self, to_offset_ns: int) -> None:
        """Drive on in steps of at most one second; the status stays as it was."""
        if self._offset_ns < 0:
            self._offset_ns = to_offset_ns  # the drive began before the run: nothing to catch up with
        left_ns = to_offset_ns - self._offset_ns
        if left_ns < 0:
            raise ValueError(f"offset {to_offset_ns} ns: the vehicle is already at {self._offset_ns} ns")
        self._offset_ns = to_offset_ns
        while left_ns > 0:
            step_ns = min(left_ns, STEP_NS)
            self.drive.step(step_ns / 1e9)
            left_ns -= step_ns

    @property
    def cause(self) -> str:
        """Why the vehicle would send now: `PERIODIC`, `LAMP_CHANGE`, or `IGNITION_ON` for a stub."""
        return self._gauges.cause

    def status(self, sequence: int, epoch: int, sampled_at_ns: int, cause: str) -> CurrentStatus:
        """Return the living status: changed in place, valid until the next call."""
        return self._gauges.headed(sequence, epoch, sampled_at_ns // 1_000_000, cause)

    def tyre_offsets(self, wheels: int) -> list[float]:
        """Return how far each tyre's temperature and pressure are from what all tyres have, wheel by wheel."""
        return self._gauges.tyre_offsets(wheels)

    def let_go(self) -> None:
        """Keep the drive and its chances alone: others show the status from now on."""
        del self._gauges, self.content
