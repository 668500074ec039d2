"""Logs of bytes per interval: Riiser's HSDPA and Ghent's 4G drives, `wall rel_ms lat lon bytes ms`."""

from __future__ import annotations

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import PLACE_COLUMNS, Trace, out_of_range
from simulator.traces.source import lines_of, number, whole


def _recognises(lines: list[str]) -> bool:
    cells = [line.split() for line in lines]
    return all(len(row) == 6 and all(row[i].isdigit() for i in (0, 1, 4, 5)) for row in cells)


def _read(source: Source, options: Options) -> Trace:
    rate, places = _columns(source, options)
    table = []
    lines = lines_of(source.text)
    for line, text in enumerate(lines, 1):
        cells = text.split()
        if len(cells) != 6:
            raise source.refusal(line, f"{len(cells)} fields, must be 6: wall clock, ms, lat, lon, bytes, ms")
        # The wall clock has whole seconds that repeat (Riiser): column 2 is the clock.
        table.append([
            *(whole(cells[i], source.path, line, f"field {i + 1}") for i in (1, 4, 5)),
            *(_place(cells[i], name, source, line) for i, name in zip((2, 3), places, strict=False)),
        ])  # fmt: skip
        if table[-1][2] == 0:
            raise source.refusal(line, "an interval of 0 ms")
    end_ms, amount, length_ms, *where = np.array(table, dtype=np.float64).T
    values = {rate: 8.0 * amount / length_ms} | dict(zip(places, where, strict=True))
    rows = Rows((end_ms - length_ms) / 1000, end_ms / 1000, np.arange(1, len(lines) + 1), values)
    return from_intervals(
        source, rows, options, "interval-log", rate_meaning="as_logged", rate_layer="tcp_payload"
    )


def _columns(source: Source, options: Options) -> tuple[str, tuple[str, ...]]:
    """Return the column of the rate, and those of places where they are wanted."""
    rate = DIRECTIONS[options.direction or "downlink"]
    wanted = options.columns or (rate,)
    for column in wanted:
        if column not in (rate, *PLACE_COLUMNS):
            words = ", ".join((rate, *PLACE_COLUMNS))
            raise Refusal(f"{source.path}: --column {column}: such a log has {words}")
    if rate not in wanted:
        raise Refusal(f"{source.path}: without --column {rate} nothing is left for a link")
    return rate, PLACE_COLUMNS if set(wanted) & set(PLACE_COLUMNS) else ()


def _place(cell: str, column: str, source: Source, line: int) -> float:
    value = number(cell, source.path, line, column)
    if out_of_range(column, value):
        raise source.refusal(line, f"{column} is {cell}, out of range")
    return value


INTERVAL_LOG = Importer(
    "interval-log",
    "time-bytes-interval logs (Riiser HSDPA, Ghent 4G): throughput as logged, downlink unless said otherwise",
    (GRID_OPTIONS - {"duplicates"}) | {"direction", "columns"},
    _recognises,
    _read,
)
