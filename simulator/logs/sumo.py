"""Floating-car data of SUMO (`--fcd-output FILE --fcd-output.geo`): positions, speeds and what else it was told to write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from simulator.logs.base import Drive, Drives, LogReader
from simulator.logs.mapping import Mapping as LogMapping
from simulator.logs.mapping import seconds_ns
from simulator.logs.xml_elements import read_elements

# Attribute -> signals and the factor to their unit (sumo.dlr.de, Simulation/Output/FCDOutput).
_SIGNALS: Final = {
    "y": (("position.latitude_deg", 1.0),),
    "x": (("position.longitude_deg", 1.0),),
    "z": (("position.altitude_m", 1.0),),
    "angle": (("position.heading_deg", 1.0),),
    "speed": (("position.ground_speed_kmh", 3.6), ("motion.wheel_speed_average_kmh", 3.6)),
    "acceleration": (("motion.longitudinal_acceleration_mps2", 1.0),),
    "accelerationLat": (("motion.lateral_acceleration_mps2", 1.0),),
    "odometer": (("motion.odometer_m", 1.0),),
}  # fmt: skip
_NEEDED: Final = ("id", "x", "y")


class _Steps:
    """Takes the vehicles of each time step."""

    def __init__(self, drives: Drives) -> None:
        self._drives = drives
        self._time_ns: int | None = None
        self._depth = 0

    def begin(self, line: int, name: str, attributes: Mapping[str, str]) -> None:
        if not self._depth and name != "fcd-export":
            raise self._drives.refusal(
                line, f"begins with {name}, and floating-car data of SUMO with fcd-export"
            )
        self._depth += 1
        if name == "timestep":
            try:
                self._time_ns = seconds_ns(attributes.get("time", ""))
            except ValueError as bad:
                raise self._drives.refusal(line, f"time: {bad}") from None
        elif name == "vehicle":
            self._vehicle(line, attributes)

    def end(self, line: int, name: str, text: str) -> None:
        del line, text
        self._depth -= 1
        if name == "timestep":
            self._time_ns = None

    def _vehicle(self, line: int, attributes: Mapping[str, str]) -> None:
        if self._time_ns is None:
            raise self._drives.refusal(line, "a vehicle outside of a timestep")
        for need in _NEEDED:
            if need not in attributes:
                raise self._drives.refusal(line, f"a vehicle without {need}")
        values = {}
        for attribute, signals in _SIGNALS.items():
            for path, factor in signals if attribute in attributes else ():
                values[path] = self._number(line, attribute, attributes[attribute]) * factor
        if abs(values["position.latitude_deg"]) > 90 or abs(values["position.longitude_deg"]) > 180:
            raise self._drives.refusal(line, "x and y are no degrees: write the file with --fcd-output.geo")
        self._drives.add(line, attributes["id"], self._time_ns, values)

    def _number(self, line: int, attribute: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._drives.refusal(line, f"{attribute}: {text[:40]!r}: no number") from None


def _read(path: Path, mapping: LogMapping | None) -> tuple[Drive, ...]:
    del mapping
    drives = Drives(path)
    steps = _Steps(drives)
    read_elements(path, drives, steps.begin, steps.end)
    return drives.done()


SUMO: Final = LogReader(
    "sumo", "floating-car data of SUMO, with --fcd-output.geo", ".xml", mapped=False, read=_read
)
