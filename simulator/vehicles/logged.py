"""A vehicle that drives what a log says: at each instant the newest row; it invents nothing."""

from __future__ import annotations

import math
from typing import Any, Final

import schemas.messages as m
from schemas.topics import vehicle_id
from simulator.logs.base import Drive
from simulator.logs.signals import SIGNALS, Signal

_SECTIONS: Final = {
    "position": m.Position, "motion": m.Motion, "combustion": m.Combustion, "traction": m.Traction,
    "drivetrain": m.Drivetrain, "body": m.Body, "connectivity": m.Connectivity,
}  # fmt: skip
_PLACE: Final = ("position.latitude_deg", "position.longitude_deg")
ORIGIN: Final = "TELEMATICS_UNIT"


class LoggedVehicle:
    """Vehicle `number` of the fleet on the drive of a log.

    A signal that the newest row lacks is not in the status. Its age is the time since that row; the trend is against the
    row before. A place is of both numbers: where the row lacks one, there is neither.
    """

    def __init__(self, number: int, drive: Drive) -> None:
        self._number = number
        self._drive = drive
        self._signals = [(SIGNALS[path], column) for path, column in drive.signals.items()]

    def status(self, sequence: int, epoch: int, offset_ns: int, start_at_ns: int) -> m.CurrentStatus:
        """Return the status `offset_ns` after the drive's begin, which is at `start_at_ns` of the wall clock."""
        row = self._drive.row_at(offset_ns)
        row_ns = int(self._drive.time_ns[row])
        header = m.Header(
            vehicle_id=vehicle_id(self._number),
            schema_version=1,
            sequence_number=sequence,
            sampled_at_ms=(start_at_ns + offset_ns) // 1_000_000,
            trip_id=self._drive.vehicle,
            epoch=epoch,
        )
        document = m.Document(header=header)
        age_cs = (offset_ns - row_ns) // 10_000_000
        for signal, column in self._signals:
            value = float(column[row])
            if not math.isnan(value):
                before = float(column[row - 1]) if row else value
                setattr(
                    _section(document, signal.section), signal.name, _field(signal, value, before, age_cs)
                )
        if document.position is not None:
            self._fix(document.position, row, (start_at_ns + row_ns) // 1_000_000)
        return m.CurrentStatus.of(document)

    def _fix(self, position: m.Position, row: int, at_ms: int) -> None:
        """Date the place where the row has one; else it is the schema's 0, and of no time."""
        if all(not math.isnan(self._value(path, row)) for path in _PLACE):
            position.fix_time_ms = at_ms
        else:
            position.latitude_deg = position.longitude_deg = 0.0

    def _value(self, path: str, row: int) -> float:
        column = self._drive.signals.get(path)
        return math.nan if column is None else float(column[row])


def _section(document: m.Document, name: str) -> Any:
    section = getattr(document, name)
    if section is None:
        section = _SECTIONS[name]()
        setattr(document, name, section)
    return section


def _field(signal: Signal, value: float, before: float, age_cs: int) -> Any:
    if signal.record == "Flag":
        return m.Flag(active=value == 1.0, age_cs=age_cs, origin=ORIGIN)
    if signal.record == "Counter":
        return m.Counter(value=int(value), age_cs=age_cs, origin=ORIGIN)
    if signal.record == "Reading":
        trend = "RISING" if value > before else "FALLING" if value < before else "STEADY"
        return m.Reading(value=value, age_cs=age_cs, origin=ORIGIN, trend=trend)  # type: ignore[arg-type]
    return int(value) if signal.is_whole else value
