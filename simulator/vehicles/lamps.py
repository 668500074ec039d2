"""The sixty lamps: those that follow the vehicle's state, and those that come and go by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schemas.messages import CurrentStatus, Lamp
from simulator.vehicles.content import LAMP_KINDS
from simulator.vehicles.drive import Drive

COLOURS: Final = ("LAMP_WHITE", "LAMP_YELLOW", "LAMP_RED")
# As in `signals`: of a drive, or of columns of drives.
FOLLOWING: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "PARKING_BRAKE_SET": ("LAMP_RED", lambda d: d.standing_s > 20.0),
    "HAZARD_LIGHTS_ON": ("LAMP_YELLOW", lambda d: d.standing_s > 120.0),
    "POWER_TAKEOFF_ON": ("LAMP_WHITE", lambda d: (d.standing_s > 95.0) & (d.standing_s < 120.0)),
    "DOOR_OPEN": ("LAMP_RED", lambda d: (d.standing_s > 60.0) & (d.standing_s < 90.0)),
    "SEAT_BELT_OPEN": ("LAMP_RED", lambda d: (d.speed_mps == 0.0) & (d.standing_s >= 45.0)),
    "FUEL_LOW": ("LAMP_YELLOW", lambda d: d.fuel_pct < 10.0),
    "REDUCTANT_LOW": ("LAMP_YELLOW", lambda d: d.reductant_pct < 10.0),
    "CHARGE_LOW": ("LAMP_YELLOW", lambda d: d.hybrid & (d.charge_pct < 18.0)),
    "PARTICULATE_FILTER_FULL": ("LAMP_YELLOW", lambda d: d.soot_pct > 80.0),
}
FOLLOWERS: Final = tuple((LAMP_KINDS.index(kind), *rule) for kind, rule in FOLLOWING.items())


def switched(lamp: Lamp, colour: str) -> Lamp:
    """Return the lamp lit in a colour, or dark when it was lit."""
    if lamp.state != "LAMP_OFF":
        return Lamp(lamp=lamp.lamp, state="LAMP_OFF", activations=lamp.activations)
    return Lamp(lamp=lamp.lamp, state=colour, activations=lamp.activations + 1)  # type: ignore[arg-type]


class Lamps:
    """Switches the lamps of one status."""

    __slots__ = ("_drive", "_first", "_status")

    def __init__(self, status: CurrentStatus, first_unit: int, drive: Drive) -> None:
        self._status = status
        self._drive = drive
        self._first = first_unit

    def look(self) -> bool:
        """Switch what follows the drive and has changed; return whether any lamp has."""
        lamps = self._status.lamps
        if not lamps:
            return False
        found = False
        for index, colour, holds in FOLLOWERS:
            if holds(self._drive) != (lamps[index].state != "LAMP_OFF"):
                self.switch(index, colour)
                found = True
        return found

    def switch(self, index: int, colour: str) -> None:
        """Switch a lamp on in this colour, or off when it is lit."""
        unit = self._first + index
        lamp = switched(self._status.lamps[index], colour)
        self._status.lamps[index] = self._status.units[unit] = lamp
        self._status.changed.append(unit)
