"""Every figure of metrics.json from the rows behind it, by definition: counting and sorting, no more.

A percentile is the nearest rank: the smallest value of the population with at least that share of it at or below. The
rank is ceil(share x n), in whole numbers, and so is every value: nanoseconds become milliseconds at the very end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from ivsim.audit.kafka_records import Kafka
from ivsim.audit.ledger import Row, key_of

Figures = dict[str, Any]
HUNDREDTHS: Final = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
FATES: Final = ("delivered", "late", "lost", "refused", "unsent", "unknown")
HOPS: Final = ("vehicle", "link", "broker", "gateway", "uplink", "kafka")
REFUSING_HOPS: Final = ("broker", "gateway")
WAYS: Final = ("uplink", "downlink")
_OF_DELIVERED: Final = ("one_way_delay", "bridge_delay", "processing_delay", "end_to_end_latency")
_DELAYS: Final = (*_OF_DELIVERED, "acknowledgement_time")


def nearest_rank(values: Iterable[int], hundredths: int) -> int | None:
    """Return the smallest value with at least so many hundredths of all at or below it; None without values."""
    ordered = sorted(values)
    rank = -(-hundredths * len(ordered) // 100)
    return ordered[max(1, rank) - 1] if ordered else None


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _quantiles(name: str, values: Sequence[int]) -> Figures:
    return {f"{name}_{word}_ms": _ms(nearest_rank(values, share)) for word, share in HUNDREDTHS.items()}


def message_figures(rows: Sequence[Row], window: tuple[int, int], *, kafka: bool) -> Figures:
    """Return counts, ratios, delays and goodput of the ledger's rows; `kafka`: its records are known."""
    measured = [row for row in rows if row["in_window"]]
    fates = Counter(row["fate"] for row in measured)
    hops = Counter((row["fate"], row["hop"]) for row in measured)
    delivered = [row for row in measured if row["fate"] == "delivered"]
    arrived = [row for row in measured if row["fate"] in {"delivered", "late"}]
    found: Figures = {"run_due": len(rows), "due": len(measured)}
    found["run_received"] = sum(row["fate"] in {"delivered", "late"} for row in rows)
    found |= {fate: fates[fate] for fate in FATES}
    found |= {f"lost_at_{hop}": hops["lost", hop] for hop in HOPS}
    found |= {f"refused_by_{hop}": hops["refused", hop] for hop in REFUSING_HOPS}
    found["delivery_ratio"] = len(delivered) / len(measured) if measured else None
    further = sum(row["copies"] - 1 for row in measured if row["copies"] is not None)
    found["duplicates"] = further if kafka else None
    found["unlogged_emissions"] = sum(row["emitted_at_ns"] is None for row in arrived)
    found["buffered"] = sum(bool(row["buffered"]) for row in measured)
    for name in _DELAYS:
        found |= _quantiles(name, [row[f"{name}_ns"] for row in measured if row[f"{name}_ns"] is not None])
    lags = [row["emission_lag_ns"] for row in measured if row["emission_lag_ns"] is not None]
    found["emission_lag_p99_ms"] = _ms(nearest_rank(lags, 99))
    length_ns = window[1] - window[0]
    bits = sum(row["payload_bytes"] or 0 for row in delivered) * 8
    found["goodput_bps"] = bits / (length_ns / 1e9) if length_ns > 0 else None
    if fates["unknown"]:
        # Which messages were delivered is not known, and so nothing that is said of those.
        found |= dict.fromkeys(("delivery_ratio", "goodput_bps", "unlogged_emissions"))
        found |= {f"{name}_{word}_ms": None for name in _OF_DELIVERED for word in HUNDREDTHS}
    return found


def window_figures(window: tuple[int, int], start_at_ns: int) -> Figures:
    """Return the bounds of the measurement, in seconds after the start."""
    since, until = ((at - start_at_ns) / 1e9 for at in window)
    return {"window_from_s": since, "window_to_s": until}


def paid(rows: Iterable[Row], from_ns: int) -> list[int] | None:
    """Return the payloads of the messages due after the warm-up that were delivered; None while one is not known."""
    due = [row for row in rows if row["due_at_ns"] >= from_ns]
    if any(row["fate"] == "unknown" for row in due):
        return None
    return [row["payload_bytes"] or 0 for row in due if row["fate"] == "delivered"]


