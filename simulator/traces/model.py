"""What a trace is in memory: columns over time and a header; it reads no file and repairs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from simulator.traces.layers import frame_factor

Floats = npt.NDArray[np.float64]

RATE_COLUMNS = ("uplink_kbps", "downlink_kbps")
COLUMNS = (*RATE_COLUMNS, "rtt_ms", "loss_ratio")
# Where the drive went; a link asks nothing of it, vehicles are where their trace was recorded.
PLACE_COLUMNS = ("latitude_deg", "longitude_deg")
# Above these a column is surely in another unit: 10 Gbit/s, 10 minutes, all.
CEILINGS = {"uplink_kbps": 1e7, "downlink_kbps": 1e7, "rtt_ms": 6e5, "loss_ratio": 1.0}
CEILINGS |= {"latitude_deg": 90.0, "longitude_deg": 180.0}
_BOUNDED_BY_UNIT = (*RATE_COLUMNS, "rtt_ms")
FLOORS = dict.fromkeys(COLUMNS, 0.0) | {name: -CEILINGS[name] for name in PLACE_COLUMNS}
# The link was kept full; what the traffic of the day was; what a sender offered, which a link that lost none carried.
RATE_MEANINGS = ("capacity", "as_logged", "offered")
# Key of the header; with _uplink_kbps or _downlink_kbps behind it where the two differ.
RATE_LAYER = "rate_layer"


class Step(NamedTuple):
    """The link during one step; None where the trace says nothing of that column."""

    uplink_kbps: float | None
    downlink_kbps: float | None
    rtt_ms: float | None
    loss_ratio: float | None


def each_way(round_trip_loss: Floats) -> Floats:
    """Return the loss ratio of each direction from that of round trips, where nobody knows which way was lost.

    A link applies a trace's loss to both directions, so that (1 - p)^2 of round trips come back: p = 1 - sqrt(1 - L).
    """
    return np.asarray(1.0 - np.sqrt(1.0 - np.asarray(round_trip_loss, dtype=np.float64)), dtype=np.float64)


def of_round_trips(loss_each_way: Floats) -> Floats:
    """Return the loss ratio of round trips over a link that loses so much in each direction."""
    return np.asarray(1.0 - (1.0 - np.asarray(loss_each_way, dtype=np.float64)) ** 2, dtype=np.float64)


@dataclass(frozen=True)
class Trace:
    """A recorded or generated drive: step `i` holds from `time_s[i]` until the next step.

    All arrays have one shape (n,); rates in kbit/s (1,000 bit/s; 0 is an outage), RTT in ms, loss as a
    ratio in [0, 1]; degrees north and east of where it was recorded, both or neither. Nothing is NaN: a reader that
    meets a hole states its policy before it comes here. `last_step_s` is how long the last step lasts.

    Raises:
        Refusal: the columns break one of these promises; the line names `source`.
    """

    time_s: Floats
    uplink_kbps: Floats | None = None
    downlink_kbps: Floats | None = None
    rtt_ms: Floats | None = None
    loss_ratio: Floats | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    last_step_s: float = 1.0
    source: str = "trace"
    latitude_deg: Floats | None = None
    longitude_deg: Floats | None = None

    def __post_init__(self) -> None:
        if len(self.time_s) == 0:
            raise Refusal(f"{self.source}: no data rows")
        if not self.columns():
            raise Refusal(f"{self.source}: none of the columns {', '.join(COLUMNS)}")
        if len(self.places()) == 1:
            raise Refusal(f"{self.source}: {' without '.join(_one_and_other(self.places()))}")
        problem = first_problem(self.time_s, self.all_columns())
        if problem is not None:
            row, reason = problem
            raise Refusal(f"{self.source}: data row {row + 1}: {reason}")
        if not self.last_step_s > 0:
            raise Refusal(f"{self.source}: last step of {self.last_step_s} s, must be above 0")

    def columns(self) -> dict[str, Floats]:
        """The columns this trace has, in the order of the schema."""
        return self._present(COLUMNS)

    def places(self) -> dict[str, Floats]:
        """Where it was recorded, by PLACE_COLUMNS; nothing where it does not say so."""
        return self._present(PLACE_COLUMNS)

    def all_columns(self) -> dict[str, Floats]:
        """The columns of the link, then those of places, as a file has them."""
        return self.columns() | self.places()

    def _present(self, names: tuple[str, ...]) -> dict[str, Floats]:
        present = {name: getattr(self, name) for name in names}
        return {name: values for name, values in present.items() if values is not None}

    def rate_layer(self, column: str) -> str | None:
        """What a rate column counts (a key of RATE_LAYERS), as the header says; None where it is not stated."""
        return self.header.get(f"{RATE_LAYER}_{column}", self.header.get(RATE_LAYER))

    @property
    def unlimited(self) -> list[str]:
        """The directions, "uplink" and "downlink", whose rate the trace says nothing of: a link does not limit them."""
        present = self.columns()
        return [name.removesuffix("_kbps") for name in RATE_COLUMNS if name not in present]

    def in_frames(self) -> Trace:
        """This trace with its rates in bits of Ethernet frames, which is what a link's rate counts."""
        if all(self._frame_factor(name) == 1.0 for name in RATE_COLUMNS):
            return self
        said = {key: value for key, value in self.header.items() if not key.startswith(RATE_LAYER)}
        return replace(
            self,
            uplink_kbps=self._frames("uplink_kbps"),
            downlink_kbps=self._frames("downlink_kbps"),
            header={**said, RATE_LAYER: "ethernet"},
        )

    def _frame_factor(self, column: str) -> float:
        return frame_factor(self.rate_layer(column)) if column in self.columns() else 1.0

    def _frames(self, column: str) -> Floats | None:
        values = self.columns().get(column)
        return None if values is None else values * self._frame_factor(column)

    @property
    def duration_s(self) -> float:
        """From 0 to the end of the last step; afterwards the trace starts again."""
        return float(self.time_s[-1]) + self.last_step_s

    def index_at(self, second: float, offset_s: float = 0.0) -> int:
        """Number of the step in force; wraps around after `duration_s`."""
        return int(self.indices_at(np.array(second + offset_s)))

    def indices_at(self, seconds: Floats) -> npt.NDArray[np.int64]:
        """Return the index of the step at each of these seconds from the trace's beginning on, of any shape."""
        return np.searchsorted(self.time_s, seconds % self.duration_s, side="right").astype(np.int64) - 1

    def step(self, index: int) -> Step:
        """The step of that index."""
        return Step(
            *(None if (values := getattr(self, name)) is None else float(values[index]) for name in COLUMNS)
        )

    def step_at(self, second: float, offset_s: float = 0.0) -> Step:
        """The step `second` s after the start of a vehicle that entered the trace at `offset_s`.

        A run longer than the trace meets it again from its first step (wrap-around).
        """
        return self.step(self.index_at(second, offset_s))


