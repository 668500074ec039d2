"""The fleet: what is due and when, from a seed alone; knows no clock and opens nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from schemas.formats.blocks import BlockLayout
from schemas.messages import CurrentStatus, Document, Header
from schemas.topics import vehicle_id
from simulator.logs import Drive, read_log
from simulator.roads import Road, Roads
from simulator.scenario import Scenario
from simulator.traces.recipes import trace_named
from simulator.traces.track import Fix
from simulator.vehicles.columns import layout_of
from simulator.vehicles.group import VehicleGroup
from simulator.vehicles.logged import LoggedVehicle
from simulator.vehicles.vehicle import Vehicle

# An operation on a column of so many numbers costs little a number, and a block some milliseconds (`sender` begins none
# when a message is due before it would be done).
BLOCK_MESSAGES: Final = 128


class Emission(NamedTuple):
    """One message that is due, `due_offset_ns` after the start of the run."""

    due_offset_ns: int
    vehicle: int
    epoch: int
    sequence: int
    payload: bytes


class Due(NamedTuple):
    """An emission without its payload."""

    due_offset_ns: int
    vehicle: int
    epoch: int
    sequence: int


class Plan(NamedTuple):
    """What is drawn for a vehicle before it drives; depends on the seed and its own number alone."""

    vehicle: int
    variant: str
    phase_ns: int


def plan(scenario: Scenario, vehicle: int) -> Plan:
    """Return the vehicle's kind and the offset of its first message, spread over one interval."""
    draw = Random(f"{scenario.seed}/{scenario.model_of(vehicle)}/plan")
    mix = scenario.mix.model_dump()
    (variant,) = draw.choices(list(mix), list(mix.values()))
    return Plan(vehicle, variant, draw.randrange(scenario.interval_ns))


def schedule(scenario: Scenario, vehicles: Iterable[int] | None = None) -> Iterator[Due]:
    """Yield what `emissions` yields, in the same order, without payloads.

    Args:
        scenario: the fleet.
        vehicles: the numbers of a shard; None for the whole fleet.
    """
    return (Due(*row) for row in due_table(scenario, vehicles).tolist())


