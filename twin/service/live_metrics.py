"""The run's live figures as run.metrics, run.emissions and run.link say them last; it only adds up."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from twin.service.record import BadRecord

FLEET: Final = "*"
KEPT_WINDOWS: Final = 120
KEPT_SECONDS: Final = 600
WAYS: Final = ("uplink", "downlink")
# Of what a run says of its senders and parts, in the records of run.emissions that are of no vehicle.
SOURCES: Final = {
    "offered": "fleet_offered",
    "emitted": "fleet_emitted",
    "emissionLagMaxMs": "fleet_emission_lag_max_ms",
}
CORES: Final = "cores_"
MAX_PARTS: Final = 64


class LinkUse:
    """Bytes that crossed a vehicle's link: the newest full second and the sum of all."""

    __slots__ = ("bytes", "second", "total")

    def __init__(self) -> None:
        self.second = -1
        self.bytes = 0
        self.total = 0

    def add(self, second: int, count: int) -> None:
        self.total += count
        if second > self.second:
            self.second, self.bytes = second, count
        elif second == self.second:
            self.bytes += count


class Conditions(NamedTuple):
    """What a vehicle's link was asked to give in a second: a rate of None is unlimited, of 0 an outage."""

    second: int
    uplink_bps: float | None
    downlink_bps: float | None
    rtt_ms: float
    uplink_loss_ratio: float
    downlink_loss_ratio: float


class VehicleFigures:
    """What is known of one vehicle beside its twin."""

    __slots__ = ("conditions", "emitted", "link", "refused", "run", "serial", "unsent", "window")

    def __init__(self) -> None:
        self.serial = 0
        self.emitted: int | None = None
        self.unsent = 0
        self.refused = 0
        self.conditions: Conditions | None = None
        self.run: dict[str, Any] | None = None
        self.window: dict[str, Any] | None = None
        self.link = {way: LinkUse() for way in WAYS}


