"""The sixty lamps: those that follow the vehicle's state, and those that come and go by themselves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from schemas.messages import CurrentStatus, Lamp
from simulator.vehicles.drive import Drive

CHANCE_PER_TICK: Final = 0.01
FOLLOWING: Final[dict[str, tuple[str, Callable[[Drive], bool]]]] = {
    "PARKING_BRAKE_SET": ("LAMP_RED", lambda d: d.standing_s > 20.0),
    "DOOR_OPEN": ("LAMP_RED", lambda d: 60.0 < d.standing_s < 90.0),
    "SEAT_BELT_OPEN": ("LAMP_RED", lambda d: d.speed_mps == 0.0 and d.standing_s >= 45.0),
    "FUEL_LOW": ("LAMP_YELLOW", lambda d: d.fuel_pct < 10.0),
    "REDUCTANT_LOW": ("LAMP_YELLOW", lambda d: d.reductant_pct < 10.0),
    "CHARGE_LOW": ("LAMP_YELLOW", lambda d: d.hybrid and d.charge_pct < 18.0),
    "PARTICULATE_FILTER_FULL": ("LAMP_YELLOW", lambda d: d.soot_pct > 80.0),
}


class Lamps:
    """Switches the lamps of one status."""

    def __init__(self, status: CurrentStatus, drive: Drive, rng: Random) -> None:
        self._status = status
        self._drive = drive
        self._rng = rng
        self._first = self._unit_of_first(status)
        lamps = {lamp.lamp: (k, lamp) for k, lamp in enumerate(status.lamps)}
        self._following = [(*lamps[k], colour, holds) for k, (colour, holds) in FOLLOWING.items() if lamps]
        self._free = [(k, lamp) for name, (k, lamp) in lamps.items() if name not in FOLLOWING]
        self.look()

    def look(self) -> bool:
        """Switch what has changed; return whether any lamp has."""
        switched = False
        for index, lamp, colour, holds in self._following:
            if holds(self._drive) != (lamp.state != "LAMP_OFF"):
                self._switch(index, lamp, colour)
                switched = True
        if self._free and self._rng.random() < CHANCE_PER_TICK:
            index, lamp = self._rng.choice(self._free)
            if lamp.state != "LAMP_OFF" or self._rng.random() < 0.025:
                self._switch(index, lamp, self._rng.choice(("LAMP_WHITE", "LAMP_YELLOW", "LAMP_RED")))
                switched = True
        return switched

    def _switch(self, index: int, lamp: Lamp, colour: str) -> None:
        if lamp.state == "LAMP_OFF":
            lamp.state = colour  # type: ignore[assignment]
            lamp.activations += 1
        else:
            lamp.state = "LAMP_OFF"
        self._status.changed.append(self._first + index)

    @staticmethod
    def _unit_of_first(status: CurrentStatus) -> int:
        watched = status.watch()
        return (
            next((unit for unit, item in enumerate(watched) if item is status.lamps[0]), 0)
            if status.lamps
            else 0
        )
