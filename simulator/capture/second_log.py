"""The crash-safe file of counts, and the table made of it; a torn last record costs that record alone."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from schemas.errors import Refusal
from schemas.topics import MAX_VEHICLES, vehicle_id
from simulator.capture.counting import COUNTS, RECORD, Records, merge
from simulator.capture.fields import DIRECTIONS

MAGIC = b"ivsim-wire-counts-1\n"


class SecondLog:
    """Appends records of `Counter.take`; each call is one write, a killed process loses none of them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._file.write(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, records: Records) -> None:
        """Write the records; returns once the kernel has them."""
        if len(records):
            self._file.write(records.tobytes())


def read_log(path: Path) -> Records:
    """Return the summed records of a log, finished or torn; `Refusal` when the file is another thing."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise Refusal(f"{path}: no log of wire counts (must begin with {MAGIC!r})")
    whole = (len(data) - len(MAGIC)) // RECORD.itemsize
    return merge(np.frombuffer(data, RECORD, whole, len(MAGIC)).copy())


def to_table(path: Path) -> pa.Table:
    """Return `wire.parquet`: a row per second (-1: before the start), vehicle (null: none) and direction."""
    return records_table(read_log(path))


def records_table(records: Records) -> pa.Table:
    """Return records as columns: bytes and packets as int64, `ip_bytes` being the glossary's wire bytes."""
    columns: dict[str, pa.Array] = {
        "second": pa.array(records["second"], pa.int32()),
        "vehicle_id": pa.array([vehicle_name(number) for number in records["vehicle"].tolist()], pa.string()),
        "direction": pa.array([DIRECTIONS[code] for code in records["direction"].tolist()], pa.string()),
    }
    for index, name in enumerate(COUNTS):
        columns[name] = pa.array(np.ascontiguousarray(records["counts"][:, index]), pa.int64())
    return pa.table(columns)


def vehicle_name(number: int) -> str | None:
    """Return the vehicle's id, or None where the address is not one that a vehicle can have."""
    return vehicle_id(number) if 1 <= number <= MAX_VEHICLES else None
