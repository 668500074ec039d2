"""The values of METRICS from the ledger, the link log and the clock's record; exact, so that the audit can agree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ledger import connections, definitions
from ledger.config import LedgerConfig
from ledger.metrics import DIRECTIONS, LATENCIES, METRICS, QUANTILES
from ledger.sql import listed, over_file
from ledger.window import Window


@dataclass(frozen=True)
class KafkaCounts:
    """What was counted of a run's topics; None where nothing of them is known."""

    status_known: bool = True
    twin_updates: int | None = None
    rejected_records: int | None = None
    good_records: int | None = None


def compute(config: LedgerConfig, kafka: KafkaCounts, window: Window) -> dict[str, Any]:
    """Return every name in METRICS with its value, None where it is undefined or not known.

    What the figures are taken from is the run's ledger.parquet, written before.
    """
    path = config.run_file("ledger.parquet")
    (row,) = over_file(f"select {listed(_sums(config, kafka, window))} from ?", path)  # noqa: S608 - our own text
    values = definitions.quantiles(lambda column: measured_ns(path, column)) | _from_row(row, window)
    if row["unknown"]:
        # Who was delivered is not known, and so nothing that is said of those.
        values |= dict.fromkeys(OF_DELIVERED)
    if config.bridged and (kafka.twin_updates is None if config.twins else not kafka.status_known):
        values["run_received"] = None  # what the twins, or the consumer, have could not be read
    values |= {
        "twin_updates": kafka.twin_updates,
        "rejected_records": kafka.rejected_records,
        "unknown_records": _unknown(kafka, row),
        "clock_drift_ms": _clock_drift_ms(config),
    }
    values |= _link(config, window, row)
    values |= connections.figures(config)
    return {name: values.get(name) for name in METRICS}


# Figures of the messages that were delivered; None while the fate of a message in the window is not known.
OF_DELIVERED: Final = (
    "delivery_ratio",
    "goodput_bps",
    "unlogged_emissions",
    *(
        f"{name}_{quantile}_ms"
        for name, (_, population, _) in LATENCIES.items()
        if population.startswith("delivered")
        for quantile in QUANTILES
    ),
)


def _sums(config: LedgerConfig, kafka: KafkaCounts, window: Window) -> dict[str, str]:
    counted = config.bridged and kafka.status_known
    duplicates = definitions.DUPLICATES if counted else "cast(null as bigint)"
    explained = {"explained_records": "coalesce(sum(copies), 0)"}
    return {
        **definitions.COUNTS,
        "duplicates": duplicates,
        **explained,
        **definitions.payload(window.from_ns, config.topology),
    }


def measured_ns(path: Path, column: str) -> npt.NDArray[np.int64]:
    """Return a column's values in the window, from the ledger as it was written."""
    rows = pq.read_table(path, columns=[column, "in_window"])
    return np.asarray(rows[column].filter(rows["in_window"]).drop_null(), np.int64)


def _from_row(found: dict[str, Any], window: Window) -> dict[str, Any]:
    values = {name: found[name] for name in METRICS if name in found}
    values["window_from_s"] = window.since_start_s(window.from_ns)
    values["window_to_s"] = window.since_start_s(window.to_ns)
    values["delivery_ratio"] = definitions.ratio(found["delivered"], found["due"])
    if window.seconds:
        values["goodput_bps"] = (found["payload_in_window"] or 0) * 8 / window.seconds
    return values


def _unknown(kafka: KafkaCounts, row: dict[str, Any]) -> int | None:
    """Return how many good records belong to no message due; the ledger has each message once, with its copies."""
    return None if kafka.good_records is None else kafka.good_records - row["explained_records"]


def _clock_drift_ms(config: LedgerConfig) -> float | None:
    path = config.run_file("clock.json")
    if not path.is_file():
        return None
    drift = json.loads(path.read_text(encoding="utf-8")).get("clock_drift_ms")
    return None if drift is None else float(drift)


