"""From a drive to a living status: every tick changes the records that moved and names their units."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple

from schemas.messages import CurrentStatus, Header, Position
from simulator.vehicles.content import steps_of
from simulator.vehicles.drive import Drive
from simulator.vehicles.lamps import Lamps
from simulator.vehicles.signals import COUNTERS, FAST, FLAGS, SLOW, TYRE_PRESSURE, TYRE_WARMTH

SLOW_PER_TICK: Final = 3
FAULTS_PER_TICK: Final = 0.02
BAD: Final = ("STALE", "STALE", "ESTIMATED", "OUT_OF_RANGE", "SENSOR_FAULT")


class _Gauge(NamedTuple):
    """How a signal is shown; one object for all vehicles."""

    source: Callable[[Drive], float]
    steps: float
    band: float


_GAUGES: Final = {p: _Gauge(s.source, steps_of(p), s.band) for p, s in (FAST | SLOW).items()}
_WARMTHS: Final = tuple(_Gauge(source, 8.0, 1.0) for source in TYRE_WARMTH)
_PRESSURES: Final = tuple(_Gauge(source, 1.0, 4.0) for source in TYRE_PRESSURE)


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
        "_position",
        "_rng",
        "_slow",
        "_status",
        "_stub",
        "_turn",
        "_unit",
        "cause",
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
        self._slow = _Shown(self._fitted(SLOW, _GAUGES) + self._tyres())
        self._turn = 0
        self._load_axles()
        first_lamp = self._unit[id(status.lamps[0])] if status.lamps else 0
        self._lamps = Lamps(status, first_lamp, drive, rng)
        self.cause = "IGNITION_ON" if variant == "stub" else "PERIODIC"
        self._stub = variant == "stub"
        for record in (r for r in watched if hasattr(r, "quality")):
            if rng.random() < FAULTS_PER_TICK:
                record.quality = rng.choice(BAD)
        self._show(self._slow.units, self._slow.gauges)
        parts = (status.position, status.drivetrain, status.connectivity, *status.crew)
        # The full map is big, and a fleet has many: keep what the ticks ask for.
        self._unit = {id(part): self._unit[id(part)] for part in parts if part is not None}

    def read(self) -> None:
        """Bring the status up to the drive's state."""
        self._show(self._fast.units, self._fast.gauges)
        if self._stub:
            self._place()
            return
        turn, self._turn = self._turn, (self._turn + SLOW_PER_TICK) % max(len(self._slow.units), 1)
        self._show(self._slow.units[turn : self._turn or None], self._slow.gauges[turn : self._turn or None])
        self._count()
        self._place()
        self._sections()
        self.cause = "LAMP_CHANGE" if self._lamps.look() else "PERIODIC"

    def headed(self, sequence: int, epoch: int, sampled_at_ms: int, cause: str) -> CurrentStatus:
        """Return the status under a header for this message."""
        header = self._header
        header.sequence_number, header.epoch, header.sampled_at_ms = sequence, epoch, sampled_at_ms
        header.cause = cause  # type: ignore[assignment]
        # The position's fix is as old as the receiver's last second.
        self._position.fix_time_ms = sampled_at_ms - sampled_at_ms % 200
        self._status.changed.append(0)
        return self._status

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

    def _show(self, shown: Iterable[int], gauges: list[_Gauge]) -> None:
        drive, changed, units = self._drive, self._status.changed, self._status.units
        for unit, (source, steps, band) in zip(shown, gauges, strict=True):
            record = units[unit]
            value = round(source(drive) * steps) / steps
            before = record.value
            if value != before:
                step = value - before
                record.trend = "RISING" if step > band else "FALLING" if step < -band else "STEADY"
                record.value = value
                changed.append(unit)
            elif record.trend != "STEADY":
                record.trend = "STEADY"
                changed.append(unit)

    def _place(self) -> None:
        route, position = self._drive.route, self._position
        position.latitude_deg = round(route.latitude_deg, 6)
        position.longitude_deg = round(route.longitude_deg, 6)
        position.altitude_m = round(route.altitude_m * 8.0) / 8.0
        position.heading_deg = round(route.heading_deg * 16.0) / 16.0
        position.ground_speed_kmh = round(self._drive.speed_mps * 57.6) / 16.0
        draw = self._rng.random()
        if draw < 0.1:
            position.satellites_used = 6 + int(draw * 90.0)
            position.horizontal_accuracy_m = (24 - position.satellites_used) / 4.0
        self._status.changed.append(self._unit[id(position)])

    def _sections(self) -> None:
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
        rng = self._rng
        if radio is not None and rng.random() < 0.5:
            radio.rsrp_dbm = min(max(radio.rsrp_dbm + rng.choice((-2, -1, 1, 2)), -119), -70)
            radio.rsrq_db = min(max(radio.rsrq_db + rng.choice((-1, 0, 1)), -17), -5)
            radio.sinr_db = min(max(radio.sinr_db + rng.choice((-1, 0, 1)), -5), 24)
            if rng.random() < 0.02:
                radio.cell_id = rng.getrandbits(28)  # handed over to the next cell
            status.changed.append(unit[id(radio)])
        if rng.random() < FAULTS_PER_TICK:
            at = rng.choice(self._fast.units)
            status.units[at].quality = rng.choice(BAD) if rng.random() < FAULTS_PER_TICK else "VALID"
            status.changed.append(at)

    def _fitted(self, paths: Iterable[str], gauges: dict[str, Any]) -> list[tuple[int, Any]]:
        """Return (unit, gauge) for those signals that the vehicle has a sensor for."""
        found = []
        for path in paths:
            section, name = path.split(".")
            record = getattr(getattr(self._status, section), name, None)
            if record is not None:
                found.append((self._unit[id(record)], gauges[path]))
        return found

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
            if wheel.tyre_temperature_c is not None:
                found.append((self._unit[id(wheel.tyre_temperature_c)], _WARMTHS[offset]))
            if wheel.tyre_pressure_kpa is not None:
                found.append((self._unit[id(wheel.tyre_pressure_kpa)], _PRESSURES[offset]))
        return found
