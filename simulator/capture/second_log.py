"""The crash-safe file of counts, and the table made of it; a torn last record costs that record alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from schemas.errors import Refusal
from schemas.topics import end_id
from simulator.capture.counting import COUNTS, KEYS, RECORD, Records, merge, record
from simulator.capture.fields import DIRECTIONS

MAGIC = b"ivsim-wire-counts-1\n"
_ROWS_TOGETHER = 1 << 14  # read at a time


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


def read_log(path: Path, names: Sequence[str] = COUNTS) -> Records:
    """Return the summed records of a log, finished or torn, with some of the counts; `Refusal` when the file is another thing."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise Refusal(f"{path}: no log of wire counts (must begin with {MAGIC!r})")
        whole = (path.stat().st_size - len(MAGIC)) // RECORD.itemsize
        records = np.empty(whole, record(len(names)))
        chosen = [COUNTS.index(name) for name in names]
        for begin in range(0, whole, _ROWS_TOGETHER):
            read = np.fromfile(file, RECORD, min(_ROWS_TOGETHER, whole - begin))
            part = records[begin : begin + len(read)]
            for key in KEYS:
                part[key] = read[key]
            part["counts"] = read["counts"][:, chosen]
    return merge(records)


def to_table(path: Path, names: Sequence[str] = COUNTS) -> pa.Table:
    """Return `wire.parquet`, or some of its counts: a row per second (-1: before the start), vehicle (null: none) and direction."""
    return records_table(read_log(path, names), names)


def records_table(records: Records, names: Sequence[str] = COUNTS) -> pa.Table:
    """Return records as columns: bytes and packets as int64, `ip_bytes` being the glossary's wire bytes."""
    numbers, place = np.unique(records["vehicle"], return_inverse=True)
    vehicles = pa.array([vehicle_name(number) for number in numbers.tolist()], pa.string())
    columns: dict[str, pa.Array] = {
        "second": pa.array(records["second"], pa.int32()),
        "vehicle_id": vehicles.take(pa.array(place)),
        "direction": pa.array(DIRECTIONS, pa.string()).take(pa.array(records["direction"])),
    }
    for index, name in enumerate(names):
        columns[name] = pa.array(np.ascontiguousarray(records["counts"][:, index]), pa.int64())
    return pa.table(columns)


def vehicle_name(number: int) -> str | None:
    """Return the id of the vehicle, or of the gateway at the vehicles' end; None where neither can have the address."""
    try:
        return end_id(number)
    except ValueError:
        return None
