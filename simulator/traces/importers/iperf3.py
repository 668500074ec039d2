"""Reports of iperf3, text and JSON; times are its own, and what was only sent is never called capacity."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source, skipped
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.iperf3_json import looks_like_json, read_json_report
from simulator.traces.importers.iperf3_rows import Report, Row, Series, meaning_of_losses
from simulator.traces.importers.iperf3_text import (
    looks_like_text,
    no_intervals,
    read_text_report,
    refuse_other_iperf,
)
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Trace
from simulator.traces.source import lines_of

_LAYERS = {"TCP": "tcp_payload", "UDP": "udp_payload"}
# Between the end of an interval and the start of the next one, s: JSON reads the clock for each.
_APART_S = 0.05
# No test is so long, s.
_MOST_S = 1e9
_WHOSE = {
    True: "sent, as its sender counts",
    False: "received, as its receiver counts",
    None: "as one end counts, the file does not say which",
}
# A last step that lacks less than this share of itself is whole.
_WHOLE = 0.01


class _Way(NamedTuple):
    """One direction: its series, the intervals of it that count, and what was left out."""

    series: Series
    rows: list[Row]
    notes: list[str]


def _recognises(lines: list[str]) -> bool:
    return looks_like_json(lines) or looks_like_text(lines)


def _read(source: Source, options: Options) -> Trace:
    if source.text.lstrip().startswith("{"):
        report = read_json_report(source)
    else:
        lines = lines_of(source.text)
        refuse_other_iperf(source, lines)
        report = read_text_report(source, lines, asked=options.direction)
    if not report.series:
        if report.error:
            raise Refusal(f"{source.path}: no interval in it, iperf3 ended with: {report.error[:120]}")
        raise no_intervals(source)
    ways = [_Way(one, *_counted(source, one.rows)) for one in _chosen(report, options)]
    starts_s = [way.rows[0].start_s for way in ways if way.rows]
    traces = [_one_way(source, options, report, way, max(starts_s, default=0.0)) for way in ways]
    return traces[0] if len(traces) == 1 else _both_ways(source, traces)


def _chosen(report: Report, options: Options) -> list[Series]:
    """Return one series for each direction: the receiver's where the file has it."""
    best: dict[str, Series] = {}
    for one in sorted(report.series, key=lambda series: series.sender is not False):
        best.setdefault(one.direction, one)
    if options.direction is None:
        return [best[direction] for direction in DIRECTIONS if direction in best]
    return [best.get(options.direction) or next(iter(best.values()))]


def _one_way(source: Source, options: Options, report: Report, way: _Way, start_s: float) -> Trace:
    """Return the trace of one direction, from a time on at which the others are there, too."""
    series = way.series
    direction = options.direction or series.direction
    notes = [*_origin(report, series), *way.notes]
    if way.rows and start_s - way.rows[0].start_s > _APART_S:
        notes.append(f"begins at {start_s:.4g} s, where the other direction does")
    rows = _after(way.rows, start_s + (options.skip_s or 0.0))
    if not rows:
        raise Refusal(f"{source.path}: no interval is left{skipped(options)}")
    step_s = options.step_s or 1.0
    ends = [row.end_s - rows[0].start_s for row in rows]
    steps = math.floor(ends[-1] / step_s + _WHOLE)
    if steps == 0:
        raise Refusal(f"{source.path}: {ends[-1]:.4g} s in all, less than a step of {step_s:g} s (--step)")
    ends[-1] = max(ends[-1], steps * step_s)
    starts = [row.start_s - rows[0].start_s for row in rows]
    spans = Rows(
        np.array(starts),
        np.array(ends),
        np.array([row.line for row in rows]),
        {DIRECTIONS[direction]: np.array([row.kbps for row in rows])},
    )
    layer = _LAYERS.get(series.protocol)
    said = {} if layer is None else {"rate_layer": layer}
    return from_intervals(
        source,
        spans,
        options,
        "iperf3",
        notes=notes,
        rate_meaning=_meaning(source, report, series, rows, notes),
        **said,
        note=f"iperf3 interval report, {series.protocol}{skipped(options)}",
    )


