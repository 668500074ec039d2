"""CSV: a header and a row a line, its columns named by a mapping; an empty cell says nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from schemas.errors import Refusal
from simulator.logs.base import Drive, Drives, LogReader
from simulator.logs.mapping import Mapping


def take_row(drives: Drives, mapping: Mapping, place: int, cells: dict[str, str], alone: str) -> None:
    """Take one row of texts by column; `alone` is the vehicle of a log that names none."""
    vehicle = alone if mapping.vehicle is None else cells[mapping.vehicle].strip()
    values = {}
    try:
        time_ns = mapping.time_ns(cells, drives.rows_of(vehicle))
    except ValueError as bad:
        raise drives.refusal(place, f"{mapping.time.column}: {bad}") from None
    for path, column in mapping.signals.items():
        text = cells[column.column]
        if not text.strip():
            continue
        try:
            values[path] = mapping.value(path, text)
        except ValueError as bad:
            raise drives.refusal(place, f"{column.column}: {bad}") from None
    drives.add(place, vehicle, time_ns, values)


def check_columns(path: Path, mapping: Mapping, found: Iterable[str]) -> None:
    """Refuse a log without a column that the mapping names."""
    there = list(found)
    for column in mapping.columns:
        if column not in there:
            raise Refusal(
                f"{path}: no column {column!r}, which the mapping names; columns are {', '.join(there)[:400]}"
            )


def _read(path: Path, mapping: Mapping | None) -> tuple[Drive, ...]:
    assert mapping is not None
    drives = Drives(path)
    with path.open(encoding="utf-8-sig", newline="") as opened:
        rows = csv.reader(opened, strict=True)
        try:
            head = next(rows, [])
            if len(set(head)) != len(head):
                raise drives.refusal(1, "two columns have one name")
            check_columns(path, mapping, head)
            for row in rows:
                if not row:
                    continue
                while len(row) > len(head) and not row[-1].strip():
                    row.pop()  # some loggers end each row with a comma
                if len(row) != len(head):
                    raise drives.refusal(rows.line_num, f"{len(row)} cells, and the header has {len(head)}")
                take_row(drives, mapping, rows.line_num, dict(zip(head, row, strict=True)), path.stem)
        except csv.Error as error:
            raise drives.refusal(rows.line_num, f"no line of a CSV file: {error}") from None
        except UnicodeDecodeError as error:
            raise drives.refusal(rows.line_num + 1, f"no UTF-8: {error.reason}") from None
    return drives.done()


CSV: Final = LogReader("csv", "comma-separated values with a header", ".csv", mapped=True, read=_read)
