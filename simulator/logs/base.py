"""What a recorded drive is, and what every reader of logs promises; knows no file format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from simulator.logs.mapping import Mapping as LogMapping
from simulator.logs.signals import SIGNALS, BadValueError

# Thirty hours of a hundred vehicles, a row a second: more would not fit into the memory of each sender.
MOST_ROWS: Final = 10_000_000
LONGEST_NAME: Final = 64
LATEST_NS: Final = 2**62


@dataclass(frozen=True)
class Drive:
    """What one vehicle's log says, row by row.

    Attributes:
        vehicle: its name in the log.
        time_ns: int64, shape (rows,), from 0 at its own first row on, increasing.
        signals: path such as "motion.odometer_m" -> float64, shape (rows,), in the signal's own unit; NaN where the log
            says nothing. A flag is 0 or 1.
    """

    vehicle: str
    time_ns: npt.NDArray[np.int64]
    signals: Mapping[str, npt.NDArray[np.float64]]

    @property
    def length_ns(self) -> int:
        """Return the time from the first to the last row."""
        return int(self.time_ns[-1])

    def row_at(self, offset_ns: int) -> int:
        """Return the number of the newest row at this offset, the last one behind the end."""
        return int(np.searchsorted(self.time_ns, offset_ns, side="right")) - 1


@dataclass(frozen=True)
class LogReader:
    """One kind of log.

    Attributes:
        name: what it is called where kinds are listed.
        about: one line for people.
        suffix: how its files end.
        mapped: it needs a mapping, which says what its columns are; others know their signals.
        read: its drives in the order in which their vehicles appear, or a Refusal with file and line.
    """

    name: str
    about: str
    suffix: str
    mapped: bool
    read: Callable[[Path, LogMapping | None], tuple[Drive, ...]]


class Drives:
    """Takes rows in the order of the file and makes drives of them; refuses what is none.

    Args:
        path: of the log, for refusals.
        unit: what a place in it is called where it has no lines.
    """

    def __init__(self, path: Path, unit: str = "") -> None:
        self._path = path
        self._unit = unit
        self._times: dict[str, list[int]] = {}
        self._values: dict[str, dict[str, list[float]]] = {}
        self._rows = 0

    def refusal(self, place: int, reason: str) -> Refusal:
        """Return a refusal that says where."""
        where = f"{self._path}: {self._unit} {place}" if self._unit else f"{self._path}:{place}"
        return Refusal(f"{where}: {reason}")

    def add(self, place: int, vehicle: str, time_ns: int, values: Mapping[str, float]) -> None:
        """Take one row; what `values` lacks the log does not say there."""
        times = self._times.get(vehicle)
        if times is None:
            times = self._begin(place, vehicle)
        if not -LATEST_NS < time_ns < LATEST_NS:
            raise self.refusal(place, "its time is out of range")
        if times and time_ns <= times[-1]:
            raise self.refusal(
                place, f"the time of {vehicle!r} does not increase: {(times[-1] - time_ns) / 1e9:g} s back"
            )
        self._rows += 1
        if self._rows > MOST_ROWS:
            raise self.refusal(place, f"more than {MOST_ROWS:,} rows")
        columns = self._values[vehicle]
        for path, value in values.items():
            try:
                checked = SIGNALS[path].checked(value)
            except BadValueError as bad:
                raise self.refusal(place, f"{path}: {bad}") from None
            columns.setdefault(path, [float("nan")] * len(times)).append(checked)
        times.append(time_ns)
        for column in columns.values():
            if len(column) < len(times):
                column.append(float("nan"))

    def rows_of(self, vehicle: str) -> int:
        """Return how many rows of a vehicle were taken."""
        return len(self._times.get(vehicle, ()))

    def done(self) -> tuple[Drive, ...]:
        """Return the drives; Refusal where there is none, or one of a single row."""
        if not self._times:
            raise Refusal(f"{self._path}: no row of a vehicle")
        for vehicle, times in self._times.items():
            if len(times) < 2:
                raise Refusal(f"{self._path}: {vehicle!r} has one row, and a drive has two at least")
        return tuple(self._drive(vehicle) for vehicle in self._times)

    def _begin(self, place: int, vehicle: str) -> list[int]:
        if not 1 <= len(vehicle) <= LONGEST_NAME or not vehicle.isprintable():
            raise self.refusal(
                place, f"a vehicle's name has 1 to {LONGEST_NAME} printable characters: {vehicle[:80]!r}"
            )
        self._values[vehicle] = {}
        self._times[vehicle] = []
        return self._times[vehicle]

    def _drive(self, vehicle: str) -> Drive:
        times = np.array(self._times[vehicle], dtype=np.int64)
        signals = {path: np.array(column) for path, column in sorted(self._values[vehicle].items())}
        return Drive(vehicle, times - times[0], signals)


def digest(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
