"""Every figure of metrics.json from the rows behind it, by definition: counting and sorting, no more.

Rows come in shares (`add`), and the figures at the end (`figures`).

A percentile is the nearest rank: the smallest value of the population with at least that share of it at or below. The
rank is ceil(share x n), in whole numbers, and so is every value: nanoseconds become milliseconds at the very end.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ivsim.audit.kafka_records import Kafka
from ivsim.audit.ledger import NOT_DUE, Consumed, Row, key_of

Figures = dict[str, Any]
HUNDREDTHS: Final = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
FATES: Final = ("delivered", "late", "lost", "refused", "unsent", "unknown")
HOPS: Final = ("vehicle", "link", "broker", "gateway", "uplink", "kafka", "platform")
REFUSING_HOPS: Final = ("broker", "gateway")
WAYS: Final = ("uplink", "downlink")
_OF_DELIVERED: Final = ("one_way_delay", "bridge_delay", "processing_delay", "end_to_end_latency")
_DELAYS: Final = (*_OF_DELIVERED, "acknowledgement_time")
_ARRIVED: Final = {"delivered", "late"}
# Means are of whole bit/s, ns and parts of 10^9.
_SCALES: Final = {
    "asked_rate_bps": 1.0,
    "asked_delay_ms": 1e6,
    "probe_delay_ms": 1e6,
    "asked_loss_ratio": 1e9,
}


def nearest_rank(values: Iterable[int], hundredths: int) -> int | None:
    """Return the smallest value with at least so many hundredths of all at or below it; None without values."""
    return _at_rank(sorted(values), hundredths)


def _at_rank(ordered: Sequence[int] | npt.NDArray[np.int64], hundredths: int) -> int | None:
    rank = -(-hundredths * len(ordered) // 100)
    return int(ordered[max(1, rank) - 1]) if len(ordered) else None


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


class Values:
    """The values of a figure over a whole run, eight bytes each."""

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, values: Iterable[int | None]) -> None:
        """Take those that are known."""
        self._values.extend(value for value in values if value is not None)

    def ms(self, *hundredths: int) -> list[float | None]:
        """Return a nearest rank for each share; None for a time below 0, which no clock can have seen."""
        ordered = np.sort(np.array(self._values, np.int64))
        ranks = [_at_rank(ordered, share) for share in hundredths]
        return [None if rank is not None and rank < 0 else _ms(rank) for rank in ranks]


def _quantiles(name: str, values: Values) -> Figures:
    named = [f"{name}_{word}_ms" for word in HUNDREDTHS]
    return dict(zip(named, values.ms(*HUNDREDTHS.values()), strict=True))


class MessageFigures:
    """Counts, ratios, delays and goodput of the ledger's rows.

    Args:
        window: begin and end of the measurement.
        kafka: its records are known.
    """

    def __init__(self, window: tuple[int, int], *, kafka: bool) -> None:
        self._window, self._kafka = window, kafka
        self._fates: Counter[str] = Counter()
        self._hops: Counter[tuple[str, str | None]] = Counter()
        self._counts = dict.fromkeys(("run_due", "due", "run_received"), 0)
        self._copies = self._unlogged = self._buffered = self._bytes = 0
        self._delays = {name: Values() for name in _DELAYS}
        self._lags = Values()

    def add(self, rows: Sequence[Row]) -> None:
        """Take some vehicles' rows."""
        measured = [row for row in rows if row["in_window"]]
        arrived = [row for row in measured if row["fate"] in _ARRIVED]
        self._fates.update(row["fate"] for row in measured)
        self._hops.update((row["fate"], row["hop"]) for row in measured)
        self._counts["run_due"] += sum(row["unsent_reason"] != NOT_DUE for row in rows)
        self._counts["due"] += len(measured)
        self._counts["run_received"] += sum(row["fate"] in _ARRIVED for row in rows)
        self._copies += sum(row["copies"] - 1 for row in measured if row["copies"] is not None)
        self._unlogged += sum(row["emitted_at_ns"] is None for row in arrived)
        self._buffered += sum(bool(row["buffered"]) for row in measured)
        self._bytes += sum(row["payload_bytes"] or 0 for row in arrived if row["fate"] == "delivered")
        for name, values in self._delays.items():
            values.add(row[f"{name}_ns"] for row in measured)
        self._lags.add(row["emission_lag_ns"] for row in measured)

    def figures(self) -> Figures:
        """Return the figures of all that was taken."""
        fates, hops, due = self._fates, self._hops, self._counts["due"]
        found: Figures = {**self._counts}
        found |= {fate: fates[fate] for fate in FATES}
        found |= {f"lost_at_{hop}": hops["lost", hop] for hop in HOPS}
        found |= {f"refused_by_{hop}": hops["refused", hop] for hop in REFUSING_HOPS}
        found["delivery_ratio"] = fates["delivered"] / due if due else None
        found["duplicates"] = self._copies if self._kafka else None
        found["unlogged_emissions"], found["buffered"] = self._unlogged, self._buffered
        for name, values in self._delays.items():
            found |= _quantiles(name, values)
        (found["emission_lag_p99_ms"],) = self._lags.ms(99)
        length_ns = self._window[1] - self._window[0]
        found["goodput_bps"] = self._bytes * 8 / (length_ns / 1e9) if length_ns > 0 else None
        if fates["unknown"]:
            # Which messages were delivered is not known, and so nothing that is said of those.
            found |= dict.fromkeys(("delivery_ratio", "goodput_bps", "unlogged_emissions"))
            found |= {f"{name}_{word}_ms": None for name in _OF_DELIVERED for word in HUNDREDTHS}
        return found


