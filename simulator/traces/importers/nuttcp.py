"""Interval reports of nuttcp, whose lines say how long they are, and the CSV made of them, which says when they were read.

Several lines are read at once. A report needs no such stamps; of the CSV they are all that is known of its time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source, skipped
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.iperf3_json import looks_like_json
from simulator.traces.importers.iperf3_rows import meaning_of_losses
from simulator.traces.importers.iperf3_text import looks_like_text
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Floats, Trace
from simulator.traces.source import lines_of, number

_STAMP = r"(?:\[[0-9]{4}-[^\]]*\] )?"
_NUTTCP = re.compile(rf"{_STAMP}\s+\S+ [KMG]?B /\s+(\S+) sec =\s+(\S+) ([KMG]?)bps\b(.*)")
_DROPS = re.compile(r"([0-9]{1,15})\s*/\s*([0-9]{1,15})\s+~?drop/pkt")
_UDP = re.compile(r"nuttcp-[tr]: buflen=.* udp\b")
_FIRST_WORDS = re.compile(r"nuttcp-[tr]: ")
_PREFIX_KBPS = {"": 1e-3, "K": 1.0, "M": 1e3, "G": 1e6}
_CSV_HEADER = "time,throughput_mbps"


# How late the first line of a CSV may be: this long, or this share of all rows.
_LATE_S, _LATE_RATIO = 2.0, 0.1


@dataclass
class _Reading:
    """What a file holds; `lost` are the datagrams lost and sent of each row, None where it is no UDP."""

    kbps: list[float]
    lines: list[int]
    lengths_s: Floats
    ends_s: Floats
    direction: str
    lost: list[tuple[int, int]] | None
    notes: list[str]


def _recognises(lines: list[str]) -> bool:
    return lines[0].startswith(_CSV_HEADER) or any(
        _FIRST_WORDS.search(line) or _NUTTCP.match(line) for line in lines
    )


def _csv(source: Source, lines: list[str], options: Options) -> _Reading:
    names = lines[0].split(",")
    kbps, stamps_s, lost = [], [], []
    for line, text in enumerate(lines[1:], 2):
        cells = text.split(",")
        if len(cells) != len(names):
            raise source.refusal(line, f"{len(cells)} fields, must be {len(names)}")
        kbps.append(1000 * number(cells[1], source.path, line, "throughput_mbps"))
        stamps_s.append(_stamp_s(source, line, cells[0]))
        row = dict(zip(names, cells, strict=True))
        if "pkt_drop" in row:
            drop, total = row["pkt_drop"], row.get("pkt_total", "1")
            lost.append(
                (
                    int(number(drop, source.path, line, "pkt_drop")),
                    int(number(total, source.path, line, "pkt_total")),
                )
            )
    # This CSV states neither interval nor direction: half a second and uplink are its authors' words.
    length_s = options.period_s or 0.5
    ends_s, notes = _ends(source, np.array(stamps_s), length_s)
    return _Reading(
        kbps,
        list(range(2, len(lines) + 1)),
        np.full(len(kbps), length_s),
        ends_s,
        options.direction or "uplink",
        lost if "pkt_drop" in names else None,
        notes,
    )


def _stamp_s(source: Source, line: int, text: str) -> float:
    try:
        return float(number(text, source.path, line, "time"))
    except Refusal:
        pass
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError as error:
        raise source.refusal(line, f"time is {text!r}, must be ISO 8601 or seconds") from error
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _ends(source: Source, stamps_s: Floats, length_s: float) -> tuple[Floats, list[str]]:
    """Return when each row ends, by the time at which its line was read: that, or earlier.

    Lines come late, and several at once, but none before its interval is over, nor do two intervals overlap.
    """
    if not len(stamps_s):
        return stamps_s, []
    back = np.flatnonzero(np.diff(stamps_s) < 0)
    if len(back):
        by_s = stamps_s[back[0]] - stamps_s[back[0] + 1]
        raise source.refusal(int(back[0]) + 3, f"the clock steps back by {by_s:g} s")
    counted_s: Floats = length_s * np.arange(1, len(stamps_s) + 1, dtype=np.float64)
    ahead_s: Floats = np.minimum.accumulate((stamps_s - counted_s)[::-1])[::-1]
    late_s = stamps_s - counted_s - ahead_s
    if late_s[0] > max(_LATE_S, _LATE_RATIO * counted_s[-1]):
        raise Refusal(
            f"{source.path}: {len(stamps_s)} rows of {length_s:g} s do not go into the"
            f" {stamps_s[-1] - stamps_s[0]:.4g} s of the column time: give --period"
        )
    apart_s, apart = ahead_s[0], 0
    for k, ahead in enumerate(ahead_s):
        # Up to half a row is the two clocks' difference, which adds up.
        if ahead - apart_s > length_s / 2:
            apart_s, apart = ahead, apart + 1
        ahead_s[k] = apart_s
    if 2 * apart > len(stamps_s) - 1:
        raise Refusal(
            f"{source.path}: most rows are more than {length_s:g} s apart by the column time: give --period"
        )
    note = f"rows of {length_s:g} s that end by the column time or before it (lines up to {late_s.max():.4g} s late)"
    return counted_s + ahead_s, [note]


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
    drops = [_DROPS.search(found[4]) for _, found in rows]
    udp = any(drops) or any(_UDP.search(text) for text in lines)
    return _Reading(
        kbps,
        [line for line, _ in rows],
        np.array(lengths_s),
        np.cumsum(lengths_s),
        options.direction or ("uplink" if "nuttcp-t" in local else "downlink"),
        [(int(one[1]), int(one[2])) if one else (0, 0) for one in drops] if udp else None,
        [],
    )


def _read(source: Source, options: Options) -> Trace:
    lines = lines_of(source.text)
    of = _csv if lines[0].startswith(_CSV_HEADER) else _nuttcp
    reading = of(source, lines, options)
    starts_s = reading.ends_s - reading.lengths_s
    values = {DIRECTIONS[reading.direction]: np.array(reading.kbps, dtype=np.float64)}
    rows = Rows(starts_s, reading.ends_s, np.array(reading.lines, dtype=np.int64), values)
    kept = starts_s + reading.lengths_s / 2 >= starts_s[:1] + (options.skip_s or 0)
    rows = rows.keep(kept)
    if not len(rows.line):
        raise Refusal(f"{source.path}: no data rows{skipped(options)}")
    if reading.lost is None:
        layer, meaning = "tcp_payload", "as_logged"
        note = "TCP: multiples of 64 KiB per interval, so low rates show as 0"
    else:
        lost = [one for one, keep in zip(reading.lost, kept, strict=True) if keep]
        losing, counting = sum(n > 0 for n, _ in lost), sum(n > 0 for _, n in lost)
        layer, meaning = "udp_payload", meaning_of_losses(losing, counting)
        note = f"UDP: datagrams lost in {losing} of {len(lost)} intervals"
    return from_intervals(
        source,
        rows,
        options,
        "nuttcp",
        notes=reading.notes,
        rate_meaning=meaning,
        rate_layer=layer,
        note=note + skipped(options),
    )


NUTTCP = Importer(
    "nuttcp",
    "interval reports of nuttcp (.out) and `time,throughput_mbps` CSV: lengths of its lines (CSV: --period)",
    frozenset({"direction", "period_s", "skip_s", "step_s", "gaps", "hold_s"}),
    _recognises,
    _read,
)
