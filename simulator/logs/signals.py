"""The signals of CurrentStatus that a log can give, made from the schema: their kinds, limits and units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.layout import LAYOUT, ROOT, Field

# 2^53: whole numbers up to it are exact in a double, which is what a column of a log has.
MOST_COUNTED: Final = 2**53
_LEAST: Final = {"uint32": 0, "uint64": 0, "int32": -(2**31)}
_MOST: Final = {"uint32": 2**32 - 1, "uint64": MOST_COUNTED, "int32": 2**31 - 1}
_RANGES: Final = {"position.latitude_deg": 90.0, "position.longitude_deg": 180.0}
# Sections that say who and when, and fields that the vehicle itself fills in.
_OWN: Final = ("header", "position.fix_time_ms")

# Unit at the end of a signal's name -> unit of a log -> (factor, offset): ours = factor * theirs + offset.
UNITS: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "kmh": {"km/h": (1.0, 0.0), "m/s": (3.6, 0.0), "mph": (1.609344, 0.0), "kn": (1.852, 0.0)},
    "mps2": {"m/s2": (1.0, 0.0), "g": (9.80665, 0.0)},
    "dps": {"deg/s": (1.0, 0.0), "rad/s": (180.0 / math.pi, 0.0)},
    "deg": {"deg": (1.0, 0.0), "rad": (180.0 / math.pi, 0.0)},
    "pct": {"%": (1.0, 0.0), "ratio": (100.0, 0.0)},
    "rpm": {"rpm": (1.0, 0.0), "1/s": (60.0, 0.0)},
    "kpa": {"kPa": (1.0, 0.0), "Pa": (0.001, 0.0), "bar": (100.0, 0.0), "psi": (6.894757, 0.0)},
    "c": {"degC": (1.0, 0.0), "degF": (5.0 / 9.0, -160.0 / 9.0), "K": (1.0, -273.15)},
    "lph": {"l/h": (1.0, 0.0), "l/min": (60.0, 0.0)},
    "v": {"V": (1.0, 0.0), "mV": (0.001, 0.0)},
    "a": {"A": (1.0, 0.0), "mA": (0.001, 0.0)},
    "kw": {"kW": (1.0, 0.0), "W": (0.001, 0.0)},
    "nm": {"Nm": (1.0, 0.0)},
    "m": {"m": (1.0, 0.0), "km": (1_000.0, 0.0), "mi": (1_609.344, 0.0)},
    "ml": {"ml": (1.0, 0.0), "l": (1_000.0, 0.0)},
    "s": {"s": (1.0, 0.0), "min": (60.0, 0.0), "h": (3_600.0, 0.0)},
    "wh": {"Wh": (1.0, 0.0), "kWh": (1_000.0, 0.0)},
}


class BadValueError(ValueError):
    """A value that its signal cannot have."""


@dataclass(frozen=True)
class Signal:
    """One field of CurrentStatus.

    Attributes:
        section, name: where it is.
        record: "Reading", "Counter" or "Flag"; empty for a plain number.
        kind: of the number in it, as `schemas.layout.Field.kind` says.
    """

    section: str
    name: str
    record: str
    kind: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def is_flag(self) -> bool:
        return self.record == "Flag"

    @property
    def is_whole(self) -> bool:
        return self.kind in _MOST

    @property
    def units(self) -> dict[str, tuple[float, float]]:
        """Return the units in which a log may have it; none where its own is the only one."""
        return UNITS.get(self.name.rsplit("_", 1)[-1], {})

    def checked(self, value: float) -> float:
        """Return the value as a payload has it: readings as float32, counters to the nearest whole of their unit."""
        if not math.isfinite(value):
            raise BadValueError(f"{value}: no number")
        if self.is_flag:
            if value not in {0.0, 1.0}:
                raise BadValueError(f"{value:g}: a flag is true or false, 1 or 0")
            return float(value)
        if self.is_whole:
            return self._whole(value)
        limit = _RANGES.get(self.path, 3.4e38 if self.kind == "float" else math.inf)
        if abs(value) > limit:
            raise BadValueError(f"{value:g}: at most {limit:g} to either side of 0")
        return float(np.float32(value)) if self.kind == "float" else float(value)

    def _whole(self, value: float) -> float:
        whole = float(round(value))
        if not self.record and whole != value:
            raise BadValueError(f"{value:g}: no whole number")
        if not _LEAST[self.kind] <= whole <= _MOST[self.kind]:
            raise BadValueError(f"{value:g}: from {_LEAST[self.kind]} to {_MOST[self.kind]}")
        return whole


_INNER: Final = {"Reading": "float", "Counter": "uint64", "Flag": "bool"}


def _signal(section: str, field: Field) -> Signal | None:
    if field.repeated or section in _OWN or f"{section}.{field.name}" in _OWN:
        return None
    if field.is_record:
        return Signal(section, field.name, field.type_name, _INNER[field.type_name])
    return Signal(section, field.name, "", field.kind) if field.kind in {"double", "float", *_MOST} else None


SIGNALS: Final[dict[str, Signal]] = {
    signal.path: signal
    for section in LAYOUT.messages[ROOT]
    if not section.repeated
    for field in LAYOUT.messages[section.type_name]
    if (signal := _signal(section.name, field)) is not None
}