def due_table(scenario: Scenario, vehicles: Iterable[int] | None = None) -> NDArray[np.int64]:
    """Return `schedule` as an array of its rows: due_offset_ns, vehicle, epoch, sequence."""
    plans = sorted(_plans(scenario, vehicles), key=lambda p: (p.phase_ns, p.vehicle))
    phases_ns = np.array([p.phase_ns for p in plans], np.int64)
    rounds = -(-scenario.duration_ns // scenario.interval_ns)
    # A row a round, in which each vehicle's turn comes once.
    offsets_ns = phases_ns + scenario.interval_ns * np.arange(rounds).reshape(-1, 1)
    numbers = np.broadcast_to(np.array([p.vehicle for p in plans], np.int64), offsets_ns.shape)
    sent = (offsets_ns < scenario.duration_ns) & scenario.sending(numbers, offsets_ns)
    sequences = np.cumsum(sent, axis=0)
    columns = (offsets_ns, numbers, np.broadcast_to(scenario.epoch, offsets_ns.shape), sequences)
    return np.stack([column[sent] for column in columns], axis=1).astype(np.int64, copy=False)


def messages_due(scenario: Scenario, vehicles: Iterable[int] | None = None) -> int:
    """Return how many messages `schedule` yields."""
    if scenario.stages:
        return len(due_table(scenario, vehicles))
    return sum(
        -(-(scenario.duration_ns - p.phase_ns) // scenario.interval_ns)
        for p in _plans(scenario, vehicles)
        if p.phase_ns < scenario.duration_ns
    )


def drives_of(scenario: Scenario) -> tuple[Drive, ...]:
    """Return the recorded drives that the fleet has, none where vehicles make up their own; Refusal for a bad log."""
    if scenario.vehicle_log is None:
        return ()
    mapping = scenario.vehicle_mapping
    return read_log(Path(scenario.vehicle_log), None if mapping is None else Path(mapping)).drives


def roads_of(scenario: Scenario) -> Roads:
    """Return where the vehicles are by their traces; Refusal for a bad trace."""
    traces = [trace_named(name) for name in scenario.traces]
    return Roads(traces, scenario.seed, offsets=scenario.trace_offsets)


def emissions(
    scenario: Scenario, start_at_ns: int, vehicles: Iterable[int] | None = None
) -> Iterator[Emission]:
    """Yield every message in the order in which it is due.

    Args:
        scenario: the fleet.
        start_at_ns: the wall clock's nanoseconds that offset 0 stands for; sampled_at = start + offset.
        vehicles: the numbers of a shard; None for the whole fleet.
    """
    yield from Fleet(scenario, vehicles).emissions(start_at_ns)


class Fleet:
    """The vehicles of a scenario, or of a shard of it, which can be built before the clock starts.

    A vehicle takes some milliseconds to build, with its first status or its template. A fleet of thousands that began
    with that would be seconds late before its first message.

    Where the format allows it, payloads are made in blocks of about `BLOCK_MESSAGES`: one message each of so many
    vehicles whose first messages follow one another, or several of each in a small fleet. What waits for its time is at
    most a block of each of two convoys, or where stages let vehicles begin one after another, a message of each vehicle.
    """

    def __init__(self, scenario: Scenario, vehicles: Iterable[int] | None = None) -> None:
        self._scenario = scenario
        self._plans = list(_plans(scenario, vehicles))
        self._made: dict[int, _Headed | _Single | _Member | _Logged] = {}
        self._convoys: list[_Convoy] = []
        self._drives = drives_of(scenario)
        self._roads = roads_of(scenario)
        self._layout = None if self._drives else layout_of(scenario.payload_format)

    def build(self) -> Iterator[None]:
        """Build the vehicles, one at each step; go on where the last call stopped."""
        if self._layout is None:
            header_only = self._scenario.payload_format.header_only
            for p in self._plans[len(self._made) :]:
                self._made[p.vehicle] = self._alone(p, header_only=header_only)
                yield
            return
        # Neighbours in time: when the first of a convoy needs a message, all of them have sent theirs.
        plans = sorted(self._plans, key=lambda p: (p.phase_ns, p.vehicle))
        number = -(-len(plans) // BLOCK_MESSAGES)
        for k in range(number):
            own = plans[len(plans) * k // number : len(plans) * (k + 1) // number]
            if k == len(self._convoys):
                self._convoys.append(_Convoy(self._scenario, self._layout, own, self._roads))
            convoy = self._convoys[k]
            for p in own[len(convoy.members) :]:
                self._made[p.vehicle] = convoy.add(self._vehicle(p))
                yield

    def emissions(self, start_at_ns: int) -> Iterator[Emission]:
        """Yield every message in the order in which it is due; once only, since the vehicles drive on.

        Args:
            start_at_ns: the wall clock's nanoseconds that offset 0 stands for; sampled_at = start + offset.
        """
        for _ in self.build():
            pass
        scenario = self._scenario
        environment = simpy.Environment(initial_time=0)
        out: list[Emission] = []
        for p in self._plans:
            payloads = self._made[p.vehicle].payloads(start_at_ns)
            environment.process(_drive(environment, scenario, p, payloads, out))
        duration_ns = scenario.duration_ns
        while environment.peek() < duration_ns:
            environment.step()
            if out:
                yield out.pop()  # one step is one vehicle's: there is never more than one

    def ready(self) -> int:
        """Return how many payloads are made and wait for their time."""
        return sum(len(ready) for convoy in self._convoys for ready in convoy.ready)

    def _alone(self, p: Plan, *, header_only: bool) -> _Headed | _Single | _Logged:
        if header_only:
            return _Headed(self._scenario, p)
        if self._drives:
            own = self._drives[(self._scenario.model_of(p.vehicle) - 1) % len(self._drives)]
            return _Logged(self._scenario, p, LoggedVehicle(p.vehicle, own))
        return _Single(self._scenario, p, self._vehicle(p), self._roads.of(p.vehicle))

    def _vehicle(self, p: Plan) -> Vehicle:
        model = self._scenario.model_of(p.vehicle)
        return Vehicle(p.vehicle, p.variant, Random(f"{self._scenario.seed}/{model}/drive"))


class _Headed:
    """A vehicle in a format that has no more of it than a header: it need not drive."""

    def __init__(self, scenario: Scenario, p: Plan) -> None:
        self._scenario = scenario
        self._plan = p

    def payloads(self, start_at_ns: int) -> Iterator[bytes]:
        """Yield the vehicle's payloads."""
        encode = self._scenario.payload_format.encode
        header = Header(
            vehicle_id=vehicle_id(self._plan.vehicle), schema_version=1, epoch=self._scenario.epoch
        )
        status = CurrentStatus.of(Document(header=header))
        for sequence, offset_ns in enumerate(_offsets(self._scenario, self._plan), 1):
            header.sequence_number, header.sampled_at_ms = sequence, (start_at_ns + offset_ns) // 1_000_000
            yield encode(status)


class _Single:
    """A vehicle whose payloads are made one by one, each when it is asked for."""

    def __init__(self, scenario: Scenario, p: Plan, vehicle: Vehicle, road: Road | None) -> None:
        self._scenario = scenario
        self._plan = p
        self._road = road
        self._encode = scenario.payload_format.encode
        self._vehicle = vehicle
        self._encode(vehicle.status(1, scenario.epoch, 0, vehicle.cause))

    def payloads(self, start_at_ns: int) -> Iterator[bytes]:
        """Yield the vehicle's payloads."""
        vehicle, epoch, encode = self._vehicle, self._scenario.epoch, self._encode
        for sequence, offset_ns in enumerate(_offsets(self._scenario, self._plan), 1):
            vehicle.advance(offset_ns)
            status = vehicle.status(sequence, epoch, start_at_ns + offset_ns, vehicle.cause)
            if self._road is not None and status.position is not None:
                self._road.place(status.position, offset_ns)
            yield encode(status)


class _Logged(NamedTuple):
    """A vehicle on a recorded drive."""

    scenario: Scenario
    plan: Plan
    vehicle: LoggedVehicle

    def payloads(self, start_at_ns: int) -> Iterator[bytes]:
        """Yield the vehicle's payloads."""
        encode, epoch = self.scenario.payload_format.encode, self.scenario.epoch
        for sequence, offset_ns in enumerate(_offsets(self.scenario, self.plan), 1):
            yield encode(self.vehicle.status(sequence, epoch, offset_ns, start_at_ns))


class _Member(NamedTuple):
    """A vehicle whose payloads are made in blocks, with others'."""

    convoy: _Convoy
    place: int

    def payloads(self, start_at_ns: int) -> Iterator[bytes]:
        """Yield the vehicle's payloads; a block of all that have none ready is made when it has none."""
        ready = self.convoy.ready[self.place]
        while True:
            if not ready:
                self.convoy.make(start_at_ns)
            yield ready.popleft()


class _Convoy:
    """Vehicles whose payloads are made in blocks, and those that are ready, vehicle by vehicle."""

    def __init__(self, scenario: Scenario, layout: BlockLayout, plans: list[Plan], roads: Roads) -> None:
        self._group = VehicleGroup(layout, len(plans), scenario.epoch)
        self._roads = [roads.of(p.vehicle) for p in plans]
        self._due = [_offsets(scenario, p) for p in plans]
        self._sequences = np.zeros(len(plans), dtype=np.int64)
        self._ticks = max(1, round(BLOCK_MESSAGES / len(plans)))
        self.members: list[_Member] = []
        self.ready: list[deque[bytes]] = [deque() for _ in plans]

    def add(self, vehicle: Vehicle) -> _Member:
        """Take one more vehicle, in the order of the plans."""
        self._group.add(vehicle)
        self.members.append(_Member(self, len(self.members)))
        return self.members[-1]

    def make(self, start_at_ns: int) -> None:
        """Make a block of those that have nothing ready and something coming."""
        coming = [
            (k, list(islice(self._due[k], self._ticks))) for k, ready in enumerate(self.ready) if not ready
        ]
        coming = [(k, offsets) for k, offsets in coming if offsets]
        members = [k for k, _ in coming]
        ticks = max(len(offsets) for _, offsets in coming)
        # Who has fewer messages left stays where it is for the rest of the block, whose payloads nobody asks for.
        rows = [offsets + offsets[-1:] * (ticks - len(offsets)) for _, offsets in coming]
        sequences = self._sequences[members] + np.arange(1, ticks + 1)[:, None]
        self._sequences[members] += ticks
        offsets_ns = np.array(rows, dtype=np.int64).T
        fixes = self._fixes(members, offsets_ns)
        payloads = self._group.block(members, offsets_ns, sequences, start_at_ns, fixes)
        for place, (k, offsets) in enumerate(coming):
            self.ready[k].extend(payloads[place :: len(members)][: len(offsets)])

    def _fixes(self, members: list[int], offsets_ns: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return by tick and member where they are by their traces, NaN for whom none says it; None: for nobody."""
        if not any(self._roads):
            return None
        fixes = np.full((*offsets_ns.shape, len(Fix._fields)), np.nan)
        for place, k in enumerate(members):
            if (road := self._roads[k]) is not None:
                fixes[:, place] = road.rows(offsets_ns[:, place])
        return fixes


def _offsets(scenario: Scenario, p: Plan) -> Iterator[int]:
    """Yield when a vehicle's messages are due."""
    for offset_ns in range(p.phase_ns, scenario.duration_ns, scenario.interval_ns):
        if scenario.sends(p.vehicle, offset_ns):
            yield offset_ns


def _plans(scenario: Scenario, vehicles: Iterable[int] | None) -> Iterator[Plan]:
    for vehicle in range(1, scenario.vehicles + 1) if vehicles is None else vehicles:
        yield plan(scenario, vehicle)


def _drive(
    environment: simpy.Environment,
    scenario: Scenario,
    p: Plan,
    payloads: Iterator[bytes],
    out: list[Emission],
) -> Generator[simpy.Event, None, None]:
    vehicle, epoch, interval_ns = p.vehicle, scenario.epoch, scenario.interval_ns
    now, sequence, always = p.phase_ns, 0, not scenario.stages
    yield environment.timeout(now)
    while True:
        if always or scenario.sends(vehicle, now):
            sequence += 1
            out.append(Emission(now, vehicle, epoch, sequence, next(payloads)))
        yield environment.timeout(interval_ns)
        now += interval_ns
