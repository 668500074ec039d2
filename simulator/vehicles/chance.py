"""What comes of itself: sensors' noise, satellites, the radio, faults, lamps; every draw after the first content."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from schemas.messages import Connectivity, Lamp
from simulator.vehicles.content import LAMP_KINDS
from simulator.vehicles.lamps import COLOURS, FOLLOWING

FAULTS_PER_TICK: Final = 0.02
BAD: Final = ("STALE", "STALE", "ESTIMATED", "OUT_OF_RANGE", "SENSOR_FAULT")
LAMPS_PER_TICK: Final = 0.01
NEW_SKY: Final = 0.1
RADIO_MOVES: Final = 0.5
_LIT: Final = 0.025
_FOLLOWS: Final = tuple(kind in FOLLOWING for kind in LAMP_KINDS)


class Fault(NamedTuple):
    """A fast reading, by its place among those of the vehicle, whose quality changes."""

    reading: int
    quality: str


class Switch(NamedTuple):
    """A lamp that is switched on in a colour, or off when it is lit."""

    lamp: int
    colour: str


class Draws(NamedTuple):
    """What a tick brings; `noise` has a number for each noisy reading that the vehicle has, from -0.5 to 0.5."""

    noise: list[float]
    satellites: int | None
    radio: bool
    fault: Fault | None
    switch: Switch | None


class Chance:
    """Draws for one vehicle, in an order that never changes: the same stream gives the same drive.

    A tick is `first`, then `move_radio` where that says so, then `last`; `draw` is all of it.
    """

    __slots__ = ("_fast", "_first", "_lamps", "_noisy", "_radio", "_random", "_rng", "_stub")

    def __init__(  # noqa: PLR0917 - one vehicle, all that may change in it
        self,
        rng: Random,
        stub: bool,
        noisy: int,
        fast: int,
        radio: Connectivity | None,
        lamps: Sequence[Lamp],
    ) -> None:
        """Take how many fast readings there are, how many of them have noise, the radio and the lamps as they are."""
        self._rng = rng
        self._random = rng.random
        self._stub = stub
        self._noisy = noisy
        self._fast = fast
        self._radio = radio
        self._lamps = lamps
        self._first = range(noisy + 1 + (radio is not None))

    def draw(self) -> Draws:
        """Draw for a tick; the radio is changed in place."""
        first = self.first()
        noise = [draw - 0.5 for draw in first[: self._noisy]]
        satellites = satellites_of(first[self._noisy])
        moved = self._radio is not None and first[-1] < RADIO_MOVES
        if moved:
            self.move_radio()
        fault, switch = self.last()
        return Draws(noise, satellites, moved, fault, switch)

    def first(self) -> list[float]:
        """Return a draw for each noisy reading, one for the sky, and one for the radio where there is one."""
        draw = self._random
        return [draw() for _ in self._first]

    def last(self) -> tuple[Fault | None, Switch | None]:
        """Draw for faults and lamps; a stub has none."""
        if self._stub:
            return None, None
        draw = self._random
        fault = self._fault() if draw() < FAULTS_PER_TICK else None
        return fault, self._switch() if self._lamps and draw() < LAMPS_PER_TICK else None

    def switch(self) -> Switch | None:
        """Draw whether a lamp that follows nothing is switched."""
        return self._switch() if self._lamps and self._random() < LAMPS_PER_TICK else None

    def move_radio(self) -> None:
        """Change the radio's strength, and sometimes its cell."""
        rng, radio = self._rng, self._radio
        assert radio is not None
        radio.rsrp_dbm = min(max(radio.rsrp_dbm + rng.choice((-2, -1, 1, 2)), -119), -70)
        radio.rsrq_db = min(max(radio.rsrq_db + rng.choice((-1, 0, 1)), -17), -5)
        radio.sinr_db = min(max(radio.sinr_db + rng.choice((-1, 0, 1)), -5), 24)
        if rng.random() < 0.02:
            radio.cell_id = rng.getrandbits(28)  # handed over to the next cell

    def _fault(self) -> Fault:
        rng = self._rng
        reading = rng.choice(range(self._fast))
        return Fault(reading, rng.choice(BAD) if rng.random() < FAULTS_PER_TICK else "VALID")

    def _switch(self) -> Switch | None:
        rng, lamps = self._rng, self._lamps
        index = rng.randrange(len(lamps))
        if _FOLLOWS[index] or (lamps[index].state == "LAMP_OFF" and rng.random() >= _LIT):
            return None
        return Switch(index, rng.choice(COLOURS))


def satellites_of(sky: float) -> int | None:
    """Return how many satellites are used from now on; None: as many as before."""
    return 6 + int(sky * 90.0) if sky < NEW_SKY else None
