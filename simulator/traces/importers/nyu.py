"""NYU-METS samples, `value,unit` per second: the unit changes from row to row."""

from __future__ import annotations

import re

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.importers.units import factor
from simulator.traces.model import Trace
from simulator.traces.source import lines_of, number

_ROW = re.compile(r"[^,]*,[A-Za-z]*bits/sec")


def _recognises(lines: list[str]) -> bool:
    return all(_ROW.fullmatch(line) for line in lines)


def _read(source: Source, options: Options) -> Trace:
    if options.direction is None:
        raise Refusal(f"{source.path}: the format does not say it: give --direction uplink or downlink")
    kbps = []
    for line, text in enumerate(lines_of(source.text), 1):
        cells = text.split(",")
        if len(cells) != 2:
            raise source.refusal(line, f"{len(cells)} fields, must be 2: value, unit")
        scale = factor("uplink_kbps", cells[1], source, line)
        kbps.append(number(cells[0], source.path, line, "value") * scale)
    period_s = options.period_s or 1.0
    edges = np.arange(len(kbps) + 1, dtype=np.float64) * period_s
    column = DIRECTIONS[options.direction]
    rows = Rows(edges[:-1], edges[1:], np.arange(1, len(kbps) + 1), {column: np.array(kbps)})
    return from_intervals(source, rows, options, "nyu", rate_meaning="as_logged")


NYU = Importer(
    "nyu",
    "NYU-METS `value,unit` per second, a unit in each row; needs --direction",
    frozenset({"direction", "period_s", "step_s"}),
    _recognises,
    _read,
)
