"""Encode and decode times, every format in turn so that a slow moment hits all; no opinion on the figures."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from math import sqrt
from random import Random
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

from ivsim.serialisation.corpus import START_AT_NS, driving
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
STUDIED: Final = tuple(name for name in FORMATS if name != "small")


class Time(NamedTuple):
    """Mean and half-width of its 95 % interval over the repetitions, microseconds, and the median."""

    format: str
    variant: str
    operation: str
    mean_us: float
    half_width_us: float
    median_us: float


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

    def __init__(self, name: str, variant: str, number: int) -> None:
        self.vehicle = driving(variant, seed=number, number=number)
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


def measure(repetitions: int, vehicles: int) -> list[Time]:
    """Return times of every format, variant and operation.

    Args:
        repetitions: how often each operation is done on each message.
        vehicles: how many vehicles of a variant, each with a message of its own.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for variant in VariantMix.model_fields:
        for number in range(1, vehicles + 1):
            subjects = {name: _Subject(name, variant, number) for name in STUDIED}
            _interleave(variant, subjects, repetitions, found)
    return [_summary(*key, times) for key, times in sorted(found.items())]


def _interleave(
    variant: str,
    subjects: dict[str, _Subject],
    repetitions: int,
    found: dict[tuple[str, str, str], list[float]],
) -> None:
    rng = Random(variant)
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


def _summary(name: str, variant: str, operation: str, times: list[float]) -> Time:
    # Thousands of repetitions: Student's t is the normal's 1.96.
    half_width_us = 1.96 * stdev(times) / sqrt(len(times)) if len(times) > 1 else 0.0
    return Time(name, variant, operation, fmean(times), half_width_us, sorted(times)[len(times) // 2])
