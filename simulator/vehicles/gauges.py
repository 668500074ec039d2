"""From a drive to a living status: every tick changes the records that moved and names their units."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from random import Random
from typing import Any, Final, NamedTuple

from schemas.messages import CurrentStatus, Header, Position, Reading
from simulator.vehicles.content import steps_of
from simulator.vehicles.drive import Drive
from simulator.vehicles.lamps import Lamps
from simulator.vehicles.signals import COUNTERS, FAST, FLAGS, SLOW, Signal

SLOW_PER_TICK: Final = 3
FAULTS_PER_TICK: Final = 0.02
BAD: Final = ("STALE", "STALE", "ESTIMATED", "OUT_OF_RANGE", "SENSOR_FAULT")


class _Gauge(NamedTuple):
    unit: int
    record: Any
    source: Callable[[Drive], float]
    steps: float
    band: float


class Gauges:
    """Reads a drive into a living status."""

    def __init__(self, variant: str, status: CurrentStatus, drive: Drive, rng: Random) -> None:
        self._drive = drive
        self._rng = rng
        self._status = status
        watched = status.watch()
        self._unit = {id(record): unit for unit, record in enumerate(watched)}
        self._records = [record for record in watched if hasattr(record, "quality")]
        assert status.header is not None
        assert status.position is not None
        self._header: Header = status.header
        self._position: Position = status.position
        self._fast = [self._gauge(p, s) for p, s in FAST.items() if self._find(p) is not None]
        self._counters = [self._counter(p, s) for p, s in COUNTERS.items() if self._find(p) is not None]
        slow = [self._gauge(p, s) for p, s in SLOW.items() if self._find(p) is not None]
        slow += self._tyres()
        self._slow_count = len(slow)
        self._slow = cycle(slow)
        self._flags = [
            (self._unit[id(self._find(p))], self._find(p), s) for p, s in FLAGS.items() if self._find(p)
        ]
        self._lamps = Lamps(status, drive, rng)
        self.cause = "IGNITION_ON" if variant == "stub" else "PERIODIC"
        self._stub = variant == "stub"
        for record in self._records:
            if rng.random() < FAULTS_PER_TICK:
                record.quality = rng.choice(BAD)
        self._show(list(islice(self._slow, self._slow_count)))

    def read(self) -> None:
        """Bring the status up to the drive's state."""
        drive, changed = self._drive, self._status.changed
        if self._stub:
            self._show(self._fast)
            self._place()
            return
        self._show(self._fast)
        self._show(list(islice(self._slow, SLOW_PER_TICK)))
        for unit, record, source, _, _ in self._counters:
            count = int(source(drive))
            if count != record.value:
                record.value = count
                changed.append(unit)
        for unit, flag, holds in self._flags:
            active = holds(drive)
            if active != flag.active:
                flag.active = active
                changed.append(unit)
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

    def _show(self, gauges: list[_Gauge]) -> None:
        drive, changed = self._drive, self._status.changed
        for unit, record, source, steps, band in gauges:
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
        minutes_s = int(drive.trip_m / 18.0) // 60 * 60  # tachographs count whole minutes
        if crew.continuous_driving_s != minutes_s % 16_200:
            crew.continuous_driving_s = minutes_s % 16_200
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
            record = rng.choice(self._records)
            record.quality = rng.choice(BAD) if rng.random() < FAULTS_PER_TICK else "VALID"
            status.changed.append(unit[id(record)])

    def _find(self, path: str) -> Any:
        section, name = path.split(".")
        return getattr(getattr(self._status, section), name, None)

    def _gauge(self, path: str, signal: Signal) -> _Gauge:
        record = self._find(path)
        return _Gauge(self._unit[id(record)], record, signal.source, steps_of(path), signal.band)

    def _counter(self, path: str, source: Callable[[Drive], float]) -> _Gauge:
        record = self._find(path)
        return _Gauge(self._unit[id(record)], record, source, 1.0, 0.0)

    def _tyres(self) -> list[_Gauge]:
        """Return gauges for every wheel, each with its own offset."""
        axles = [*self._status.axles, *(a for t in self._status.trailers for a in t.axles)]
        found = []
        for wheel in (w for axle in axles for w in axle.wheels):
            offset = self._rng.uniform(-3.0, 3.0)
            if wheel.tyre_temperature_c is not None:
                found.append(self._wheel_gauge(wheel.tyre_temperature_c, 1.0, offset, 8.0))
            if wheel.tyre_pressure_kpa is not None:
                found.append(self._wheel_gauge(wheel.tyre_pressure_kpa, 2.2, 780.0 + 8.0 * offset, 1.0))
        return found

    def _wheel_gauge(self, record: Reading, factor: float, offset: float, steps: float) -> _Gauge:
        unit = self._unit[id(record)]
        return _Gauge(unit, record, lambda d: d.tyre_c * factor + offset, steps, 1.0)
