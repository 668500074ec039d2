"""A trace's statistics, each beside the real drives' where its profile is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from simulator.traces.layers import frame_factor
from simulator.traces.model import RATE_COLUMNS, Trace, of_round_trips
from simulator.traces.profiles import PROFILES
from simulator.traces.statistics import describe, outages, per_second, reference, runs

_RATE_HEAD = ("rate, kbit/s", "h", "mean", "median", "p5", "p95", "max", "zero %", "ACF 1, 2, 5, 10 s")
_RTT_HEAD = (
    "RTT, ms", "h", "mean", "median", "p5", "p95", "p99", "p99.9", "max", "ACF of the log 1, 2, 5, 10 s"
)  # fmt: skip
_OUT_HEAD = ("outage", "kbit/s <=", "share %", "per hour", "mean s", "median s", "p95 s", "max s")
_LOSS_HEAD = ("loss", "mean %", "seconds with loss %", "mean run s", "max run s")
_FALLBACK_THRESHOLD_KBPS = 100.0


def profile_of(trace: Trace, column: str) -> str | None:
    """The profile a generated column was drawn from, by the trace's own header."""
    name = trace.header.get(f"profile_{column}", "").partition(":")[0]
    return name if name in PROFILES else None


class Table(NamedTuple):
    """Figures of a trace, a row a series; the first column names it."""

    head: tuple[str, ...]
    rows: list[list[str]]


def facts(trace: Trace) -> list[str]:
    """Return how long a trace is, its header, and what a link makes of rates that count less than frames."""
    return [
        f"duration {trace.duration_s:g} s, {len(trace.time_s)} steps, then it starts again",
        *(f"{key}: {value}" for key, value in trace.header.items()),
        *(f"{name}: {values.min():g} to {values.max():g}" for name, values in trace.places().items()),
        *(
            f"on a link: {name} times {factor:.4f}, in Ethernet frames"
            for name in RATE_COLUMNS
            if name in trace.columns() and (factor := frame_factor(trace.rate_layer(name))) != 1.0
        ),
        *(
            f"on a link: {direction} unlimited, the trace has no {direction}_kbps"
            for direction in trace.unlimited
        ),
    ]


def tables(trace: Trace, against: str | None = None) -> list[Table]:
    """Return its statistics; `against` names a profile to stand beside the column it describes."""
    known = {column: profile_of(trace, column) for column in trace.columns()}
    if against is not None:
        known[PROFILES[against].column] = against
    rates = [column for column in RATE_COLUMNS if column in trace.columns()]
    found = []
    if rates:
        found.append(Table(_RATE_HEAD, [row for c in rates for row in _rate_rows(trace, c, known[c])]))
        found.append(Table(_OUT_HEAD, [row for c in rates for row in _outage_rows(trace, c, known[c])]))
    if trace.rtt_ms is not None:
        found.append(Table(_RTT_HEAD, _rtt_rows(trace, known["rtt_ms"])))
    if trace.loss_ratio is not None:
        found.append(Table(_LOSS_HEAD, _loss_rows(trace, known.get("rtt_ms"))))
    return found


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "-"
    if digits is None:
        digits = 0 if abs(value) >= 1000 or value == int(value) else 1
    return f"{value:,.{digits}f}"


def _acf(values: Sequence[float | None]) -> str:
    return " ".join("-" if value is None else f"{value:.2f}".replace("0.", ".", 1) for value in values)


def _rate_rows(trace: Trace, column: str, profile: str | None) -> list[list[str]]:
    own = describe(trace, column)
    q = own.quantiles
    rows = [
        [
            column,
            _number(own.hours, 2),
            *map(_number, (own.mean, q["median"], q["p5"], q["p95"], q["max"])),
            _number(100 * own.zero_share, 2),
            _acf(own.acf),
        ]
    ]
    known = reference(profile) if profile else None
    if known:
        rows.append(
            [
                f"  real: {known['series']}",
                _number(known["hours"], 2),
                *(_number(known[key]) for key in ("mean", "median", "p5", "p95", "max")),
                _number(100 * known["zero_share"], 2),
                _acf(known["acf"]),
            ]
        )
    return rows


def _outage_rows(trace: Trace, column: str, profile: str | None) -> list[list[str]]:
    known = (reference(profile) or {}).get("outage") if profile else None
    threshold = known["threshold_kbps"] if known else _FALLBACK_THRESHOLD_KBPS
    rows = []
    for limit in sorted({0.0, float(threshold)}):
        own = outages(trace, column, limit)
        figures = vars(own) | {"series": column}
        rows.append(_outage_row(figures, column))
        if known and limit == threshold:
            rows.append(_outage_row(known, "  real"))
    return rows


def _outage_row(figures: dict[str, Any], label: str) -> list[str]:
    return [
        label,
        f"{figures['threshold_kbps']:g}",
        _number(100 * figures["share"], 2),
        *(_number(figures[key], 1) for key in ("per_hour", "mean_s")),
        *(_number(figures[key], 0) for key in ("median_s", "p95_s", "max_s")),
    ]


def _rtt_rows(trace: Trace, profile: str | None) -> list[list[str]]:
    own = describe(trace, "rtt_ms")
    q = own.quantiles
    keys = ("median", "p5", "p95", "p99", "p999", "max")
    figures = [_number(own.mean, 1), *(_number(q[key]) for key in keys)]
    rows = [["rtt_ms", _number(own.hours, 2), *figures, _acf(own.acf)]]
    known = reference(profile) if profile else None
    if known:
        figures = [_number(known["mean"], 1), *(_number(known[key]) for key in keys)]
        rows.append([f"  real: {known['series']}", _number(known["hours"], 2), *figures, _acf(known["acf"])])
    return rows


def _loss_rows(trace: Trace, profile: str | None) -> list[list[str]]:
    values = per_second(trace, "loss_ratio")
    lengths = runs(values > 0)
    longest = (lengths.mean(), lengths.max()) if len(lengths) else (None, None)
    rows = [
        [
            "loss_ratio",
            _number(100 * float(values.mean()), 2),
            _number(100 * float((values > 0).mean()), 2),
            *(_number(value, 1) for value in longest),
        ]
    ]
    known = reference(profile) if profile else None
    if known and "loss_ratio" in known:
        back = 100 * float(of_round_trips(values).mean())
        rows.append(["  of round trips", _number(back, 2), "-", "-", "-"])
        rows.append([f"  real: {known['series']}", _number(100 * known["loss_ratio"], 2), "-", "-", "-"])
    return rows