class Figures:
    """Written by one thread, read by all; a vehicle's figures may come before its twin."""

    def __init__(self, max_vehicles: int) -> None:
        self._max_vehicles = max_vehicles
        self._vehicles: dict[str, VehicleFigures] = {}
        self._windows: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._seconds: OrderedDict[int, dict[str, int]] = OrderedDict()
        self._fleet_run: dict[str, Any] | None = None
        self._sources: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._serial = 0
        self.records = 0

    def take_metrics(self, value: bytes | None) -> None:
        """Take a record of run.metrics: one vehicle's or the fleet's, of a window or of the run so far."""
        row = _row(_said(value))
        with self._lock:
            self.records += 1
            start = row.get("window_start_s")
            # The fleet is "*"; a row without a vehicle is the fleet's, too.
            if row.get("vehicle_id") in (FLEET, None):
                self._take_fleet(start, row)
                return
            figures = self._of(row)
            if start is None:
                figures.run = row
            elif figures.window is None or start >= figures.window["window_start_s"]:
                figures.window = row

    def take_emissions(self, value: bytes | None) -> None:
        """Take a record of run.emissions: rows of what one vehicle emitted, could not send, or was refused, in one second.

        One that names no vehicle says what all senders have done so far, and how many cores each part uses.
        """
        _each(value, self._take_emitted)

    def _take_emitted(self, row: dict[str, Any]) -> None:
        sources = _sources(row) if "fleet_offered" in row else None
        with self._lock:
            if sources is not None:
                self.records += 1
                self._sources = sources
                return
            self.records += 1
            figures = self._of(row)
            figures.emitted = (figures.emitted or 0) + _count(row, "emitted")
            figures.unsent += _count(row, "unsent")
            figures.refused += _count(row, "refused")

    def take_link(self, value: bytes | None) -> None:
        """Take a record of run.link: rows of a vehicle's bytes in a second and direction, or of what its link is asked for."""
        _each(value, self._take_link)

    def _take_link(self, row: dict[str, Any]) -> None:
        if "rtt_ms" in row:
            self._take_conditions(row)
            return
        way, second, count = row.get("direction"), _count(row, "second"), _count(row, "wire_bytes")
        if way not in WAYS:
            raise BadRecord("bad_figure")
        with self._lock:
            self.records += 1
            self._of(row).link[way].add(second, count)
            sums = self._seconds.setdefault(second, dict.fromkeys(WAYS, 0))
            sums[way] += count
            while len(self._seconds) > KEPT_SECONDS:
                self._seconds.popitem(last=False)

    def _take_conditions(self, row: dict[str, Any]) -> None:
        found = Conditions(
            _count(row, "second"),
            _amount(row, "uplink_rate_bps"),
            _amount(row, "downlink_rate_bps"),
            _amount(row, "rtt_ms") or 0.0,
            _amount(row, "uplink_loss_ratio") or 0.0,
            _amount(row, "downlink_loss_ratio") or 0.0,
        )
        with self._lock:
            self.records += 1
            figures = self._of(row)
            if figures.conditions is None or found.second >= figures.conditions.second:
                figures.conditions = found

    def vehicle(self, vehicle_id: str) -> VehicleFigures | None:
        """Return what is known of a vehicle."""
        return self._vehicles.get(vehicle_id)

    def changes(self, since: int) -> tuple[list[tuple[str, VehicleFigures]], int]:
        """Return whose figures changed after change number `since`, and the number to ask from next time."""
        with self._lock:
            found = [(name, figures) for name, figures in self._vehicles.items() if figures.serial > since]
            return found, self._serial

    def fleet(self, windows: int = KEPT_WINDOWS, seconds: int = KEPT_SECONDS) -> dict[str, Any]:
        """Return the fleet's figures: of the run, its senders and parts, the last windows, the last seconds of the link."""
        with self._lock:
            # The newest second is still being filled.
            full = sorted(self._seconds)[:-1][-seconds:]
            link = [{"second": second, **self._seconds[second]} for second in full]
            shown = [self._windows[start] for start in sorted(self._windows)[-windows:]]
            return {"run": self._fleet_run, "sources": self._sources, "windows": shown, "link": link}

    def _take_fleet(self, start: Any, row: dict[str, Any]) -> None:
        if start is None:
            self._fleet_run = row
            return
        if not isinstance(start, int):
            raise BadRecord("bad_figure")
        self._windows[start] = row
        while len(self._windows) > KEPT_WINDOWS:
            self._windows.popitem(last=False)

    def _of(self, row: dict[str, Any]) -> VehicleFigures:
        name = row.get("vehicle_id")
        if not isinstance(name, str) or len(name) > 32:
            raise BadRecord("bad_figure")
        figures = self._vehicles.get(name)
        if figures is None:
            if len(self._vehicles) >= self._max_vehicles:
                raise BadRecord("too_many_vehicles")
            figures = self._vehicles[name] = VehicleFigures()
        self._serial += 1
        figures.serial = self._serial
        return figures


def _said(value: bytes | None) -> Any:
    try:
        return orjson.loads(value or b"")
    except ValueError as error:
        raise BadRecord("bad_figure") from error


def _each(value: bytes | None, take: Callable[[dict[str, Any]], None]) -> None:
    """Take the rows of a record, or the one that it is; BadRecord of the first that is none, once the others are taken."""
    said = _said(value)
    first: BadRecord | None = None
    for row in said if said and isinstance(said, list) else (said,):
        try:
            take(_row(row))
        except BadRecord as bad:
            first = first or bad
    if first is not None:
        raise first


def _row(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row.get("window_start_s", 0), int | None):
        raise BadRecord("bad_figure")
    if any(isinstance(figure, dict | list) for figure in row.values()):
        raise BadRecord("bad_figure")  # it is passed on to readers, who ask for figures
    return row


def _sources(row: dict[str, Any]) -> dict[str, Any]:
    named = [name for name in row if name.startswith(CORES)]
    if len(named) > MAX_PARTS:
        raise BadRecord("bad_figure")
    cores = {name.removeprefix(CORES): _amount(row, name) for name in named}
    return {**{name: _amount(row, of_record) for name, of_record in SOURCES.items()}, "cores": cores}


def _count(row: dict[str, Any], name: str) -> int:
    value = row.get(name, 0)
    if not isinstance(value, int) or abs(value) > 2**53:
        raise BadRecord("bad_figure")
    return value


def _amount(row: dict[str, Any], name: str) -> float | None:
    """Return a figure that is finite and not below 0; None where the record says null."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise BadRecord("bad_figure")
    return float(value)