def _one_and_other(places: Mapping[str, Floats]) -> list[str]:
    return sorted(PLACE_COLUMNS, key=lambda name: name not in places)


def first_problem(time_s: Floats, columns: Mapping[str, Floats]) -> tuple[int, str] | None:
    """The first row that a link could not replay, with the reason; None when all are good."""
    found = list(_time_problems(time_s))
    for name, values in columns.items():
        if len(values) != len(time_s):
            return min(len(values), len(time_s)), f"{name} has {len(values)} values for {len(time_s)} times"
        found += _value_problems(name, values)
    return min(found, default=None)


def _time_problems(time_s: Floats) -> list[tuple[int, str]]:
    bad = np.flatnonzero(~np.isfinite(time_s))
    if len(bad):
        return [(int(bad[0]), "time_s is not a finite number")]
    if time_s[0] != 0:
        return [(0, f"time_s starts at {time_s[0]:g}, must be 0")]
    back = np.flatnonzero(np.diff(time_s) <= 0)
    if len(back):
        row = int(back[0]) + 1
        return [(row, f"time_s goes from {time_s[row - 1]:g} to {time_s[row]:g}, must increase")]
    return []


def allowed(column: str) -> str:
    """Say what values a column may have, with its unit."""
    return f"{FLOORS[column]:g} to {CEILINGS[column]:g} (unit: {column.rpartition('_')[2]})"


def out_of_range(column: str, value: float) -> bool:
    """Return whether there is no such value in any unit: a negative rate, a loss above all, a place not on Earth."""
    return value < FLOORS[column] or (column not in _BOUNDED_BY_UNIT and value > CEILINGS[column])


def _value_problems(name: str, values: Floats) -> list[tuple[int, str]]:
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= FLOORS[name]) & (values <= CEILINGS[name])))
    if not len(bad):
        return []
    reason = f"{name} is {values[bad[0]]:g}, must be {allowed(name)}"
    return [(int(bad[0]), reason)]
