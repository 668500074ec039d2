"""The sixty lamps: those that follow the vehicle's state, and those that come and go by themselves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from schemas.messages import CurrentStatus, Lamp
from simulator.vehicles.content import LAMP_KINDS
from simulator.vehicles.drive import Drive

CHANCE_PER_TICK: Final = 0.01
FOLLOWING: Final[dict[str, tuple[str, Callable[[Drive], bool]]]] = {
    "PARKING_BRAKE_SET": ("LAMP_RED", lambda d: d.standing_s > 20.0),
    "HAZARD_LIGHTS_ON": ("LAMP_YELLOW", lambda d: d.standing_s > 120.0),
    "POWER_TAKEOFF_ON": ("LAMP_WHITE", lambda d: 95.0 < d.standing_s < 120.0),
    "DOOR_OPEN": ("LAMP_RED", lambda d: 60.0 < d.standing_s < 90.0),
    "SEAT_BELT_OPEN": ("LAMP_RED", lambda d: d.speed_mps == 0.0 and d.standing_s >= 45.0),
    "FUEL_LOW": ("LAMP_YELLOW", lambda d: d.fuel_pct < 10.0),
    "REDUCTANT_LOW": ("LAMP_YELLOW", lambda d: d.reductant_pct < 10.0),
    "CHARGE_LOW": ("LAMP_YELLOW", lambda d: d.hybrid and d.charge_pct < 18.0),
    "PARTICULATE_FILTER_FULL": ("LAMP_YELLOW", lambda d: d.soot_pct > 80.0),
}
_FOLLOWING: Final = tuple((LAMP_KINDS.index(kind), *rule) for kind, rule in FOLLOWING.items())


class Lamps:
    """Switches the lamps of one status."""

    __slots__ = ("_drive", "_first", "_rng", "_status")

    def __init__(self, status: CurrentStatus, first_unit: int, drive: Drive, rng: Random) -> None:
        self._status = status
        self._drive = drive
        self._rng = rng
        self._first = first_unit
        self.look()

    def look(self) -> bool:
        """Switch what has changed; return whether any lamp has."""
        switched = False
        lamps = self._status.lamps
        if not lamps:
            return False
        for index, colour, holds in _FOLLOWING:
            if holds(self._drive) != (lamps[index].state != "LAMP_OFF"):
                self._switch(index, colour)
                switched = True
        if self._rng.random() < CHANCE_PER_TICK:
            index = self._rng.randrange(len(lamps))
            lamp = lamps[index]
            if lamp.lamp not in FOLLOWING and (lamp.state != "LAMP_OFF" or self._rng.random() < 0.025):
                self._switch(index, self._rng.choice(("LAMP_WHITE", "LAMP_YELLOW", "LAMP_RED")))
                switched = True
        return switched

    def _switch(self, index: int, colour: str) -> None:
        before, unit = self._status.lamps[index], self._first + index
        lit = before.state == "LAMP_OFF"
        state, activations = (colour, before.activations + 1) if lit else ("LAMP_OFF", before.activations)
        lamp = Lamp(lamp=before.lamp, state=state, activations=activations)  # type: ignore[arg-type]
        self._status.lamps[index] = self._status.units[unit] = lamp
        self._status.changed.append(unit)
