"""Pensieve's "cooked" text `seconds Mbit/s`, at any step; a rate holds from the line before to its own."""

from __future__ import annotations

import math

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Floats, Trace
from simulator.traces.source import lines_of, number

_HIGHEST_MBPS = 10_000.0
_HOLD_S = 2.0
# A line that is so many usual steps behind the one before it is said.
_LONG = 1.5


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
    starts, notes = _starts(source, stamps, options)
    rows = Rows(starts, stamps[1:], lines, values)
    return from_intervals(
        source, rows, options, "cooked", notes=notes, rate_meaning="as_logged", rate_layer="tcp_payload"
    )


def _starts(source: Source, stamps: Floats, options: Options) -> tuple[Floats, list[str]]:
    """Return when the rate of each line but the first begins, and what the policy has to say of it.

    A line far behind the one before it speaks for the time that lines mostly do; what is before that is a gap.
    """
    notes = ["the rate of line 1 left out: the time it was held for is not in the file"]
    spans = np.diff(stamps)
    still = np.flatnonzero(spans == 0) + 2
    if len(still):
        notes.append(
            f"the rates of {len(still)} lines of the same second as the one before left out (line {still[0]})"
        )
    if not spans.any():
        raise source.refusal(len(stamps), "no time passes from the first line to this one")
    usual_s = float(np.median(spans[spans > 0])) if (spans > 0).any() else 0.0
    hold_s = options.hold_s or max(_HOLD_S, 2 * usual_s)
    far = np.flatnonzero(spans > hold_s)
    if len(far) and options.gaps in (None, "refuse"):
        raise source.refusal(
            int(far[0]) + 2,
            f"no line for {spans[far[0]]:g} s before this one ({len(far)} gaps, longest {spans.max():g} s):"
            f" choose --gaps hold, zero, cut or longest, or --hold {math.ceil(spans.max())} to hold its rate so long",
        )
    if len(far):
        notes.append(
            f"{len(far)} lines more than {hold_s:g} s behind the one before (line {far[0] + 2}): gaps"
        )
    long = np.flatnonzero((spans > _LONG * usual_s) & (spans <= hold_s))
    if len(long) == 1:
        notes.append(f"the rate of line {long[0] + 2} held for {spans[long[0]]:g} s")
    elif len(long):
        notes.append(
            f"the rates of {len(long)} lines held for longer than the usual {usual_s:g} s, up to"
            f" {spans[long].max():g} s (line {long[0] + 2})"
        )
    starts = np.minimum(stamps[:-1], stamps[1:])
    starts[far] = stamps[1:][far] - usual_s
    return starts, notes


COOKED = Importer(
    "cooked",
    "Pensieve cooked text (seconds, Mbit/s); needs --direction",
    (GRID_OPTIONS - {"duplicates"}) | {"direction"},
    _recognises,
    _read,
)
