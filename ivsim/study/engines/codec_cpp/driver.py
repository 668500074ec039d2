"""Runs the C++ driver on a corpus and reads what it prints; decides nothing."""

from __future__ import annotations

import shlex
import struct
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ivsim.study.corpus import PER_VEHICLE, corpus
from ivsim.study.engines.codec_cpp.build import FORMATS, Programs
from schemas.formats import FORMATS as OURS

OPERATIONS: Final = {
    "build_encode": "from plain C++ records to bytes: Protobuf sets fields and serialises, FlatBuffers packs",
    "decode": "to the first field: Protobuf parses, FlatBuffers finds it in place",
    "decode_all": "to records of the library's own: Protobuf parses, FlatBuffers unpacks",
    "three_fields": "speed, engine speed and odometer: Protobuf parses, FlatBuffers reads in place",
}
DIRECTIONS: Final = ("encode", "decode")


class Measured(NamedTuple):
    """What the driver said of one format, by message of the corpus.

    Attributes:
        sizes: payload bytes of each message.
        times: operation -> microseconds of each timed message, the mean of its calls.
    """

    sizes: list[int]
    times: dict[str, list[float]]


class Records(NamedTuple):
    """The corpus in files for the driver.

    Attributes:
        path: all messages.
        timed_path: those that are timed, each of another vehicle.
        variants: of all messages.
        timed: which those are.
    """

    path: Path
    timed_path: Path
    variants: list[str]
    timed: list[int]


def write_records(folder: Path, messages: int, timed: int, seed: int) -> Records:
    """Write the corpus as the driver reads it; at most one message of a vehicle is timed."""
    vehicles = -(-messages // PER_VEHICLE)
    chosen = {PER_VEHICLE * (k * vehicles // min(timed, vehicles)) for k in range(min(timed, vehicles))}
    path, timed_path = folder / "records", folder / "timed-records"
    variants = []
    with path.open("wb") as every, timed_path.open("wb") as some:
        for k, (variant, status) in enumerate(corpus(messages, seed)):
            payload = OURS["flatbuffers"].encode(status)
            variants.append(variant)
            for file in (every, some) if k in chosen else (every,):
                file.write(struct.pack("<I", len(payload)) + payload)
    return Records(path, timed_path, variants, sorted(chosen))


def sizes_and_times(
    programs: Programs, records: Records, calls: int, samples: int, seed: int
) -> dict[str, Measured]:
    """Return sizes of all messages and times of some: format -> what was measured."""
    found = {name: Measured([], {operation: [] for operation in OPERATIONS}) for name in FORMATS}
    for _, name, size in _lines(programs.both, "sizes", records.path):
        found[name].sizes.append(int(size))
    sums: dict[tuple[str, str, int], float] = defaultdict(float)
    for message, name, operation, ns in _lines(
        programs.both, "times", records.timed_path, calls, samples, seed & 0xFFFFFFFF
    ):
        sums[name, operation, int(message)] += float(ns)
    for (name, operation, _), total in sorted(sums.items()):
        found[name].times[operation].append(total / samples / 1e3)
    return found


def peaks_kib(programs: Programs, records: Records, name: str, processes: int) -> dict[str, list[int]]:
    """Return the peak resident set of processes of their own: direction -> KiB of each."""
    program = programs.alone(name)
    payloads = records.path.with_name(f"{name}-payloads")
    _run([str(program), "write", str(records.path), str(payloads)])
    files = {"encode": records.path, "decode": payloads}
    return {
        direction: [int(_run([str(program), direction, str(files[direction])])) for _ in range(processes)]
        for direction in DIRECTIONS
    }


def _lines(program: Path, *words: object) -> list[list[str]]:
    return [line.split() for line in _run([str(program), *map(str, words)]).splitlines()]


def _run(command: Sequence[str]) -> str:
    # Through a shell: Linux gives a new program its parent's peak (exec keeps it), and a shell's is small.
    script = f"{shlex.join(command)}; exit $?"
    return subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout
