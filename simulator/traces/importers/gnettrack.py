"""G-NetTrack CSV logs (Raca et al., 4G with 20 and 5G with 26 columns); columns by name, never by place.

A bitrate is traffic as logged while the phone was downloading, never labelled capacity. PINGLOSS is of round trips;
a trace's loss is each direction's.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import GRID_OPTIONS, Importer, Source
from simulator.traces.importers.grid import Rows, from_samples
from simulator.traces.importers.options import Options
from simulator.traces.model import Trace, each_way, out_of_range
from simulator.traces.source import number

_FIELDS = {
    "uplink_kbps": ("UL_bitrate", 1.0),
    "downlink_kbps": ("DL_bitrate", 1.0),
    "rtt_ms": ("PINGAVG", 1.0),
    "loss_ratio": ("PINGLOSS", 0.01),
    "latitude_deg": ("Latitude", 1.0),
    "longitude_deg": ("Longitude", 1.0),
}
_MISSING = "-"


def _recognises(lines: list[str]) -> bool:
    return {"Timestamp", "DL_bitrate", "UL_bitrate"} <= set(lines[0].split(","))


def _stamp_s(text: str, source: Source, line: int) -> float:
    """Seconds; the zone is not in the file, UTC only serves to count."""
    try:
        return datetime.strptime(text, "%Y.%m.%d_%H.%M.%S").replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise source.refusal(line, f"Timestamp is {text!r}, must be like 2018.01.18_14.37.59") from error


def _places(source: Source, header: list[str], columns: tuple[str, ...], options: Options) -> dict[str, int]:
    wanted = ["Timestamp", *(_FIELDS[column][0] for column in columns)]
    wanted += ["NetworkMode"] if options.network_modes else []
    wanted += ["State"] if options.states else []
    for name in wanted:
        if header.count(name) != 1:
            raise source.refusal(1, f"column {name} occurs {header.count(name)} times, must be there once")
    return {name: header.index(name) for name in wanted}


def _read(source: Source, options: Options) -> Trace:
    columns = options.columns or ("uplink_kbps", "downlink_kbps")
    table = source.cells()
    places = _places(source, table[0], columns, options)
    stamps, lines, rows = [], [], []
    modes: set[str] = set()
    for line, cells in enumerate(table[1:], 2):
        if len(cells) != len(table[0]):
            raise source.refusal(line, f"{len(cells)} fields, must be {len(table[0])}")
        if options.network_modes:
            modes.add(cells[places["NetworkMode"]])
            if cells[places["NetworkMode"]] not in options.network_modes:
                continue
        if options.states and cells[places["State"]] not in options.states:
            continue
        stamps.append(_stamp_s(cells[places["Timestamp"]], source, line))
        rows.append([_value(cells[places[_FIELDS[c][0]]], c, source, line) for c in columns])
        lines.append(line)
    if not rows:
        found = f" (the file has {', '.join(sorted(modes))})" if modes else ""
        raise Refusal(f"{source.path}: no row is left of the chosen network modes and states{found}")
    time_s, values = np.array(stamps), np.array(rows).T
    series = Rows(time_s, time_s, np.array(lines), dict(zip(columns, values, strict=True)))
    chosen = {"network_modes": options.network_modes, "states": options.states}
    kept = {f"kept_{name}": ", ".join(value) for name, value in chosen.items() if value}
    return from_samples(
        source, series, options, "gnettrack", rate_meaning="as_logged", rate_layer="ip", **kept
    )


def _value(text: str, column: str, source: Source, line: int) -> float:
    if text == _MISSING:
        return float("nan")
    field, factor = _FIELDS[column]
    value = number(text, source.path, line, field) * factor
    if out_of_range(column, value):
        raise source.refusal(line, f"{field} is {text}, out of range")
    return float(each_way(np.array([value]))[0]) if column == "loss_ratio" else value


GNETTRACK = Importer(
    "gnettrack",
    "G-NetTrack CSV (Raca et al. 4G and 5G): traffic as logged",
    GRID_OPTIONS | {"columns", "network_modes", "states"},
    _recognises,
    _read,
)