def window_figures(window: tuple[int, int], start_at_ns: int) -> Figures:
    """Return the bounds of the measurement, in seconds after the start."""
    since, until = ((at - start_at_ns) / 1e9 for at in window)
    return {"window_from_s": since, "window_to_s": until}


class KafkaFigures:
    """What Kafka, or a platform's consumer, had beyond the messages due; None for each where nothing gets there.

    Args:
        end: as `Terms` has it.
    """

    def __init__(self, end: str) -> None:
        self._names = ("twin_updates", "rejected_records", "unknown_records")
        self._found: dict[str, int] | None = dict.fromkeys(self._names, 0) if end == "twin" else None
        self._strangers = 0 if end == "consumer" else None
        self._whole = True

    def add(self, rows: Iterable[Row], kafka: Kafka, platform: Consumed | None = None) -> None:
        """Take the ledger's rows of some vehicles, and what Kafka or the platform held of these."""
        due = {key_of(row) for row in rows}
        if self._strangers is not None and platform is not None:
            self._strangers += sum(count for key, (_, count) in platform.had.items() if key not in due)
            self._whole &= platform.whole
        if self._found is None:
            return
        self._found["twin_updates"] += kafka.twin_updates
        self._found["rejected_records"] += kafka.rejected_records
        self._found["unknown_records"] += sum(
            copies.count for key, copies in kafka.copies.items() if key not in due
        )

    def figures(self) -> Figures:
        """Return the figures of all that was taken."""
        if self._found is None:
            unread: Figures = {} if self._whole else {"run_received": None}
            return {**dict.fromkeys(self._names), "unknown_records": self._strangers, **unread}
        return {**self._found}


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
    handshakes, connected = Values(), Values()
    handshakes.add(row["handshake_ns"] for row in rows or [])
    connected.add(_since_due(rows or []))
    return found | _quantiles("handshake_time", handshakes) | _quantiles("time_to_connected", connected)


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


