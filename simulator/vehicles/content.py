"""The first content of a vehicle's status: what it is fitted with, its names, its counters; no motion."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import schemas.messages as m
from schemas.layout import LAYOUT
from schemas.topics import vehicle_id

VARIANTS: Final = ("rigid", "trailer", "hybrid", "stub")
NOT_FITTED: Final = 0.035  # share of signals that a given vehicle has no sensor for
POWERTRAIN: Final = "POWERTRAIN_BUS"
LAMP_KINDS: Final = LAYOUT.enums["LampKind"][1:]
# Lamps that were never lit are one object in the whole fleet: replaced when lit, never changed in place.
DARK: Final = {kind: m.Lamp(lamp=kind) for kind in LAMP_KINDS}  # type: ignore[arg-type]
# First values by the unit in a name: (low, high, steps per unit). Steps are powers of two, as scaled bus
# signals have them: such a value is the same number as float32, as float64 and as decimal text.
RANGES: Final[dict[str, tuple[float, float, float]]] = {
    "pct": (0.0, 100.0, 8.0),
    "c": (-5.0, 60.0, 8.0),
    "kmh": (0.0, 85.0, 16.0),
    "mps2": (-1.0, 1.0, 64.0),
    "dps": (-3.0, 3.0, 64.0),
    "deg": (-90.0, 90.0, 16.0),
    "kpa": (780.0, 900.0, 1.0),
    "rpm": (600.0, 1_500.0, 8.0),
    "lph": (2.0, 40.0, 16.0),
    "v": (26.5, 28.6, 16.0),
    "a": (-20.0, 60.0, 8.0),
    "kw": (-60.0, 100.0, 8.0),
    "nm": (-200.0, 900.0, 1.0),
    "kg": (3_000.0, 9_000.0, 1.0),
}


def steps_of(name: str) -> float:
    """Return the steps per unit in which the signal `name` moves."""
    return RANGES[name.rsplit("_", 1)[1]][2]


def first_content(number: int, variant: str, rng: Random) -> m.CurrentStatus:
    """Return the status of a vehicle as it starts; a stub has header, position and part of the body."""
    stub = variant == "stub"
    header = m.Header(
        vehicle_id=vehicle_id(number),
        schema_version=1,
        trip_id=f"T{rng.getrandbits(32):08X}",
        software_release=f"2024.{rng.randrange(1, 13)}.{rng.randrange(10, 30)}",
    )
    document = m.Document(header=header, position=m.Position())
    if stub:
        document.body = _fitted(m.Body, "BODY_BUS", rng, not_fitted=0.5)
        return m.CurrentStatus.of(document)
    document.motion = _fitted(m.Motion, "CHASSIS_BUS", rng)
    document.combustion = _fitted(m.Combustion, POWERTRAIN, rng)
    if variant == "hybrid":
        document.traction = _fitted(m.Traction, POWERTRAIN, rng)
    document.drivetrain = _fitted(m.Drivetrain, POWERTRAIN, rng)
    document.body = _fitted(m.Body, "BODY_BUS", rng)
    document.axles = [_axle(k, "CHASSIS_BUS", rng) for k in (1, 2)]
    if variant == "trailer":
        document.trailers = [_trailer(rng)]
    document.crew = [m.Crew(driver_card_id=f"SE{rng.randrange(10**14):014d}", activity=3)]
    document.lamps = [_lamp(kind, rng) for kind in LAMP_KINDS]
    document.connectivity = _connectivity(rng)
    return m.CurrentStatus.of(document)


def _fitted(kind: type[Any], origin: str, rng: Random, not_fitted: float = NOT_FITTED) -> Any:
    """Return a section with a first value in every record that this vehicle is fitted with."""
    section = kind()
    for field in LAYOUT.messages[kind.__name__]:
        if field.is_record and rng.random() >= not_fitted:
            setattr(section, field.name, _record(field.type_name, field.name, origin, rng))
    return section


def _record(kind: str, name: str, origin: str, rng: Random) -> Any:
    # A bus signal comes round many times a second, so its age at the sampling instant hardly changes.
    age_cs = rng.randrange(100)
    if kind == "Flag":
        return m.Flag(active=False, age_cs=age_cs, origin=origin)  # type: ignore[arg-type]
    if kind == "Counter":
        return m.Counter(value=int(10 ** rng.uniform(4, 9)), age_cs=age_cs, origin=origin)  # type: ignore[arg-type]
    low, high, steps = RANGES[name.rsplit("_", 1)[1]]
    value = round(rng.uniform(low, high) * steps) / steps
    return m.Reading(value=value, age_cs=age_cs, origin=origin)  # type: ignore[arg-type]


def _axle(number: int, origin: str, rng: Random) -> m.Axle:
    load = _record("Reading", "axle_load_kg", origin, rng)
    return m.Axle(axle_number=number, axle_load_kg=load, wheels=[_wheel(k, origin, rng) for k in (1, 2)])


def _wheel(number: int, origin: str, rng: Random) -> m.Wheel:
    wheel: m.Wheel = _fitted(m.Wheel, origin, rng, not_fitted=0.02)
    wheel.wheel_number = number
    return wheel


def _trailer(rng: Random) -> m.Trailer:
    trailer: m.Trailer = _fitted(m.Trailer, "TRAILER_BUS", rng, not_fitted=0.0)
    trailer.trailer_number = 1
    trailer.trailer_id = f"KRONE-SDP27-{rng.randrange(10**5):05d}"
    trailer.axles = [_axle(k, "TRAILER_BUS", rng) for k in (1, 2)]
    assert trailer.electrically_connected is not None
    trailer.electrically_connected.active = True
    return trailer


def _lamp(kind: str, rng: Random) -> m.Lamp:
    if rng.random() >= 0.025:
        return DARK[kind]
    state = rng.choice(("LAMP_WHITE", "LAMP_YELLOW", "LAMP_RED"))
    return m.Lamp(lamp=kind, state=state, activations=rng.randrange(1, 40))  # type: ignore[arg-type]


def _connectivity(rng: Random) -> m.Connectivity:
    return m.Connectivity(
        operator_code=f"240-0{rng.randrange(1, 8)}",
        radio_technology=4,
        rsrp_dbm=-rng.randrange(75, 110),
        rsrq_db=-rng.randrange(6, 16),
        sinr_db=rng.randrange(-2, 22),
        cell_id=rng.getrandbits(28),
    )
