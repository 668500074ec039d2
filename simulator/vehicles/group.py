"""Vehicles whose messages are made together: driven one by one, shown and encoded in columns.

Driving is a recurrence with draws of its own for each vehicle, so each tick of each vehicle is a step in Python. All that
follows from the drive's state then is columns: a row for each message of the block, a column for each number that moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schemas.formats.blocks import BlockLayout, Event, Path, Values
from schemas.messages import Lamp
from simulator.vehicles import gauges
from simulator.vehicles.chance import NEW_SKY, RADIO_MOVES, satellites_of
from simulator.vehicles.columns import (
    ACTIVATION_SCALARS,
    CAUSES,
    LAMP_STATE_SCALARS,
    LAMP_STATES,
    PATHS,
    QUALITIES,
    QUALITY_SCALARS,
    READINGS,
    SHAPE,
    TRENDS,
    WHEELS,
    path_of,
)
from simulator.vehicles.content import steps_of
from simulator.vehicles.drives import STATE, Drives, state_of
from simulator.vehicles.lamps import FOLLOWERS, switched
from simulator.vehicles.signals import (
    COUNTERS,
    FAST,
    FLAGS,
    SLOW,
    TYRE_PRESSURE,
    TYRE_WARMTH,
)
from simulator.vehicles.vehicle import Vehicle

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# From so many vehicles on, they are driven in columns; fewer are driven faster one by one.
_TOGETHER: Final = 12
_NOISY: Final = [k for k, signal in enumerate(FAST.values()) if signal.noise]
_PLACE: Final = [STATE.index("route.latitude_deg"), STATE.index("route.longitude_deg")]
# Behind the readings stand altitude, heading, ground speed and accuracy.
_HEADING: Final = len(READINGS) + 1
_NOISE: Final = np.array([signal.noise for signal in FAST.values() if signal.noise])
# What a tick leaves beside the drive: noise, satellites and accuracy, and the radio's four numbers.
_WIDTH: Final = len(_NOISY) + 6

_STEPS: Final = np.array([
    *(steps_of(path) for path in (*FAST, *SLOW)),
    *(gauges.WARMTH_STEPS, gauges.PRESSURE_STEPS) * len(WHEELS),
])[:, None]  # fmt: skip
_BANDS: Final = np.array([
    *(signal.band for signal in (*FAST.values(), *SLOW.values())),
    *(gauges.WARMTH_BAND, gauges.PRESSURE_BAND) * len(WHEELS),
])[:, None, None]  # fmt: skip
_SWITCHED: Final = frozenset(LAMP_STATE_SCALARS)
_TYRE_FACTORS: Final = np.array([TYRE_WARMTH, TYRE_PRESSURE] * len(WHEELS))[:, None]


class _Member:
    """What of a vehicle lives on between blocks and is not a column."""

    __slots__ = ("chance", "fast", "lamps", "noisy", "radio", "rest", "sky", "vehicle")

    def __init__(self, vehicle: Vehicle) -> None:
        status = vehicle.content
        self.vehicle = vehicle
        self.chance = vehicle.chance
        fitted = [k for k, path in enumerate(FAST) if gauges.record_at(status, path) is not None]
        self.fast = fitted
        noisy = [k for k, column in enumerate(_NOISY) if column in fitted]
        self.noisy = noisy if len(noisy) < len(_NOISY) else None
        self.sky = len(noisy)
        self.lamps: list[Lamp] = status.lamps
        self.radio = status.connectivity
        position, radio = status.position, status.connectivity
        assert position is not None
        self.rest = [float(position.satellites_used), position.horizontal_accuracy_m]
        self.rest += (0.0, 0.0, 0.0, 0.0) if radio is None else _of_radio(radio)


def _of_radio(radio: Any) -> tuple[float, ...]:
    return radio.rsrp_dbm, radio.rsrq_db, radio.sinr_db, radio.cell_id


def _turns(messages: dict[Path, Any]) -> list[list[int]]:
    """Return which slow readings have their turn, tick by tick until it begins anew: `SLOW_PER_TICK` columns each.

    The column behind the last stands for none.
    """
    found = [k for k, path in enumerate(READINGS[len(FAST) :]) if messages[path] is not None]
    none = len(READINGS) - len(FAST)
    turns, turn = [], 0
    while True:
        after = (turn + gauges.SLOW_PER_TICK) % max(len(found), 1)
        shown = found[turn : after or None]
        turns.append(shown + [none] * (gauges.SLOW_PER_TICK - len(shown)))
        turn = after
        if turn == 0:
            return turns


class VehicleGroup:
    """Up to so many vehicles, and their templates in one format."""

    def __init__(self, layout: BlockLayout, vehicles: int, epoch: int) -> None:
        self._templates = layout.templates(vehicles)
        self._epoch = epoch
        self._members: list[_Member] = []
        self._readings: Floats = np.zeros((len(READINGS), vehicles))
        self._trends: Numbers = np.zeros((len(READINGS), vehicles), dtype=np.int64)
        self._counters: Numbers = np.zeros((len(COUNTERS), vehicles), dtype=np.int64)
        self._flags: Numbers = np.zeros((len(FLAGS), vehicles), dtype=np.int64)
        self._offsets: Floats = np.zeros((len(_TYRE_FACTORS), vehicles))
        self._stub = np.zeros(vehicles, dtype=np.bool_)
        none = len(READINGS) - len(FAST)
        self._turns: Numbers = np.full((vehicles, none, gauges.SLOW_PER_TICK), none, dtype=np.int64)
        self._turns_of: Numbers = np.ones(vehicles, dtype=np.int64)
        self._turn: Numbers = np.zeros(vehicles, dtype=np.int64)
        self._offsets_ns: Numbers = np.full(vehicles, -1, dtype=np.int64)
        self._drives: Drives | None = None
        self._lit = np.zeros((len(FOLLOWERS), vehicles), dtype=np.bool_)
        self._has_lamps = np.zeros(vehicles, dtype=np.bool_)

    def add(self, vehicle: Vehicle) -> None:
        """Take one more vehicle, which from then on is driven here alone."""
        k = len(self._members)
        status = vehicle.status(1, self._epoch, 0, vehicle.cause)
        found = SHAPE.messages(status)
        self._templates.set(k, found)
        messages = dict(zip(PATHS, found, strict=True))
        for row, path in enumerate(READINGS):
            if messages[path] is not None:
                self._readings[row, k] = messages[path].value
                self._trends[row, k] = TRENDS[messages[path].trend]
        for row, name in enumerate(COUNTERS):
            record = messages[path_of(name)]
            self._counters[row, k] = 0 if record is None else record.value
        for row, name in enumerate(FLAGS):
            record = messages[path_of(name)]
            self._flags[row, k] = 0 if record is None else record.active
        self._offsets[:, k] = vehicle.tyre_offsets(len(WHEELS))
        self._stub[k] = vehicle.variant == "stub"
        self._has_lamps[k] = bool(status.lamps)
        if status.lamps:
            self._lit[:, k] = [status.lamps[lamp].state != "LAMP_OFF" for lamp, _, _ in FOLLOWERS]
        if not self._stub[k]:
            turns = _turns(messages)
            self._turns[k, : len(turns)], self._turns_of[k] = turns, len(turns)
        self._members.append(_Member(vehicle))
        vehicle.let_go()

    def block(
        self,
        members: Sequence[int],
        offsets_ns: Numbers,
        sequences: Numbers,
        start_at_ns: int,
        fixes: Floats | None = None,
    ) -> list[bytes]:
        """Return the payloads of a block, tick by tick, in each tick one for each of `members`.

        Args:
            members: which vehicles, in the order in which they were added, from 0.
            offsets_ns: when each of them is sampled, one row a tick; none is before those of the blocks before.
            sequences: of the messages, one row a tick.
            start_at_ns: the wall clock's nanoseconds that offset 0 stands for.
            fixes: where they are, if not on roads of their own: `Fix` by tick and member, NaN for those that are.
        """
        size, ticks = len(members), len(offsets_ns)
        numbers = np.asarray(members, dtype=np.intp)
        state = np.empty((len(STATE), ticks, size))
        rest = np.empty((ticks, size, _WIDTH))
        slow = np.zeros((len(READINGS) - len(FAST) + 1, ticks, size), dtype=np.bool_)
        events: list[Event] = []
        for tick in range(ticks):
            state[:, tick] = self._driven(numbers, offsets_ns[tick])
            rest[tick] = self._drawn(members, tick, events)
            slow[self._turns[numbers, self._turn[numbers]].T, tick, np.arange(size)] = True
            self._turn[numbers] = (self._turn[numbers] + 1) % self._turns_of[numbers]
        sampled_at_ms = (offsets_ns + start_at_ns) // 1_000_000
        rests = rest.reshape(-1, _WIDTH).T
        values = self._values(numbers, state, rests, slow[:-1], sequences, sampled_at_ms, events)
        if fixes is not None:
            _placed(values, fixes.reshape(-1, fixes.shape[-1]))
        return self._templates.payloads(members, values, sorted(events))

    def _driven(self, members: NDArray[np.intp], offsets_ns: Numbers) -> Floats:
        """Drive these vehicles to their offsets; return their state."""
        if self._drives is None and len(self._members) >= _TOGETHER:
            self._drives = Drives([member.vehicle.drive for member in self._members])
        if self._drives is None:
            vehicles = [self._members[k].vehicle for k in members]
            for vehicle, offset_ns in zip(vehicles, offsets_ns.tolist(), strict=True):
                vehicle.drive_to(offset_ns)
            return np.array([state_of(vehicle.drive) for vehicle in vehicles]).T
        before = self._offsets_ns[members]
        self._offsets_ns[members] = offsets_ns
        # The drive began before the run: there is nothing to catch up with at the first message.
        return self._drives.advance(members, np.where(before < 0, 0, offsets_ns - before))

    def _drawn(self, members: Sequence[int], tick: int, events: list[Event]) -> list[list[float]]:
        """Draw what comes of itself in a tick: return a row for each vehicle, and add what changes rarely."""
        rows = []
        for place, number in enumerate(members):
            member = self._members[number]
            chance = member.chance
            row = chance.first()
            sky = row[member.sky]
            satellites = satellites_of(sky) if sky < NEW_SKY else None
            if satellites is not None:
                member.rest[:2] = satellites, (24 - satellites) / 4.0
            if member.radio is not None and row[-1] < RADIO_MOVES:
                chance.move_radio()
                member.rest[2:] = _of_radio(member.radio)
            if member.noisy is None:
                del row[member.sky :]
            else:
                drawn, row = row, [0.5] * len(_NOISY)
                for k, draw in zip(member.noisy, drawn, strict=False):
                    row[k] = draw
            row += member.rest
            rows.append(row)
            fault, switch = chance.last()
            if fault is not None:
                scalar = QUALITY_SCALARS[member.fast[fault.reading]]
                events.append(Event(tick, place, scalar, QUALITIES[fault.quality]))
            if switch is not None:
                events += _switch(member.lamps, tick, place, switch.lamp, switch.colour)
        return rows

    def _values(  # noqa: PLR0917 - one call, all that a block has
        self,
        members: NDArray[np.intp],
        state: Floats,
        rest: Floats,
        shown: NDArray[np.bool_],
        sequences: Numbers,
        sampled_at_ms: Numbers,
        events: list[Event],
    ) -> Values:
        """Return the columns of a block; add the lamps that follow the drive to the events."""
        ticks, size = sampled_at_ms.shape
        of_row = np.tile(members, ticks)
        drives = _named(state.reshape(len(STATE), -1))
        readings, trends = self._shown(members, drives, rest[: len(_NOISY)], shown)
        rest = rest[len(_NOISY) :]
        switches = np.zeros((ticks, size), dtype=np.bool_)
        for event in events:
            switches[event.tick, event.member] |= event.scalar in _SWITCHED
        following = self._follow(members, drives, ticks, events)
        parked = self._stub[of_row]
        counters = np.array([source(drives) for source in COUNTERS.values()]).astype(np.int64)
        flags = np.array([holds(drives) for holds in FLAGS.values()]).astype(np.int64)
        counters[:, parked] = self._counters[:, of_row[parked]]
        flags[:, parked] = self._flags[:, of_row[parked]]
        causes = np.where(switches | following, CAUSES["LAMP_CHANGE"], CAUSES["PERIODIC"]).ravel()
        causes[parked] = CAUSES["IGNITION_ON"]
        sampled = sampled_at_ms.ravel()
        gears = drives.gear.astype(np.int64)
        whole = rest.astype(np.int64)
        integers = np.vstack((
            trends, counters, flags, sequences.ravel(), sampled, sampled - sampled % 200, causes, gears, gears,
            drives.driven_s.astype(np.int64) // 60 * 60, whole[0], whole[2:6],
        ))  # fmt: skip
        floats = np.vstack((
            readings,
            np.rint(drives.route.altitude_m * 8.0) / 8.0 + 0.0,
            np.rint(drives.route.heading_deg * 16.0) / 16.0 + 0.0,
            np.rint(drives.speed_mps * 57.6) / 16.0 + 0.0,
            rest[1],
        ))  # fmt: skip
        return Values(floats.T, _rounded(state.reshape(len(STATE), -1)[_PLACE]).T, integers.T)

    def _shown(
        self, members: NDArray[np.intp], drives: Any, noise: Floats, shown: NDArray[np.bool_]
    ) -> tuple[Floats, Numbers]:
        """Return the values and trends of all readings."""
        size, ticks, fast = len(members), shown.shape[1], len(FAST)
        sources = np.empty((len(READINGS), noise.shape[1]))
        for k, signal in enumerate((*FAST.values(), *SLOW.values())):
            sources[k] = signal.source(drives)
        sources[_NOISY] += (noise - 0.5) * _NOISE[:, None]
        tyres = drives.tyre_c * _TYRE_FACTORS
        sources[fast + len(SLOW) :] = tyres + np.tile(self._offsets[:, members], ticks)
        # Adding 0 makes -0 a 0, as Python's whole numbers are.
        values = (np.rint(sources * _STEPS) / _STEPS + 0.0).reshape(-1, ticks, size)
        before, trends_before = self._readings[:, members], self._trends[:, members]
        # A slow reading keeps value and trend until its turn.
        values[fast:] = _kept(before[fast:], values[fast:], shown)
        steps = values - _behind(before, values)[:, :-1]
        trends = (steps > _BANDS) * TRENDS["RISING"] + (steps < -_BANDS) * TRENDS["FALLING"]
        trends[fast:] = _kept(trends_before[fast:], trends[fast:], shown)
        self._readings[:, members], self._trends[:, members] = values[:, -1], trends[:, -1]
        return values.reshape(len(values), -1), trends.reshape(len(trends), -1)

    def _follow(
        self, members: NDArray[np.intp], drives: Any, ticks: int, events: list[Event]
    ) -> NDArray[np.bool_]:
        """Switch the lamps that follow the drive; return in which rows there are any."""
        lit = np.array([holds(drives) for _, _, holds in FOLLOWERS]).reshape(len(FOLLOWERS), ticks, -1)
        changed = lit != _behind(self._lit[:, members], lit)[:, :-1]
        changed &= self._has_lamps[members]
        self._lit[:, members] = lit[:, -1]
        found: NDArray[np.bool_] = changed.any(axis=0)
        if found.any():
            for tick, place, k in np.argwhere(changed.transpose(1, 2, 0)).tolist():
                lamp, colour, _ = FOLLOWERS[k]
                events += _switch(self._members[members[place]].lamps, tick, place, lamp, colour)
        return found


def _placed(values: Values, fixes: Floats) -> None:
    """Put vehicles where their traces were recorded, row by row; the drive has them elsewhere."""
    known = ~np.isnan(fixes[:, 0])
    values.doubles[known] = fixes[known, :2]
    values.floats[known, _HEADING : _HEADING + 2] = fixes[known, 2:]


def _rounded(degrees: Floats) -> Floats:
    """Return degrees as Python's `round` has them at six decimals: exactly, also where a product would hide a tie."""
    millionths = degrees * 1e6
    rounded = np.rint(millionths) / 1e6
    for k in np.argwhere(np.abs(np.abs(millionths - np.rint(millionths)) - 0.5) < 1e-3).tolist():
        rounded[*k] = round(float(degrees[*k]), 6)
    return rounded