def _origin(report: Report, series: Series) -> list[str]:
    notes = [f"{_WHOSE[series.sender]}, at iperf3's own times"]
    if series.streams > 1:
        notes.append(f"sum of {series.streams} streams")
    if report.error:
        notes.append(f"iperf3 ended with: {report.error[:120]}")
    if report.cut:
        notes.append(f"the file ends in the middle of line {report.cut}, which is left out")
    return notes


def _counted(source: Source, rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Return the intervals that count, which follow one another, and what was left out."""
    notes = []
    kept = [row for row in rows if not row.omitted]
    if len(kept) < len(rows):
        notes.append(f"{len(rows) - len(kept)} (omitted) intervals left out")
    if rows and not kept:
        raise source.refusal(rows[-1].line, f"all {len(rows)} intervals are omitted (-O), none is left")
    # iperf3's clock begins anew behind what is omitted.
    before_s = kept[0].start_s if kept else 0.0
    if before_s > _APART_S and len(kept) < len(rows):
        before_s = max(row.end_s for row in rows if row.omitted)
    counted = []
    for row in kept:
        if row is kept[0] and row.start_s > _APART_S and row.end_s - row.start_s <= _APART_S:
            # iperf3 gives the beginning of that interval by the old clock, its end by the new one.
            notes.append(
                f"the first interval behind an omitted beginning left out: it is given as {row.start_s:.2f} to"
                f" {row.end_s:.2f} s (line {row.line}), and what its rate is over is not known"
            )
            before_s = row.end_s
            continue
        if not row.start_s <= row.end_s <= _MOST_S:
            raise source.refusal(row.line, f"an interval from {row.start_s:g} to {row.end_s:g} s")
        if abs(row.start_s - before_s) > _APART_S:
            raise source.refusal(
                row.line,
                f"an interval starts at {row.start_s:.2f} s, the one before ends at {before_s:.2f} s",
            )
        before_s = row.end_s
        if row.end_s > row.start_s:
            counted.append(row)
    return counted, notes


def _after(rows: list[Row], first_s: float) -> list[Row]:
    """Return the rows from a time on; an interval that reaches over it keeps its rest."""
    return [
        Row(row.line, max(row.start_s, first_s), row.end_s, row.kbps, row.lost, row.total)
        for row in rows
        if row.end_s > first_s + 1e-9
    ]


def _meaning(source: Source, report: Report, series: Series, rows: list[Row], notes: list[str]) -> str:
    """Say what the rate is: a link that loses datagrams is full, one that loses none carried what it was offered."""
    if series.protocol != "UDP":
        return "as_logged"
    if series.sender:
        if series.direction in report.nothing:
            raise Refusal(
                f"{source.path}: what was sent, of which the receiver got 0 bytes by its own sum: no rate of a"
                " link is in it (import the receiver's report, or run iperf3 with --get-server-output)"
            )
        total = report.totals.get(series.direction)
        notes.append("offered, what arrived is not in it" + (f": {total}" if total else ""))
        return "offered"
    counting = [row for row in rows if row.total]
    losing = sum(1 for row in counting if (row.lost or 0) > 0)
    notes.append(f"datagrams lost in {losing} of {len(rows)} intervals")
    return meaning_of_losses(losing, len(counting))


def _both_ways(source: Source, traces: list[Trace]) -> Trace:
    """Return one trace of both directions, as long as the shorter of them."""
    steps = min(len(trace.time_s) for trace in traces)
    columns = {name: values[:steps] for trace in traces for name, values in trace.columns().items()}
    said: dict[str, str] = {}
    for key in ("rate_meaning", "rate_layer", "note"):
        values = [trace.header.get(key) for trace in traces]
        if len(set(values)) == 1:
            said |= {} if values[0] is None else {key: values[0]}
        else:
            pairs = zip(traces, values, strict=True)
            said |= {f"{key}_{next(iter(t.columns()))}": v for t, v in pairs if v is not None}
    policies = [f"{next(iter(t.columns())).removesuffix('_kbps')}: {t.header['policy']}" for t in traces]
    return Trace(
        traces[0].time_s[:steps],
        header=source.header("iperf3", "; ".join(policies), **said),
        last_step_s=traces[0].last_step_s,
        source=str(source.path),
        **columns,
    )


IPERF3 = Importer(
    "iperf3",
    "iperf3's report, text or JSON (-J), client's or server's: its own times, both directions of --bidir",
    frozenset({"direction", "skip_s", "step_s"}),
    _recognises,
    _read,
)
