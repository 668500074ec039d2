"""What a twin shows of its payload: a row, sections, signals; decoded only when asked for."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.generated.records import Position
from schemas.messages import SECTIONS, CurrentStatus
from twin.service.fleet import Twin
from twin.service.record import State

# name -> unit and meaning; a row is a list in this order, the legend is part of the API's documentation
COLUMNS: Final = {
    "vehicleId": "the vehicle",
    "format": "of the payload",
    "protocol": "that brought it",
    "mode": "of the protocol",
    "epoch": "starts of the vehicle",
    "sequence": "of the newest status",
    "sampledAtMs": "when the reading was taken, ms since 1970; null where the format has no time",
    "receivedAtMs": "when the gateway had it",
    "appliedAtMs": "when the twin contained it",
    "messages": "records the twin has seen, duplicates included",
    "duplicates": "further arrivals of a message",
    "gaps": "sequences that never came",
    "givenUp": "records in epochs of which the other counters know nothing",
    "payloadBytes": "length of the newest payload",
    "latitudeDeg": "degrees north; null where it is not known: none sent, or out of range",
    "longitudeDeg": "degrees east; null together with the latitude",
    "headingDeg": "degrees clockwise from north",
    "speedKmh": "over ground",
    "energyPct": "charge of the traction battery, else fuel level",
    "powertrain": "combustion, hybrid or electric",
    "lampsOn": "warning lamps that are yellow or red",
    "rsrpDbm": "received power of the radio cell",
    "sinrDb": "signal to noise",
    "queuedMessages": "waiting in the vehicle",
    "problem": "why the payload, or a part of it, is not shown",
}
_DECODED: Final = len(COLUMNS) - list(COLUMNS).index("latitudeDeg") - 1
_WARNING: Final = frozenset({"LAMP_YELLOW", "LAMP_RED"})
_MS: Final = 1_000_000
MAX_LATITUDE_DEG: Final = 90.0
MAX_LONGITUDE_DEG: Final = 180.0


def decode(state: State) -> CurrentStatus:
    """Return the reading; PayloadError when the payload is not one of its format."""
    return FORMATS[state.format].decode(state.payload)


def row(twin: Twin) -> list[Any]:
    """Return the twin's row, decoded at most once for each state; a broken payload has a `problem`."""
    state, cached = twin.state, twin.cached_row
    if cached is not None and cached[0] is state:
        return cached[1]
    made = _row(twin.vehicle_id, state)
    twin.cached_row = (state, made)
    return made


def _row(vehicle_id: str, state: State) -> list[Any]:
    sampled = state.sampled_at_ns
    known = [
        vehicle_id, state.format, state.protocol, state.mode, state.epoch, state.sequence,
        None if sampled is None else sampled // _MS, state.received_at_ns // _MS, state.appended_at_ns // _MS,
        state.messages, state.duplicates, state.gaps, state.given_up, len(state.payload),
    ]  # fmt: skip
    try:
        status = decode(state)
        return [*known, *_decoded(status), _misplaced(status.position)]
    except PayloadError as error:
        return [*known, *[None] * _DECODED, str(error)]


def _decoded(status: CurrentStatus) -> list[Any]:
    position, radio = status.position, status.connectivity
    combustion, traction = status.combustion, status.traction
    place: list[Any] = [None] * 4
    if position is not None:
        where = [round(position.latitude_deg, 6), round(position.longitude_deg, 6)]
        place = [*(where if on_earth(position) and not no_fix(position) else (None, None)),
                 round(position.heading_deg, 1), round(position.ground_speed_kmh, 1)]  # fmt: skip
    charge = traction.state_of_charge_pct if traction is not None else None
    energy = charge or (combustion.fuel_level_primary_pct if combustion is not None else None)
    powertrain = None
    if combustion is not None:
        powertrain = "combustion" if traction is None else "hybrid"
    elif traction is not None:
        powertrain = "electric"
    quality = [None] * 3 if radio is None else [radio.rsrp_dbm, radio.sinr_db, radio.queued_messages]
    lamps = sum(lamp.state in _WARNING for lamp in status.lamps)
    return [*place, None if energy is None else round(energy.value, 1), powertrain, lamps, *quality]


def on_earth(position: Position) -> bool:
    """Return whether there is such a place: latitude within 90 degrees, longitude within 180; NaN is nowhere."""
    return abs(position.latitude_deg) <= MAX_LATITUDE_DEG and abs(position.longitude_deg) <= MAX_LONGITUDE_DEG


def no_fix(position: Position) -> bool:
    """Return whether a position says no place: what is not sent is 0, and a place at 0, 0 would have a time."""
    return position.latitude_deg == position.longitude_deg == 0.0 and position.fix_time_ms == 0


def _misplaced(position: Position | None) -> str | None:
    if position is None or on_earth(position):
        return None
    return f"position out of range: latitude {position.latitude_deg:g}, longitude {position.longitude_deg:g}"


def sections(status: CurrentStatus, names: tuple[str, ...] = SECTIONS) -> dict[str, dict[str, Any]]:
    """Return the named sections that the reading has, each as a plain object; lists stand under `items`."""
    made = {}
    for name in names:
        section = getattr(status, name)
        if section:
            made[name] = {"items": _plain(section)} if isinstance(section, list) else _plain(section)
    return made


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


def _plain(value: Any) -> Any:
    """Every field by its name in JSON, defaults included; what the vehicle has not is left out."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        fields = _fields(type(value))
        return {
            name: _plain(item)
            for at, name in fields
            if (item := getattr(value, at)) is not None and item != []
        }
    return value


def signals(parts: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return every number by its path, such as `motion/yawRateDps`; a Reading counts as its value."""
    found: dict[str, float] = {}
    for name, section in parts.items():
        if name not in ("header", "lamps", "crew"):
            _collect(name, section, found)
    return found


def _collect(path: str, value: Any, found: dict[str, float]) -> None:
    if isinstance(value, bool):
        found[path] = int(value)
    elif isinstance(value, int | float):
        found[path] = value
    elif isinstance(value, list):
        for k, item in enumerate(value, 1):
            _collect(f"{path}/{k}", item, found)
    elif isinstance(value, dict):
        own = value.get("value", value.get("active")) if "ageCs" in value else None
        if own is not None:
            _collect(path, own, found)
        else:
            for key, item in value.items():
                _collect(path if key == "items" else f"{path}/{key}", item, found)
