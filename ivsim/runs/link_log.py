"""The link log as tables: what was asked, what the kernel counted, what the vehicles' end saw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simulator.capture.second_log import to_table as wire_table
from simulator.links import step_log
from simulator.links.proof import probe_times
from simulator.links.row_file import write_rows
from simulator.links.step_log import Rows

KEY = ("second", "vehicle_id", "direction")
SCHEMA = pa.schema([*step_log.SCHEMA, *probe_times.SCHEMA])
# column of the link log <- column of the capture; wire bytes count the IP packet, as the glossary has it
WIRE = {
    "wire_bytes": "ip_bytes",
    "wire_packets": "packets",
    "retransmitted_bytes": "tcp_retransmitted_bytes",
    "pure_ack_packets": "tcp_pure_ack_packets",
    "keep_alive_packets": "tcp_keep_alive_packets",
}


ROWS_TOGETHER: Final = 1 << 17  # in memory, and in a row group of link.parquet


def write_link_log(path: Path, asked: Rows, wire_events: Path, compression: str = "snappy") -> None:
    """Write link.parquet as `link_tables` gives it, some seconds at a time."""
    write_rows(path, link_tables(asked, wire_events), compression)


def link_table(asked: Rows, wire_events: Path) -> pa.Table:
    """Return all of link.parquet; for what is short."""
    return pa.concat_tables(link_tables(asked, wire_events))


def link_tables(asked: Rows, wire_events: Path) -> Iterator[pa.Table]:
    """Yield link.parquet, some seconds at a time: one row per second (-1: before the start), vehicle and direction.

    Args:
        asked: the replay's rows, with or without the probes' columns; empty when the run never started.
        wire_events: the capture's crash-safe log; when it is missing, its columns are null, not 0.
    """
    parts = _or_empty(_together(asked))
    if not wire_events.is_file():
        for left in parts:
            nulls = [pa.nulls(len(left), pa.int64()) for _ in WIRE]
            yield pa.table([*left.columns, *nulls], names=[*left.column_names, *WIRE])
        return
    seen = wire_table(wire_events, tuple(WIRE.values()))
    seen = seen.filter(pc.is_valid(seen.column("vehicle_id"))).rename_columns([*KEY, *WIRE])
    seconds = seen.column("second").to_numpy()
    left, begin = next(parts), 0
    for following in parts:
        end = int(np.searchsorted(seconds, pc.min(following.column("second")).as_py()))
        yield _joined(left, seen.slice(begin, end - begin))
        left, begin = following, end
    yield _joined(left, seen.slice(begin))


def _together(asked: Rows) -> Iterator[pa.Table]:
    """Yield tables of `SCHEMA`; no second is in two."""
    kept: list[pa.Table] = []
    for table in filter(len, asked):
        kept.append(_complete(table))
        if sum(map(len, kept)) >= ROWS_TOGETHER:
            yield pa.concat_tables(kept)
            kept = []
    if kept:
        yield pa.concat_tables(kept)


def _or_empty(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield them; an empty one where there is none."""
    first = next(parts, None)
    yield SCHEMA.empty_table() if first is None else first
    yield from parts


def _complete(table: pa.Table) -> pa.Table:
    missing = {field.name: pa.nulls(len(table), field.type) for field in SCHEMA}
    found = [
        table.column(field.name) if field.name in table.column_names else missing[field.name]
        for field in SCHEMA
    ]
    return pa.table(found, schema=SCHEMA)


def _joined(left: pa.Table, seen: pa.Table) -> pa.Table:
    joined = left.join(seen, keys=list(KEY), join_type="full outer")
    # The capture was running: a second without a frame is a measured nothing.
    for name in WIRE:
        index = joined.schema.get_field_index(name)
        joined = joined.set_column(index, name, pc.fill_null(joined.column(name), 0))
    return joined.sort_by([(name, "ascending") for name in KEY])
