"""Interval reports of nuttcp, whose lines say how long they are, and the two-column CSV made of them.

The stamps are those at which a line was read (several lines share one), so they are not used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source, skipped
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.iperf3_json import looks_like_json
from simulator.traces.importers.iperf3_text import looks_like_text
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Trace
from simulator.traces.source import lines_of, number

_STAMP = r"(?:\[[0-9]{4}-[^\]]*\] )?"
_NUTTCP = re.compile(rf"{_STAMP}\s+\S+ [KMG]?B /\s+(\S+) sec =\s+(\S+) ([KMG]?)bps\b(.*)")
_FIRST_WORDS = re.compile(r"nuttcp-[tr]: ")
_PREFIX_KBPS = {"": 1e-3, "K": 1.0, "M": 1e3, "G": 1e6}
_CSV_HEADER = "time,throughput_mbps"


@dataclass
class _Reading:
    kbps: list[float]
    lines: list[int]
    lengths_s: list[float]
    direction: str
    rate_meaning: str
    note: str


def _recognises(lines: list[str]) -> bool:
    return lines[0].startswith(_CSV_HEADER) or any(
        _FIRST_WORDS.search(line) or _NUTTCP.match(line) for line in lines
    )


def _csv(source: Source, lines: list[str], options: Options) -> _Reading:
    width = lines[0].count(",")
    kbps = []
    for line, text in enumerate(lines[1:], 2):
        if text.count(",") != width:
            raise source.refusal(line, f"{text.count(',') + 1} fields, must be {width + 1}")
        kbps.append(1000 * number(text.split(",")[1], source.path, line, "throughput_mbps"))
    udp = "pkt_drop" in lines[0]
    # This CSV states neither interval nor direction: half a second and uplink are its authors' words.
    return _Reading(
        kbps,
        list(range(2, len(lines) + 1)),
        [options.period_s or 0.5] * len(kbps),
        options.direction or "uplink",
        "capacity" if udp else "as_logged",
        "UDP saturation" if udp else "TCP: multiples of 64 KiB per interval, so low rates show as 0",
    )


def _nuttcp(source: Source, lines: list[str], options: Options) -> _Reading:
    found_rows = ((line, _NUTTCP.match(text)) for line, text in enumerate(lines, 1))
    # What says how busy both ends were is the whole test's sum.
    rows = [(line, found) for line, found in found_rows if found and "%TX" not in found[4]]
    if not rows:
        other = looks_like_text(lines) or looks_like_json(lines)
        reason = (
            "the output of iperf: use --from iperf3" if other else "no interval lines: run nuttcp with -i"
        )
        raise Refusal(f"{source.path}: {reason}")
    lengths_s = [number(found[1], source.path, line, "interval") for line, found in rows]
    for (line, _), length_s in zip(rows, lengths_s, strict=True):
        if length_s <= 0:
            raise source.refusal(line, f"an interval of {length_s:g} s")
    kbps = [number(f[2], source.path, line, "rate") * _PREFIX_KBPS[f[3]] for line, f in rows]
    local = next((text for text in lines if re.search(r"nuttcp-[tr]: v", text)), "nuttcp-t")
    udp = "drop" in rows[0][1][4]
    return _Reading(
        kbps,
        [line for line, _ in rows],
        lengths_s,
        options.direction or ("uplink" if "nuttcp-t" in local else "downlink"),
        "capacity" if udp else "as_logged",
        "UDP saturation" if udp else "TCP: multiples of 64 KiB per interval, so low rates show as 0",
    )


def _read(source: Source, options: Options) -> Trace:
    lines = lines_of(source.text)
    of = _csv if lines[0].startswith(_CSV_HEADER) else _nuttcp
    reading = of(source, lines, options)
    lengths_s = np.array(reading.lengths_s, dtype=np.float64)
    edges = np.concatenate(([0.0], np.cumsum(lengths_s)))
    values = {DIRECTIONS[reading.direction]: np.array(reading.kbps, dtype=np.float64)}
    rows = Rows(edges[:-1], edges[1:], np.array(reading.lines, dtype=np.int64), values)
    rows = rows.keep(edges[:-1] + lengths_s / 2 >= (options.skip_s or 0))
    if not len(rows.line):
        raise Refusal(f"{source.path}: no data rows{skipped(options)}")
    return from_intervals(
        source,
        rows,
        options,
        "nuttcp",
        rate_meaning=reading.rate_meaning,
        # UDP keeps the link full, TCP what it was given: the two meanings are the two protocols.
        rate_layer="udp_payload" if reading.rate_meaning == "capacity" else "tcp_payload",
        note=reading.note + skipped(options),
    )


NUTTCP = Importer(
    "nuttcp",
    "interval reports of nuttcp (.out) and `time,throughput_mbps` CSV: lengths of its lines (CSV: --period)",
    frozenset({"direction", "period_s", "skip_s", "step_s"}),
    _recognises,
    _read,
)
