"""Pensieve's "cooked" text `seconds Mbit/s`, at any step; a rate holds from the line before to its own."""

from __future__ import annotations

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Trace
from simulator.traces.source import lines_of, number

_HIGHEST_MBPS = 10_000.0


def _recognises(lines: list[str]) -> bool:
    try:
        return all(len([float(cell) for cell in line.split()]) == 2 for line in lines)
    except ValueError:
        return False


def _read(source: Source, options: Options) -> Trace:
    if options.direction is None:
        raise Refusal(f"{source.path}: the format does not say it: give --direction uplink or downlink")
    table = []
    for line, text in enumerate(lines_of(source.text), 1):
        cells = text.split()
        if len(cells) != 2:
            raise source.refusal(line, f"{len(cells)} fields, must be 2: seconds, Mbit/s")
        seconds, mbps = (number(cell, source.path, line, "field") for cell in cells)
        if not 0 <= mbps <= _HIGHEST_MBPS:
            raise source.refusal(
                line, f"a rate of {mbps:g}, must be 0 to {_HIGHEST_MBPS:g}: is the unit Mbit/s?"
            )
        table.append((seconds, mbps))
    if len(table) < 2:
        raise source.refusal(1, "a single line spans no time")
    stamps, mbps_values = np.array(table).T
    lines = np.arange(2, len(table) + 1)
    column = DIRECTIONS[options.direction]
    values = {column: 1000 * mbps_values[1:]}
    rows = Rows(np.minimum(stamps[:-1], stamps[1:]), stamps[1:], lines, values)
    return from_intervals(source, rows, options, "cooked", rate_meaning="as_logged", rate_layer="tcp_payload")


COOKED = Importer(
    "cooked",
    "Pensieve cooked text (seconds, Mbit/s); needs --direction",
    (GRID_OPTIONS - {"duplicates", "gaps", "hold_s"}) | {"direction"},
    _recognises,
    _read,
)
