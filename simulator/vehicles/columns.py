"""The columns of a vehicle's messages: what moves from one message to the next, and what changes now and then.

A group of vehicles fills them, and a format's block makes payloads of them.
"""

from __future__ import annotations

from typing import Final

from schemas.formats.base import Format
from schemas.formats.blocks import BlockLayout, Columns, Path, Shape
from schemas.layout import LAYOUT
from simulator.vehicles.content import LAMP_KINDS
from simulator.vehicles.signals import COUNTERS, FAST, FLAGS, SLOW

SHAPE: Final = Shape({"axles": 2, "wheels": 2, "trailers": 1, "crew": 1, "lamps": len(LAMP_KINDS)})


def path_of(dotted: str) -> Path:
    return tuple(dotted.split("."))


_AXLES: Final[tuple[Path, ...]] = (
    ("axles", 0), ("axles", 1), ("trailers", 0, "axles", 0), ("trailers", 0, "axles", 1),
)  # fmt: skip
WHEELS: Final = tuple((*axle, "wheels", k) for axle in _AXLES for k in range(2))
PATHS: Final = tuple(node.path for node in SHAPE.nodes)
READINGS: Final[tuple[Path, ...]] = (
    *(path_of(path) for path in FAST),
    *(path_of(path) for path in SLOW),
    *((*wheel, name) for wheel in WHEELS for name in ("tyre_temperature_c", "tyre_pressure_kpa")),
)
_POSITION: Final[Path] = ("position",)
_HEADER: Final[Path] = ("header",)
_RADIO: Final[Path] = ("connectivity",)
_GEARS: Final[Path] = ("drivetrain",)


def _scalars(*names: tuple[Path, str]) -> tuple[int, ...]:
    return tuple(SHAPE.scalar(path, name) for path, name in names)


# In this order `VehicleGroup` stacks them.
COLUMNS: Final = Columns(
    floats=_scalars(
        *((path, "value") for path in READINGS),
        (_POSITION, "altitude_m"),
        (_POSITION, "heading_deg"),
        (_POSITION, "ground_speed_kmh"),
        (_POSITION, "horizontal_accuracy_m"),
    ),
    doubles=_scalars((_POSITION, "latitude_deg"), (_POSITION, "longitude_deg")),
    integers=_scalars(
        *((path, "trend") for path in READINGS),
        *((path_of(path), "value") for path in COUNTERS),
        *((path_of(path), "active") for path in FLAGS),
        (_HEADER, "sequence_number"),
        (_HEADER, "sampled_at_ms"),
        (_POSITION, "fix_time_ms"),
        (_HEADER, "cause"),
        (_GEARS, "current_gear"),
        (_GEARS, "selected_gear"),
        (("crew", 0), "continuous_driving_s"),
        (_POSITION, "satellites_used"),
        (_RADIO, "rsrp_dbm"),
        (_RADIO, "rsrq_db"),
        (_RADIO, "sinr_db"),
        (_RADIO, "cell_id"),
    ),
)
# The numbers that the columns have for words.
TRENDS: Final = {name: number for number, name in enumerate(LAYOUT.enums["Trend"])}
CAUSES: Final = {name: number for number, name in enumerate(LAYOUT.enums["Cause"])}
LAMP_STATES: Final = {name: number for number, name in enumerate(LAYOUT.enums["LampState"])}
QUALITIES: Final = {name: number for number, name in enumerate(LAYOUT.enums["Quality"])}
# What changes now and then, as events beside the columns.
QUALITY_SCALARS: Final = _scalars(*((path, "quality") for path in READINGS[: len(FAST)]))
LAMP_STATE_SCALARS: Final = _scalars(*((("lamps", k), "state") for k in range(len(LAMP_KINDS))))
ACTIVATION_SCALARS: Final = _scalars(*((("lamps", k), "activations") for k in range(len(LAMP_KINDS))))


def layout_of(format_: Format) -> BlockLayout | None:
    """Return what makes a format's payloads in blocks; None when it has no way but one by one."""
    return None if format_.blocks is None else format_.blocks(SHAPE, COLUMNS)
