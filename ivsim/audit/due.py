"""What was due in a run, from its seed alone: the fleet's schedule, made a second time from its definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from random import Random
from typing import Final, NamedTuple

from ivsim.audit.result import Terms

# Shares of the four kinds of vehicle; the kind is the first draw of a vehicle's stream, the phase the second.
_KINDS: Final = (("rigid", 0.38), ("trailer", 0.37), ("hybrid", 0.23), ("stub", 0.02))
EPOCH: Final = 1


class Key(NamedTuple):
    """A message by its name, the same at every hop."""

    vehicle_id: str
    epoch: int
    sequence: int


def vehicle_name(number: int) -> str:
    """Return the 17 characters that name a vehicle."""
    return f"YV2RT40A8KB{number:06d}"


def end_name(number: int) -> str | None:
    """Return who is at the vehicles' end of a link, by the low 16 bits of the address: a vehicle, a gateway or nobody."""
    if 1 <= number <= 65_000:
        return vehicle_name(number)
    # 198.18.255.1 is the first of 64 gateways.
    return f"gateway-{number - 65_281}" if 65_281 <= number <= 65_344 else None


def due_of(terms: Terms, numbers: Iterable[int] | None = None) -> dict[Key, int]:
    """Return due_at_ns of every message that the run, or some of its vehicles, were to send.

    Vehicle `v` is first due at a phase, drawn evenly from one interval by the stream "SEED/V/plan", then each interval
    until the duration is over. Sequences count from 1. In a stage a vehicle is due only while its number is not above how
    many send at that moment, which grows evenly from the stage's begin to its end.
    """
    found = {}
    for vehicle in terms.numbers if numbers is None else numbers:
        stream = Random(f"{terms.seed}/{vehicle}/plan")
        stream.choices([kind for kind, _ in _KINDS], [share for _, share in _KINDS])
        offset_ns, sequence = stream.randrange(terms.interval_ns), 1
        while offset_ns < terms.duration_ns:
            if _sends(vehicle, offset_ns, terms.stages):
                found[Key(vehicle_name(vehicle), EPOCH, sequence)] = terms.start_at_ns + offset_ns
                sequence += 1
            offset_ns += terms.interval_ns
    return found


def _sends(vehicle: int, offset_ns: int, stages: Sequence[tuple[float, int, int]]) -> bool:
    begin_ns = 0
    for length_s, begin, end in stages:
        length_ns = round(length_s * 1e9)
        if offset_ns < begin_ns + length_ns:
            return Fraction(vehicle) <= begin + Fraction((end - begin) * (offset_ns - begin_ns), length_ns)
        begin_ns += length_ns
    return not stages
