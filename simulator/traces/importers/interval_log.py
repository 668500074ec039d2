"""Logs of bytes per interval: Riiser's HSDPA and Ghent's 4G drives, `wall rel_ms lat lon bytes ms`."""

from __future__ import annotations

import numpy as np

from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Trace
from simulator.traces.source import lines_of, whole


def _recognises(lines: list[str]) -> bool:
    cells = [line.split() for line in lines]
    return all(len(row) == 6 and all(row[i].isdigit() for i in (0, 1, 4, 5)) for row in cells)


def _read(source: Source, options: Options) -> Trace:
    table = []
    lines = lines_of(source.text)
    for line, text in enumerate(lines, 1):
        cells = text.split()
        if len(cells) != 6:
            raise source.refusal(line, f"{len(cells)} fields, must be 6: wall clock, ms, lat, lon, bytes, ms")
        # The wall clock has whole seconds that repeat (Riiser): column 2 is the clock.
        table.append([whole(cells[i], source.path, line, f"field {i + 1}") for i in (1, 4, 5)])
        if table[-1][2] == 0:
            raise source.refusal(line, "an interval of 0 ms")
    end_ms, amount, length_ms = np.array(table, dtype=np.float64).T
    column = DIRECTIONS[options.direction or "downlink"]
    values = {column: 8.0 * amount / length_ms}
    rows = Rows((end_ms - length_ms) / 1000, end_ms / 1000, np.arange(1, len(lines) + 1), values)
    return from_intervals(
        source, rows, options, "interval-log", rate_meaning="as_logged", rate_layer="tcp_payload"
    )


INTERVAL_LOG = Importer(
    "interval-log",
    "time-bytes-interval logs (Riiser HSDPA, Ghent 4G): throughput as logged, downlink unless said otherwise",
    (GRID_OPTIONS - {"duplicates"}) | {"direction"},
    _recognises,
    _read,
)
