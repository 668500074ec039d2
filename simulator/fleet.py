"""The fleet: what is due and when, from a seed alone; knows no clock and opens nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from random import Random
from typing import NamedTuple

import simpy

from simulator.scenario import Scenario
from simulator.vehicle import Vehicle


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
    plans = sorted(_plans(scenario, vehicles), key=lambda p: (p.phase_ns, p.vehicle))
    for k in range(-(-scenario.duration_ns // scenario.interval_ns)):
        for p in plans:
            due_offset_ns = p.phase_ns + k * scenario.interval_ns
            if due_offset_ns < scenario.duration_ns:
                yield Due(due_offset_ns, p.vehicle, scenario.epoch, k + 1)


def emissions(
    scenario: Scenario, start_at_ns: int, vehicles: Iterable[int] | None = None
) -> Iterator[Emission]:
    """Yield every message in the order in which it is due.

    Args:
        scenario: the fleet.
        start_at_ns: the wall clock's nanoseconds that offset 0 stands for; sampled_at = start + offset.
        vehicles: the numbers of a shard; None for the whole fleet.
    """
    environment = simpy.Environment(initial_time=0)
    out: list[Emission] = []
    for p in _plans(scenario, vehicles):
        environment.process(_drive(environment, scenario, p, start_at_ns, out))
    while environment.peek() < scenario.duration_ns:
        environment.step()
        if out:
            yield out.pop()  # one step is one vehicle's: there is never more than one


def _plans(scenario: Scenario, vehicles: Iterable[int] | None) -> Iterator[Plan]:
    for vehicle in range(1, scenario.vehicles + 1) if vehicles is None else vehicles:
        yield plan(scenario, vehicle)


def _drive(
    environment: simpy.Environment, scenario: Scenario, p: Plan, start_at_ns: int, out: list[Emission]
) -> Generator[simpy.Event, None, None]:
    encode = scenario.payload_format.encode
    drive = Random(f"{scenario.seed}/{scenario.model_of(p.vehicle)}/drive")
    vehicle = Vehicle(p.vehicle, p.variant, drive)
    sequence = 0
    yield environment.timeout(p.phase_ns)
    while True:
        now: int = environment.now
        sequence += 1
        vehicle.advance(now)
        status = vehicle.status(sequence, scenario.epoch, start_at_ns + now, vehicle.cause)
        out.append(Emission(now, p.vehicle, scenario.epoch, sequence, encode(status)))
        yield environment.timeout(scenario.interval_ns)
