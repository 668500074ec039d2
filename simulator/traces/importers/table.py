"""Any CSV, with a map of columns and units that the user states; takes nothing for granted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_samples
from simulator.traces.importers.options import Options
from simulator.traces.importers.units import factor
from simulator.traces.model import COLUMNS, PLACE_COLUMNS, RATE_MEANINGS, Trace, out_of_range
from simulator.traces.source import lines_of, number

_DEFAULT_UNITS = {
    "uplink_kbps": "kbit/s",
    "downlink_kbps": "kbit/s",
    "rtt_ms": "ms",
    "loss_ratio": "ratio",
    "latitude_deg": "deg",
    "longitude_deg": "deg",
    "time_s": "s",
}
_TARGETS = (*COLUMNS, *PLACE_COLUMNS)
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " "}
_MISSING = ("", "-")


@dataclass(frozen=True)
class _Column:
    """Where one target is found: place in the row, and its unit or the place of the unit's column."""

    target: str
    place: int
    unit: str
    unit_place: int | None


def _place(name: str, header: list[str] | None, source: Source) -> int:
    if header is None:
        if not (name.isascii() and name.isdigit()) or int(name) < 1:
            raise Refusal(f"{source.path}: column {name!r}: a file without column names takes numbers from 1")
        return int(name) - 1
    if header.count(name) != 1:
        names = ", ".join(header)
        raise Refusal(f"{source.path}: column {name!r} occurs {header.count(name)} times among {names}")
    return header.index(name)


def _column(target: str, text: str, header: list[str] | None, source: Source) -> _Column:
    name, _, unit = text.partition(":")
    unit_place = _place(unit[1:], header, source) if unit.startswith("@") else None
    return _Column(target, _place(name, header, source), unit or _DEFAULT_UNITS[target], unit_place)


def _mapping(options: Options, header: list[str] | None, source: Source) -> list[_Column]:
    columns: list[_Column] = []
    for text in options.mapping or ():
        target, equals, found = text.partition("=")
        if not equals or target not in _TARGETS or any(c.target == target for c in columns):
            raise Refusal(
                f"--map {text!r}: must be TARGET=COLUMN[:UNIT], TARGET once of {', '.join(_TARGETS)}"
            )
        columns.append(_column(target, found, header, source))
    if not columns:
        raise Refusal(
            f"{source.path}: a generic CSV needs --map TARGET=COLUMN[:UNIT], e.g. uplink_kbps=rate:Mbit/s"
        )
    if any(c.target.endswith("kbps") for c in columns) and options.rate_meaning is None:
        raise Refusal(f"{source.path}: a rate needs --rate-meaning, one of {', '.join(RATE_MEANINGS)}")
    return columns


def _table(source: Source, options: Options) -> tuple[list[str] | None, list[list[str]], int]:
    """Column names (None without), rows, and the line of the first row."""
    name = options.delimiter or "comma"
    if name not in _DELIMITERS:
        raise Refusal(f"--delimiter {name!r}: must be one of {', '.join(_DELIMITERS)}")
    spaced = name == "space"
    rows = [text.split() for text in lines_of(source.text)] if spaced else source.cells(_DELIMITERS[name])
    rows = [[cell.strip() for cell in row] for row in rows]
    numbered = all(text.split("=")[-1].split(":")[0].isdigit() for text in options.mapping or ("x",))
    return (None, rows, 1) if numbered else (rows[0], rows[1:], 2)


def _value(column: _Column, row: list[str], source: Source, line: int) -> float:
    if row[column.place] in _MISSING:
        return float("nan")
    unit = column.unit if column.unit_place is None else row[column.unit_place]
    scale = factor(column.target, unit, source, line)
    value = number(row[column.place], source.path, line, column.target) * scale
    if out_of_range(column.target, value):
        raise source.refusal(line, f"{column.target} is {value:g}, out of range")
    return value


def _stamp_s(column: _Column, row: list[str], source: Source, line: int) -> float:
    text = row[column.place]
    if column.unit != "iso":
        return number(text, source.path, line, "time") * factor("time_s", column.unit, source, line)
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError as error:
        raise source.refusal(line, f"time is {text!r}, must be ISO 8601") from error
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _read(source: Source, options: Options) -> Trace:
    header, rows, first_line = _table(source, options)
    columns = _mapping(options, header, source)
    if (options.time is None) == (options.period_s is None):
        raise Refusal(
            f"{source.path}: a generic CSV needs either --time COLUMN[:UNIT or :iso] or --period SECONDS"
        )
    clock = _column("time_s", options.time, header, source) if options.time else None
    needed = 1 + max(max(c.place, c.unit_place or 0) for c in [*columns, *([clock] if clock else [])])
    stamps, values = [], []
    for line, row in enumerate(rows, first_line):
        if len(row) < needed or len(row) != len(rows[0]):
            raise source.refusal(line, f"{len(row)} fields, must be {max(needed, len(rows[0]))}")
        values.append([_value(column, row, source, line) for column in columns])
        stamps.append(
            _stamp_s(clock, row, source, line) if clock else (line - first_line) * (options.period_s or 0)
        )
    if not rows:
        raise Refusal(f"{source.path}: no data rows")
    time_s = np.array(stamps)
    table = {c.target: np.array(v) for c, v in zip(columns, np.array(values).T, strict=True)}
    lines = np.arange(first_line, first_line + len(rows))
    said = {"rate_meaning": options.rate_meaning, "rate_layer": options.rate_layer}
    more = {name: value for name, value in said.items() if value is not None}
    return from_samples(source, Rows(time_s, time_s, lines, table), options, "csv", **more)


TABLE = Importer(
    "csv",
    "any CSV with --map, --time or --period, units per column or per row; never chosen by itself",
    GRID_OPTIONS | {"period_s", "rate_meaning", "rate_layer", "time", "mapping", "delimiter"},
    lambda _: False,
    _read,
)