def kafka_figures(rows: Iterable[Row], kafka: Kafka | None) -> Figures:
    """Return what Kafka held beyond the messages due; None for each without Kafka."""
    if kafka is None:
        return dict.fromkeys(("twin_updates", "rejected_records", "unknown_records"))
    due = {key_of(row) for row in rows}
    unknown = sum(copies.count for key, copies in kafka.copies.items() if key not in due)
    return {
        "twin_updates": kafka.twin_updates,
        "rejected_records": kafka.rejected_records,
        "unknown_records": unknown,
    }


def connection_figures(steps: Iterable[Row] | None, backlog_max: int | None) -> Figures:
    """Return the vehicles' connections, from a row per step; None for each without a log."""
    rows = None if steps is None else list(steps)
    events = Counter(row["event"] for row in rows or [])
    counted = {
        "connections": "connected",
        "connect_failures": "connect_failed",
        "disconnections": "disconnected",
    }
    found: Figures = {name: None if rows is None else events[event] for name, event in counted.items()}
    found["sessions_resumed"] = None if rows is None else sum(row["session_present"] is True for row in rows)
    found["backlog_max"] = None if rows is None else backlog_max
    found |= _quantiles(
        "handshake_time", [row["handshake_ns"] for row in rows or [] if row["handshake_ns"] is not None]
    )
    return found | _quantiles("time_to_connected", _since_due(rows or []))


def _since_due(rows: Iterable[Row]) -> list[int]:
    """Return, of each vehicle whose connection was due at an instant, how long after it the first one stood."""
    waiting: dict[str, int] = {}
    took = []
    for row in rows:
        vehicle = row["vehicle_id"]
        if row["event"] == "connect_due":
            waiting[vehicle] = row["at_ns"]
        elif row["event"] == "connected" and vehicle in waiting:
            took.append(row["at_ns"] - waiting.pop(vehicle))
    return took


def link_figures(
    link: Iterable[Mapping[str, Any]] | None, warmup_s: float, delivered_bytes: Sequence[int] | None
) -> Figures:
    """Return the figures of the link's log.

    Args:
        link: rows of link.parquet; None without a log.
        warmup_s: seconds before it are not counted; without a warm-up those before the start are.
        delivered_bytes: what `paid` returns.
    """
    rows = [row for row in link or [] if warmup_s == 0 or row["second"] >= warmup_s]
    found: Figures = {"overhead_bytes_per_message": None}
    for way in WAYS:
        found |= _one_way(way, [row for row in rows if row["direction"] == way])
    wire = [found[f"wire_bytes_{way}"] for way in WAYS]
    if delivered_bytes and None not in wire:
        found["overhead_bytes_per_message"] = (sum(wire) - sum(delivered_bytes)) / len(delivered_bytes)
    return found


def _one_way(way: str, rows: Sequence[Mapping[str, Any]]) -> Figures:
    run = [row for row in rows if row["second"] >= 0]
    captured, probes = _total("wire_bytes", rows), _total("probe_bytes", rows)
    passed, in_run = _total("qdisc_bytes", run), _total("wire_bytes", run)
    probes_in_run = _total("probe_bytes", run)
    if passed is None and in_run is not None and probes_in_run is not None:
        passed = in_run - probes_in_run
    drops, packets = _total("drops", run), _total("qdisc_packets", run)
    offered = None if drops is None or packets is None else drops + packets
    return {
        f"wire_bytes_{way}": None if captured is None or probes is None else captured - probes,
        f"probe_bytes_{way}": probes,
        f"link_rate_{way}_asked_bps": _mean("asked_rate_bps", 1, run),
        f"link_rate_{way}_achieved_bps": passed * 8 / len(run) if passed is not None and run else None,
        f"link_delay_{way}_asked_ms": _mean("asked_delay_ms", 1e6, run),
        f"link_delay_{way}_achieved_ms": _mean("probe_delay_ms", 1e6, run),
        f"link_loss_{way}_asked_ratio": _mean("asked_loss_ratio", 1e9, run),
        f"link_loss_{way}_achieved_ratio": drops / offered if drops is not None and offered else None,
    }


def _total(name: str, rows: Iterable[Mapping[str, Any]]) -> int | None:
    known = [row[name] for row in rows if row.get(name) is not None]
    return sum(known) if known else None


def _mean(name: str, scale: float, rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean, of values rounded to whole parts of `scale`: bit/s, ns or parts of 10^9."""
    known = [_whole(row[name] * scale) for row in rows if row.get(name) is not None]
    return sum(known) / len(known) / scale if known else None


def _whole(value: float) -> int:
    return int(Decimal(repr(float(value))).quantize(Decimal(1), ROUND_HALF_UP))