class LinkFigures:
    """The figures of the link's log.

    Args:
        warmup_s: seconds before it are not counted; without a warm-up those before the start are.
        crossings: how often a delivered payload has crossed the link.
        from_ns: the end of the warm-up. The overhead is of the messages due from then on that were delivered, and unknown while
            the fate of one is.
    """

    def __init__(self, warmup_s: float, from_ns: int, crossings: int = 1) -> None:
        self._warmup_s, self._from_ns, self._crossings = warmup_s, from_ns, crossings
        self._ways = {way: _Way() for way in WAYS}
        self._delivered = self._delivered_bytes = 0
        self._sure = True

    def add(self, link: Iterable[Mapping[str, Any]], messages: Iterable[Row]) -> None:
        """Take some vehicles' rows of link.parquet and of the ledger."""
        for row in link:
            if row["direction"] in self._ways and (self._warmup_s == 0 or row["second"] >= self._warmup_s):
                self._ways[row["direction"]].add(row)
        due = [row for row in messages if row["due_at_ns"] >= self._from_ns]
        delivered = [row["payload_bytes"] or 0 for row in due if row["fate"] == "delivered"]
        self._sure &= all(row["fate"] != "unknown" for row in due)
        self._delivered += len(delivered)
        self._delivered_bytes += sum(delivered)

    def figures(self) -> Figures:
        """Return the figures of all that was taken."""
        found: Figures = {"overhead_bytes_per_message": None}
        for name, way in self._ways.items():
            found |= way.figures(name)
        wire = [found[f"wire_bytes_{way}"] for way in WAYS]
        if self._sure and self._delivered and None not in wire:
            payloads = self._crossings * self._delivered_bytes
            found["overhead_bytes_per_message"] = (sum(wire) - payloads) / self._delivered
        return found


class _Way:
    """The sums of one direction, over all rows and over those of the run, of the values that are known."""

    def __init__(self) -> None:
        self._all: dict[str, int] = {}
        self._run: dict[str, int] = {}
        self._means: dict[str, tuple[int, int]] = {}
        self._rows_of_run = 0

    def add(self, row: Mapping[str, Any]) -> None:
        _sum_up(self._all, row, ("wire_bytes", "probe_bytes"))
        if row["second"] < 0:
            return
        self._rows_of_run += 1
        _sum_up(self._run, row, ("wire_bytes", "probe_bytes", "qdisc_bytes", "qdisc_packets", "drops"))
        for name, scale in _SCALES.items():
            if row.get(name) is not None:
                total, count = self._means.get(name, (0, 0))
                self._means[name] = total + _whole(row[name] * scale), count + 1

    def figures(self, way: str) -> Figures:
        captured, probes = self._all.get("wire_bytes"), self._all.get("probe_bytes")
        run, rows = self._run, self._rows_of_run
        passed = run.get("qdisc_bytes")
        if passed is None and "wire_bytes" in run and "probe_bytes" in run:
            passed = run["wire_bytes"] - run["probe_bytes"]
        drops = run.get("drops")
        offered = run["drops"] + run["qdisc_packets"] if "drops" in run and "qdisc_packets" in run else None
        return {
            f"wire_bytes_{way}": None if captured is None or probes is None else captured - probes,
            f"probe_bytes_{way}": probes,
            f"link_rate_{way}_asked_bps": self._mean("asked_rate_bps"),
            f"link_rate_{way}_achieved_bps": passed * 8 / rows if passed is not None and rows else None,
            f"link_delay_{way}_asked_ms": self._mean("asked_delay_ms"),
            f"link_delay_{way}_achieved_ms": self._mean("probe_delay_ms"),
            f"link_loss_{way}_asked_ratio": self._mean("asked_loss_ratio"),
            f"link_loss_{way}_achieved_ratio": drops / offered if drops is not None and offered else None,
        }

    def _mean(self, name: str) -> float | None:
        """Return the mean, of values rounded to whole parts of their scale."""
        total, count = self._means.get(name, (0, 0))
        return total / count / _SCALES[name] if count else None


def _sum_up(sums: dict[str, int], row: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if row.get(name) is not None:
            sums[name] = sums.get(name, 0) + row[name]


def _whole(value: float) -> int:
    return int(Decimal(repr(float(value))).quantize(Decimal(1), ROUND_HALF_UP))
