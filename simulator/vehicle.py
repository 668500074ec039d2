"""One vehicle that drives: a status that changes in place from tick to tick; knows no clock."""

from __future__ import annotations

from random import Random

from schemas.messages import CurrentStatus
from schemas.topics import vehicle_id


class Vehicle:
    """A thin first vehicle: speed and place; the rest follows."""

    def __init__(self, number: int, variant: str, rng: Random) -> None:
        self.variant = variant
        self.cause = "PERIODIC"
        self._rng = rng
        self._offset_ns = 0
        self._speed_kmh = rng.uniform(0.0, 80.0)
        self._status = CurrentStatus()
        self._status.header.vehicle_id = vehicle_id(number)
        self._status.header.schema_version = 1
        self._status.position.latitude_deg = 58.4 + rng.uniform(-0.3, 0.3)
        self._status.position.longitude_deg = 15.6 + rng.uniform(-0.3, 0.3)
        for lamp in range(1, 61):
            self._status.lamps.add().lamp = lamp

    def advance(self, to_offset_ns: int) -> None:
        """Drive on until `to_offset_ns` nanoseconds after the start."""
        elapsed_s = (to_offset_ns - self._offset_ns) / 1e9
        self._offset_ns = to_offset_ns
        self._speed_kmh = min(max(self._speed_kmh + self._rng.gauss(0.0, 2.0), 0.0), 90.0)
        self._status.position.latitude_deg += self._speed_kmh / 3.6 * elapsed_s / 111_320.0
        self._status.motion.wheel_speed_average_kmh.value = self._speed_kmh

    def status(self, sequence: int, epoch: int, sampled_at_ns: int, cause: str) -> CurrentStatus:
        """Return the living status: changed in place, valid until the next call."""
        header = self._status.header
        header.sequence_number, header.epoch, header.sampled_at_ms = (
            sequence,
            epoch,
            sampled_at_ns // 1_000_000,
        )
        header.cause = cause  # type: ignore[assignment]
        return self._status