def _link(config: LedgerConfig, window: Window, row: dict[str, Any]) -> dict[str, Any]:
    path = config.run_file("link.parquet")
    if not path.is_file():
        return {}
    absent = _LINK_COLUMNS - set(pq.read_schema(path).names)
    # With no warm-up the seconds before the start count too: the handshakes are in them.
    measured = f"second >= {window.warmup_s}" if window.warmup_s > 0 else "true"
    columns = dict.fromkeys(sorted(absent), "cast(null as double)")
    columns |= {"measured": measured, "in_run": f"{measured} and second >= 0"}
    rows = f"(select *, {listed(columns)} from ?)"  # noqa: S608 - our own text
    sums = over_file(f"select direction, {listed(_LINK_SUMS)} from {rows} group by direction", path)  # noqa: S608
    found = {of_way["direction"]: of_way for of_way in sums}
    values: dict[str, Any] = {}
    for way in DIRECTIONS:
        values |= _one_way(way, found[way]) if way in found else {}
    wire = [values.get(f"wire_bytes_{way}") for way in DIRECTIONS]
    delivered = row["delivered_after_warmup"]
    if delivered and not row["unknown_after_warmup"] and None not in wire:
        values["overhead_bytes_per_message"] = (sum(wire) - row["payload_after_warmup"]) / delivered  # type: ignore[arg-type]
    return values


_LINK_COLUMNS = {
    "asked_rate_bps", "asked_delay_ms", "asked_loss_ratio", "wire_bytes", "qdisc_bytes", "qdisc_packets", "drops",
    "probe_delay_ms", "probe_bytes",
}  # fmt: skip


def _total(name: str, where: str) -> str:
    return f"cast(sum({name}) filter (where {where}) as bigint)"


# Means are sums of integers over counts: floating sums would depend on the order of the rows.
_MEANS: Final = {"asked_rate_bps": 1, "asked_delay_ms": 1e6, "asked_loss_ratio": 1e9, "probe_delay_ms": 1e6}
_LINK_SUMS: Final = {
    "captured": _total("wire_bytes", "measured"),
    "probes": _total("probe_bytes", "measured"),
    "probes_in_run": _total("probe_bytes", "in_run"),
    "passed_bytes": _total("qdisc_bytes", "in_run"),
    "passed_packets": _total("qdisc_packets", "in_run"),
    "wire_in_run": _total("wire_bytes", "in_run"),
    "drops": _total("drops", "in_run"),
    "rows": "count(*) filter (where in_run)",
    **{
        f"sum_{name}": _total(f"cast(round({name} * {scale:.0f}) as bigint)", "in_run")
        for name, scale in _MEANS.items()
    },
    **{f"n_{name}": f"count({name}) filter (where in_run)" for name in _MEANS},
}


def _less(captured: int | None, probes: int | None) -> int | None:
    return None if captured is None or probes is None else captured - probes


def _one_way(way: str, row: dict[str, Any]) -> dict[str, Any]:
    def mean(name: str, scale: float) -> float | None:
        return row[f"sum_{name}"] / row[f"n_{name}"] / scale if row[f"n_{name}"] else None

    # Without a capture they are undefined, and where nobody says what the probes were (the run was killed).
    wire = _less(row["captured"], row["probes"])
    in_run = _less(row["wire_in_run"], row["probes_in_run"])
    passed = row["passed_bytes"] if row["passed_bytes"] is not None else in_run
    offered = (row["drops"] or 0) + (row["passed_packets"] or 0)
    known = row["drops"] is not None and row["passed_packets"] is not None and offered > 0
    return {
        f"wire_bytes_{way}": wire,
        f"probe_bytes_{way}": row["probes"],
        f"link_rate_{way}_asked_bps": mean("asked_rate_bps", 1),
        f"link_rate_{way}_achieved_bps": passed * 8 / row["rows"]
        if passed is not None and row["rows"]
        else None,
        f"link_delay_{way}_asked_ms": mean("asked_delay_ms", 1e6),
        f"link_delay_{way}_achieved_ms": mean("probe_delay_ms", 1e6),
        f"link_loss_{way}_asked_ratio": mean("asked_loss_ratio", 1e9),
        f"link_loss_{way}_achieved_ratio": row["drops"] / offered if known else None,
    }
