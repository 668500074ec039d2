"""The messages that codecs are measured on: living vehicles at a few instants; draws nothing of its own.

The names of the figures that every engine of codecs has stand here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from schemas.messages import CurrentStatus
from simulator.fleet import plan
from simulator.scenario import Scenario
from simulator.vehicles.vehicle import Vehicle

MESSAGES: Final = 5_739  # as many as the paper measured
PER_VEHICLE: Final = 3
APART_NS: Final = 60_000_000_000
# A tenth of a message, of vehicles that have only switched the ignition on.
STUB: Final = "stub"
SIZE: Final = "payload_bytes_mean"
START_AT_NS: Final = 1_554_113_524_123_000_000  # 1 April 2019, the spring of the paper's drives


class Sample(NamedTuple):
    """One message of the corpus; `status` lives, and is valid until the next one is drawn."""

    variant: str
    status: CurrentStatus


def corpus(messages: int = MESSAGES, seed: int = 1) -> Iterator[Sample]:
    """Yield `messages` messages of a fleet of the default mix, three of each vehicle, a minute apart."""
    scenario = Scenario(vehicles=-(-messages // PER_VEHICLE), seed=seed)
    drawn = 0
    for number in range(1, scenario.vehicles + 1):
        p = plan(scenario, number)
        vehicle = Vehicle(number, p.variant, Random(f"{seed}/{number}/drive"))
        for k in range(min(PER_VEHICLE, messages - drawn)):
            at_ns = p.phase_ns + k * APART_NS
            vehicle.advance(at_ns)
            drawn += 1
            yield Sample(p.variant, vehicle.status(k + 1, 1, START_AT_NS + at_ns, vehicle.cause))


def driving(variant: str, seed: int | str, number: int = 7) -> Vehicle:
    """Return a vehicle that has driven for two minutes."""
    vehicle = Vehicle(number, variant, Random(seed))
    vehicle.advance(0)
    vehicle.advance(120_000_000_000)
    return vehicle


def status_of(variant: str, seed: int) -> CurrentStatus:
    """Return one message of a vehicle that has driven for two minutes."""
    vehicle = driving(variant, seed)
    return vehicle.status(3, 1, START_AT_NS, vehicle.cause)


def time_metric(operation: str) -> str:
    """Return the metric of an operation's time."""
    return f"{operation}_us"
