"""A fleet's messages as Parquet files: made from the seed, sent nowhere, in memory that does not grow with the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.topics import vehicle_id
from simulator.fleet import Emission, emissions
from simulator.scenario import Scenario

# Vehicles of one file, and the only ones that are in memory: each is 10 to 20 kB while it drives.
FILE_VEHICLES: Final = 1_000
BATCH_ROWS: Final = 8_192  # written at a time
SCHEMA: Final = pa.schema(
    [
        ("due_offset_ns", pa.int64()),
        ("vehicle_id", pa.string()),
        ("epoch", pa.int32()),
        ("sequence", pa.int64()),
        ("payload", pa.binary()),
    ]
)


class Written(NamedTuple):
    """What one file holds: vehicles, messages, and the bytes of their payloads."""

    path: Path
    vehicles: int
    messages: int
    payload_bytes: int


def write_fleet(scenario: Scenario, vehicles: range, start_at_ns: int, directory: Path) -> Iterator[Written]:
    """Write the messages of these vehicles, a file for each FILE_VEHICLES of them, and yield each once it is whole.

    A file's rows are in the order in which they are due; a file is named after the first of its vehicles.

    Args:
        scenario: the fleet.
        vehicles: of the share.
        start_at_ns: the Unix time in ns that offset 0 stands for.
        directory: that there is; files of the same vehicles are replaced.
    """
    for first in range(0, len(vehicles), FILE_VEHICLES):
        own = vehicles[first : first + FILE_VEHICLES]
        path = directory / f"messages-{own[0]:07d}.parquet"
        part = path.with_name(path.name + ".part")
        messages, payload_bytes = _write(part, emissions(scenario, start_at_ns, own))
        part.replace(path)
        yield Written(path, len(own), messages, payload_bytes)


def _write(path: Path, coming: Iterator[Emission]) -> tuple[int, int]:
    messages = payload_bytes = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while rows := list(islice(coming, BATCH_ROWS)):
            offsets, numbers, epochs, sequences, payloads = zip(*rows, strict=True)
            names = [vehicle_id(number) for number in numbers]
            columns = [offsets, names, epochs, sequences, payloads]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
            messages += len(rows)
            payload_bytes += sum(map(len, payloads))
    return messages, payload_bytes
