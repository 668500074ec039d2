"""From a drive to a living status: every tick changes the records that moved and names their units."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import repeat
from random import Random
from typing import Any, Final, NamedTuple

from schemas.messages import CurrentStatus, Header, Position
from simulator.vehicles.chance import BAD, FAULTS_PER_TICK, Chance, Draws, Switch
from simulator.vehicles.content import steps_of
from simulator.vehicles.drive import Drive
from simulator.vehicles.lamps import Lamps
from simulator.vehicles.signals import (
    COUNTERS,
    FAST,
    FLAGS,
    SLOW,
    TYRE_PRESSURE,
    TYRE_PRESSURE_OFFSETS,
    TYRE_WARMTH,
    TYRE_WARMTH_OFFSETS,
)

SLOW_PER_TICK: Final = 3


class _Gauge(NamedTuple):
    """How a signal is shown; one object for all vehicles."""

    source: Callable[[Drive], float]
    steps: float
    band: float


_GAUGES: Final = {p: _Gauge(s.source, steps_of(p), s.band) for p, s in (FAST | SLOW).items()}
WARMTH_STEPS, WARMTH_BAND = 8.0, 1.0
PRESSURE_STEPS, PRESSURE_BAND = 1.0, 4.0


def _tyre(factor: float, offset: float) -> Callable[[Drive], float]:
    return lambda d: d.tyre_c * factor + offset


_WARMTHS: Final = tuple(
    _Gauge(_tyre(TYRE_WARMTH, offset), WARMTH_STEPS, WARMTH_BAND) for offset in TYRE_WARMTH_OFFSETS
)
_PRESSURES: Final = tuple(
    _Gauge(_tyre(TYRE_PRESSURE, offset), PRESSURE_STEPS, PRESSURE_BAND) for offset in TYRE_PRESSURE_OFFSETS
)


def record_at(status: CurrentStatus, path: str) -> Any:
    """Return the record `section.name`, None where the vehicle has no such section or sensor."""
    section, name = path.split(".")
    return getattr(getattr(status, section), name, None)


class _Shown:
    """Gauges of one vehicle: units and gauges side by side, small because a fleet has many."""

    __slots__ = ("gauges", "units")

    def __init__(self, pairs: list[tuple[int, Any]]) -> None:
        self.units = array("H", [unit for unit, _ in pairs])
        self.gauges = [gauge for _, gauge in pairs]


class Gauges:
    """Reads a drive into a living status."""

    __slots__ = (
        "_counters",
        "_drive",
        "_fast",
        "_flags",
        "_header",
        "_lamps",
        "_noise_widths",
        "_position",
        "_rng",
        "_slow",
        "_status",
        "_stub",
        "_turn",
        "_tyre_offsets",
        "_unit",
        "cause",
        "chance",
    )

    def __init__(self, variant: str, status: CurrentStatus, drive: Drive, rng: Random) -> None:
        self._drive = drive
        self._rng = rng
        self._status = status
        watched = status.watch()
        self._unit = {id(record): unit for unit, record in enumerate(watched)}
        assert status.header is not None
        assert status.position is not None
        self._header: Header = status.header
        self._position: Position = status.position
        self._fast = _Shown(self._fitted(FAST, _GAUGES))
        self._counters = _Shown(self._fitted(COUNTERS, COUNTERS))
        self._flags = _Shown(self._fitted(FLAGS, FLAGS))
        self._tyre_offsets = bytearray()
        self._slow = _Shown(self._fitted(SLOW, _GAUGES) + self._tyres())
        self._turn = 0
        self._load_axles()
        first_lamp = self._unit[id(status.lamps[0])] if status.lamps else 0
        self._stub = variant == "stub"
        self.cause = "IGNITION_ON" if self._stub else "PERIODIC"
        self._noise_widths = [FAST[path].noise for path in self._fitted_paths(FAST)]
        self.chance = Chance(
            rng,
            stub=self._stub,
            noisy=sum(width > 0.0 for width in self._noise_widths),
            fast=len(self._fast.units),
            radio=status.connectivity,
            lamps=status.lamps,
        )
        self._lamps = Lamps(status, first_lamp, drive)
        self._lamps.look()
        self._switch(self.chance.switch())
        for record in (r for r in watched if hasattr(r, "quality")):
            if rng.random() < FAULTS_PER_TICK:
                record.quality = rng.choice(BAD)
        self._show(self._slow.units, self._slow.gauges, repeat(0.0))
        parts = (status.position, status.drivetrain, status.connectivity, *status.crew)
        # The full map is big, and a fleet has many: keep what the ticks ask for.
        self._unit = {id(part): self._unit[id(part)] for part in parts if part is not None}

    def read(self) -> None:
        """Bring the status up to the drive's state."""
        draws = self.chance.draw()
        noise = iter(draws.noise)
        widths = self._noise_widths
        self._show(self._fast.units, self._fast.gauges, [next(noise) * w if w else 0.0 for w in widths])
        if self._stub:
            self._place(draws.satellites)
            return
        turn, self._turn = self._turn, (self._turn + SLOW_PER_TICK) % max(len(self._slow.units), 1)
        shown = slice(turn, self._turn or None)
        self._show(self._slow.units[shown], self._slow.gauges[shown], repeat(0.0))
        self._count()
        self._place(draws.satellites)
        self._sections(draws)
        followed = self._lamps.look()
        self.cause = "LAMP_CHANGE" if self._switch(draws.switch) or followed else "PERIODIC"

    def _switch(self, switch: Switch | None) -> bool:
        if switch is not None:
            self._lamps.switch(switch.lamp, switch.colour)
        return switch is not None

    def headed(self, sequence: int, epoch: int, sampled_at_ms: int, cause: str) -> CurrentStatus:
        """Return the status under a header for this message."""
        header = self._header
        header.sequence_number, header.epoch, header.sampled_at_ms = sequence, epoch, sampled_at_ms
        header.cause = cause  # type: ignore[assignment]
        # The position's fix is as old as the receiver's last second.
        self._position.fix_time_ms = sampled_at_ms - sampled_at_ms % 200
        self._status.changed.append(0)
        return self._status

    def tyre_offsets(self, wheels: int) -> list[float]:
        """Return how far each tyre's temperature and pressure are from all tyres', 0 where there is no wheel."""
        found = [0.0] * (2 * wheels)
        for k, offset in enumerate(self._tyre_offsets):
            found[2 * k : 2 * k + 2] = TYRE_WARMTH_OFFSETS[offset], TYRE_PRESSURE_OFFSETS[offset]
        return found

    def _count(self) -> None:
        drive, changed, units = self._drive, self._status.changed, self._status.units
        for unit, source in zip(self._counters.units, self._counters.gauges, strict=True):
            count = int(source(drive))
            if count != units[unit].value:
                units[unit].value = count
                changed.append(unit)
        for unit, holds in zip(self._flags.units, self._flags.gauges, strict=True):
            active = holds(drive)
            if active != units[unit].active:
                units[unit].active = active
                changed.append(unit)

    def _show(self, shown: Iterable[int], gauges: list[_Gauge], noise: Iterable[float]) -> None:
        drive, changed, units = self._drive, self._status.changed, self._status.units
        for unit, (source, steps, band), off in zip(shown, gauges, noise, strict=False):
            record = units[unit]
            value = round((source(drive) + off) * steps) / steps
            before = record.value
            if value != before:
                step = value - before
                record.trend = "RISING" if step > band else "FALLING" if step < -band else "STEADY"
                record.value = value
                changed.append(unit)
            elif record.trend != "STEADY":
                record.trend = "STEADY"
                changed.append(unit)

    def _place(self, satellites: int | None) -> None:
        route, position = self._drive.route, self._position
        position.latitude_deg = round(route.latitude_deg, 6)
        position.longitude_deg = round(route.longitude_deg, 6)
        position.altitude_m = round(route.altitude_m * 8.0) / 8.0
        position.heading_deg = round(route.heading_deg * 16.0) / 16.0
        position.ground_speed_kmh = round(self._drive.speed_mps * 57.6) / 16.0
        if satellites is not None:
            position.satellites_used = satellites
            position.horizontal_accuracy_m = (24 - satellites) / 4.0
        self._status.changed.append(self._unit[id(position)])

    def _sections(self, draws: Draws) -> None:
        """Renew the parts that are not records: gears, driver, radio."""
        status, drive, unit = self._status, self._drive, self._unit
        drivetrain, radio, crew = status.drivetrain, status.connectivity, status.crew[0]
        if drivetrain is not None and drivetrain.current_gear != drive.gear:
            drivetrain.current_gear = drivetrain.selected_gear = drive.gear
            status.changed.append(unit[id(drivetrain)])
        minutes_s = int(drive.driven_s) // 60 * 60  # tachographs count whole minutes
        if crew.continuous_driving_s != minutes_s:
            crew.continuous_driving_s = minutes_s
            status.changed.append(unit[id(crew)])
        if draws.radio:
            status.changed.append(unit[id(radio)])
        if draws.fault is not None:
            at = self._fast.units[draws.fault.reading]
            status.units[at].quality = draws.fault.quality
            status.changed.append(at)

    def _fitted(self, paths: Iterable[str], gauges: dict[str, Any]) -> list[tuple[int, Any]]:
        """Return (unit, gauge) for those signals that the vehicle has a sensor for."""
        return [(self._unit[id(record_at(self._status, p))], gauges[p]) for p in self._fitted_paths(paths)]

    def _fitted_paths(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if record_at(self._status, path) is not None]

    def _load_axles(self) -> None:
        """Share the vehicle's mass out over all axles, a trailer's included."""
        axles = [*self._status.axles, *(a for t in self._status.trailers for a in t.axles)]
        shares = [self._rng.uniform(0.9, 1.1) for _ in axles]
        for axle, share in zip(axles, shares, strict=True):
            if axle.axle_load_kg is not None:
                axle.axle_load_kg.value = float(round(self._drive.mass_kg * share / sum(shares)))

    def _tyres(self) -> list[tuple[int, Any]]:
        """Return (unit, gauge) for every tyre, each with an offset of its own."""
        axles = [*self._status.axles, *(a for t in self._status.trailers for a in t.axles)]
        found: list[tuple[int, Any]] = []
        for wheel in (w for axle in axles for w in axle.wheels):
            offset = self._rng.randrange(len(_WARMTHS))
            self._tyre_offsets.append(offset)
            if wheel.tyre_temperature_c is not None:
                found.append((self._unit[id(wheel.tyre_temperature_c)], _WARMTHS[offset]))
            if wheel.tyre_pressure_kpa is not None:
                found.append((self._unit[id(wheel.tyre_pressure_kpa)], _PRESSURES[offset]))
        return found