def _named(state: Floats) -> Any:
    """Return columns of drives under the names that a drive has."""
    own = dict(zip(STATE, state, strict=True))
    route = SimpleNamespace(**{name[6:]: own.pop(name) for name in STATE if name.startswith("route.")})
    return SimpleNamespace(**own | {"hybrid": own["hybrid"] > 0.0}, route=route)


def _kept(before: Any, new: Any, shown: NDArray[np.bool_]) -> Any:
    """Return what is shown at each tick: the new where `shown`, else what was shown last."""
    ticks = shown.shape[1]
    if ticks == 1:
        return np.where(shown, new, before[:, None])
    # The tick that showed it last, counted from 1; 0 is before the first.
    latest = np.maximum.accumulate(np.where(shown, np.arange(1, ticks + 1)[:, None], 0), axis=1)
    return np.take_along_axis(_behind(before, new), latest, axis=1)


def _behind(first: Any, then: Any) -> Any:
    """Return one tick more: `first` before the ticks of `then`."""
    return np.concatenate((first[:, None], then), axis=1)


def _switch(lamps: list[Lamp], tick: int, place: int, lamp: int, colour: str) -> list[Event]:
    lamps[lamp] = now = switched(lamps[lamp], colour)
    return [
        Event(tick, place, LAMP_STATE_SCALARS[lamp], LAMP_STATES[now.state]),
        Event(tick, place, ACTIVATION_SCALARS[lamp], now.activations),
    ]
