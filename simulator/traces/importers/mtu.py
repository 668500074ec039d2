"""Uplink logs of MTU Cork: ctime stamps every 2 to 9 s, a modem's rate; waiting for the test is no outage."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import Options
from simulator.traces.model import CEILINGS, Trace
from simulator.traces.source import number

_RATE = "RATE(MBit/s)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +([0-9]+) ([0-9]+):([0-9]+):([0-9]+) UTC ([0-9]{4})"
)
_LONGEST_SPAN_S = 10.0
_TEST_STARTS_MBPS = 0.1


def _recognises(lines: list[str]) -> bool:
    names = lines[0].split(",")
    return names[0] == "Time" and _RATE in names


def _stamp_s(text: str, source: Source, line: int) -> float:
    """Seconds of `Sat Aug 20 13:28:14 UTC 2022`, by our own table: strptime's names depend on the locale."""
    found = _STAMP.fullmatch(text)
    reason = f"Time is {text!r}, must be like Sat Aug 20 13:28:14 UTC 2022"
    if found is None:
        raise source.refusal(line, reason)
    try:
        month = _MONTHS.index(found[1]) + 1
        day, hour, minute, second, year = (int(found[i]) for i in (2, 3, 4, 5, 6))
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise source.refusal(line, reason) from error


def _read(source: Source, options: Options) -> Trace:
    table = source.cells()
    if not {"Time", _RATE} <= set(table[0]):
        raise source.refusal(1, f"must have the columns Time and {_RATE}")
    time_at, rate_at = table[0].index("Time"), table[0].index(_RATE)
    stamps, mbps = [], []
    for line, cells in enumerate(table[1:], 2):
        if len(cells) != len(table[0]):
            raise source.refusal(line, f"{len(cells)} fields, must be {len(table[0])}")
        stamps.append(_stamp_s(cells[time_at], source, line))
        mbps.append(number(cells[rate_at], source.path, line, _RATE))
    rates, ends = np.array(mbps), np.array(stamps)
    busy = np.flatnonzero(rates >= _TEST_STARTS_MBPS)
    if not len(busy):
        raise Refusal(f"{source.path}: no row reaches {_TEST_STARTS_MBPS:g} Mbit/s: no test was running")
    first = int(busy[0])
    starts = np.concatenate((ends[:1] - 3.0, ends[:-1]))
    # A row speaks for the time since the row before; over a longer hole nobody knows what it was.
    starts = np.where(ends - starts > _LONGEST_SPAN_S, ends - 3.0, np.minimum(starts, ends))
    rows = Rows(starts, ends, np.arange(2, len(ends) + 2), {"uplink_kbps": 1000 * rates})
    # The modem's byte counter broke: a negative rate, and an absurd one where it came back; both say nothing.
    fell = rates < 0
    broken = fell | ((1000 * rates > CEILINGS["uplink_kbps"]) & np.roll(fell, 1))
    rows = rows.keep((np.arange(len(ends)) >= first) & ~broken)
    lost = int(np.count_nonzero(broken))
    note = f"{first} leading rows below {_TEST_STARTS_MBPS:g} Mbit/s left out: the test had not begun"
    note += f"; {lost} rows with a broken byte counter: no data" if lost else ""
    return from_intervals(source, rows, options, "mtu", rate_meaning="capacity", note=note)


MTU = Importer(
    "mtu",
    "MTU Cork uplink CSV: true capacity, a row holds since the row before",
    GRID_OPTIONS - {"duplicates"},
    _recognises,
    _read,
)
