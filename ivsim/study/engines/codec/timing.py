"""Encode and decode times, every format in turn so that a slow moment hits all; no opinion on the figures."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from ivsim.study.corpus import START_AT_NS, driving
from schemas.formats import FORMATS
from schemas.formats.flatbuffers import FlatBuffers
from schemas.messages import CurrentStatus
from simulator.scenario import VariantMix

OPERATIONS: Final = {
    "build_encode": "from typed records to bytes, nothing kept from before",
    "tick_encode": "from a living status, about 30 values of which have just changed, to bytes",
    "encode": "from a living status in which nothing changed: serialise what is built",
    "decode": "what the format's decode promises",
    "decode_all": "decode, and every section made into records",
    "three_fields": "speed, engine speed and odometer alone: FlatBuffers in place, the others after decode",
    "peek": "sequence, epoch, time and vehicle id",
}
THREE: Final = (
    ("motion", "wheel_speed_average_kmh"),
    ("combustion", "engine_speed_rpm"),
    ("motion", "odometer_m"),
)
VARIANTS: Final = tuple(VariantMix.model_fields)
STUDIED: Final = tuple(name for name in FORMATS if name != "small")


def three_fields(status: CurrentStatus) -> tuple[Any, Any, Any]:
    """Read three fields of a status; None for what it does not have."""
    motion = status.motion
    combustion = status.combustion if motion else None
    return (
        motion and motion.wheel_speed_average_kmh,
        combustion and combustion.engine_speed_rpm,
        motion and motion.odometer_m,
    )


class _Subject:
    """One format with one vehicle, and the operations on its newest message."""

    def __init__(self, name: str, variant: str, number: int, seed: int) -> None:
        self.vehicle = driving(variant, f"{seed}/{number}/timed", number)
        self.format = FORMATS[name]
        self.tick = 0
        self.payload = b""
        self.step()
        self.format.encode(self.status)

    def step(self) -> None:
        self.tick += 1
        at_ns = 120_000_000_000 + self.tick * 1_000_000_000
        self.vehicle.advance(at_ns)
        self.status = self.vehicle.status(self.tick, 1, START_AT_NS + at_ns, self.vehicle.cause)

    def encode(self) -> bytes:
        return self.format.encode(self.status)

    def operations(self) -> dict[str, Callable[[], Any]]:
        encode, decode, peek = self.format.encode, self.format.decode, self.format.peek
        fresh = CurrentStatus.of(self.status.document())
        payload = self.payload = encode(self.status)
        return {
            "build_encode": lambda: encode(fresh),
            "encode": lambda: encode(self.status),
            "decode": lambda: decode(payload),
            "decode_all": lambda: decode(payload).document(),
            "three_fields": self.three_fields(payload),
            "peek": lambda: peek(payload),
        }

    def three_fields(self, payload: bytes) -> Callable[[], Any]:
        tried = self.format
        if isinstance(tried, FlatBuffers):
            return lambda: tried.read(payload, *THREE)
        return lambda: three_fields(tried.decode(payload))


def measure(
    formats: Sequence[str], repetitions: int, vehicles: int, seed: int
) -> dict[tuple[str, str, str], list[float]]:
    """Return times in microseconds: (format, variant, operation) -> each one taken.

    Args:
        formats: names of FORMATS, timed in turn.
        repetitions: how often each operation is done on each message.
        vehicles: how many vehicles of a variant, each with a message of its own.
        seed: of the vehicles' content, and of the turns that the formats take.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for variant in VARIANTS:
        for number in range(1, vehicles + 1):
            subjects = {name: _Subject(name, variant, number, seed) for name in formats}
            _interleave(f"{seed}/{number}/{variant}", variant, subjects, repetitions, found)
    return found


def _interleave(
    turns: str,
    variant: str,
    subjects: dict[str, _Subject],
    repetitions: int,
    found: dict[tuple[str, str, str], list[float]],
) -> None:
    rng = Random(turns)
    names = list(subjects)
    operations = {name: subject.operations() for name, subject in subjects.items()}
    gc.disable()
    for _ in range(repetitions):
        rng.shuffle(names)
        for name in names:
            subject = subjects[name]
            subject.step()
            _timed(found, (name, variant, "tick_encode"), subject.encode)
            for operation, do in operations[name].items():
                _timed(found, (name, variant, operation), do)
    gc.enable()


def _timed(found: dict[Any, list[float]], key: tuple[str, str, str], do: Callable[[], Any]) -> None:
    began_ns = time.perf_counter_ns()
    do()
    found.setdefault(key, []).append((time.perf_counter_ns() - began_ns) / 1e3)
