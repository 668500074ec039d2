"""What the records of a measurement hold: CurrentStatus of driven vehicles, rows of columns, or bytes; pure and seeded.

The rows are those of the Kafka formats thesis (Myastovskiy 2024), reconstructed: its own are not published. Its Avro
and Protobuf sizes are exact multiples of one block of columns, repeated 1, 5 and 10 times, and this generator meets all
twelve sizes that it gives within 3 %: a time, a number of 8 digits, and in each block 15 numbers with 2 decimals, 4
words of 10 letters and digits, 3 integers of 8 digits, and 8 columns that are always empty. Other records would fit
them too.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

from simulator.vehicles.content import VARIANTS
from simulator.vehicles.vehicle import Vehicle

CURRENT_STATUS: Final = "current_status"
# record -> how often the block of columns is repeated
BLOCKS: Final = {"s1": 1, "s2": 5, "s3": 10}
# Bytes that nothing makes smaller: those of the paper on reactive batching (Wu et al. 2020), and of the thesis on
# ingestion platforms (Tallberg 2020).
BYTES: Final = {"b500": 500, "b1k": 1_000, "b65k": 65_000, "b600k": 600_000}
RECORDS: Final = (CURRENT_STATUS, *BLOCKS, *BYTES)

TIME, NUMBER, DECIMAL, WORD, INTEGER, EMPTY = "time", "number", "decimal", "word", "integer", "empty"
_BLOCK: Final = {DECIMAL: 15, WORD: 4, INTEGER: 3, EMPTY: 8}
_NAME_CHARACTERS: Final = 25
_LAYOUT_SEED: Final = 7
_WORDS: Final = (
    *("engine", "coolant", "temperature", "pressure", "battery", "voltage", "current", "speed", "axle"),
    *(
        "front",
        "rear",
        "left",
        "right",
        "oil",
        "level",
        "status",
        "sensor",
        "flow",
        "gear",
        "torque",
        "brake",
    ),
)
_LETTERS: Final = string.ascii_uppercase + string.digits
_FIRST_TIME: Final = datetime(2024, 3, 4, 10, 11, 0, 1)  # noqa: DTZ001 - the records' times have no zone
_STATUS_AT_NS: Final = 1_709_546_460_000_000_000
_DRIVEN_NS: Final = 120_000_000_000

Row = Sequence[Any]


class Column(NamedTuple):
    """One column of a row: its name, and what is in it."""

    name: str
    kind: str


def columns_of(record: str) -> tuple[Column, ...]:
    """Return the columns of a record of rows, the same in every run."""
    rng = Random(_LAYOUT_SEED)
    kinds = [kind for kind, count in _BLOCK.items() for _ in range(count)]
    rng.shuffle(kinds)
    block = [Column(_name(rng, place), kind) for place, kind in enumerate(kinds)]
    found = [Column("recorded_at_time", TIME), Column("record_number", NUMBER)]
    for turn in range(1, BLOCKS[record] + 1):
        found += [Column(name if turn == 1 else f"{name}_{turn}", kind) for name, kind in block]
    return tuple(found)


def _name(rng: Random, place: int) -> str:
    words = "_".join(rng.choices(_WORDS, k=6))
    return f"{words[: _NAME_CHARACTERS - 3].rstrip('_')}_{place:02d}".ljust(_NAME_CHARACTERS, "x")


def rows_of(record: str, count: int, seed: int) -> list[Row]:
    """Return the rows of a record, drawn from the seed; an empty column is None."""
    rng = Random(f"{seed}/rows")
    columns = columns_of(record)
    return [[_value(kind, number, rng) for _, kind in columns] for number in range(count)]


def _value(kind: str, number: int, rng: Random) -> Any:
    if kind == TIME:
        return _FIRST_TIME + timedelta(seconds=number, microseconds=rng.randrange(999_998))
    if kind == NUMBER:
        return 20_000_000 + number
    if kind == DECIMAL:
        return round(rng.uniform(10, 999), 2)
    if kind == WORD:
        return "".join(rng.choices(_LETTERS, k=10))
    return rng.randrange(16_000_000, 100_000_000) if kind == INTEGER else None


def bytes_of(record: str, count: int, seed: int) -> list[bytes]:
    """Return random bytes of a record's size."""
    rng = Random(f"{seed}/bytes")
    return [rng.randbytes(BYTES[record]) for _ in range(count)]


def statuses(count: int, seed: int) -> list[Any]:
    """Return CurrentStatus messages, each of a vehicle of its own that has driven for two minutes."""
    variants = tuple(VARIANTS)
    found = []
    for number in range(1, count + 1):
        vehicle = Vehicle(number, variants[number % len(variants)], Random(f"{seed}/{number}/drive"))
        vehicle.advance(0)
        vehicle.advance(_DRIVEN_NS)
        found.append(vehicle.status(1, 1, _STATUS_AT_NS, vehicle.cause))
    return found
