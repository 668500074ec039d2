"""What each part of a mixed fleet came to: the run's own figures over the messages and bytes of its vehicles alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.mix import FleetPart
from ledger import definitions
from ledger.metrics import DIRECTIONS, FATES
from ledger.sql import listed, over_table
from ledger.values import OF_DELIVERED
from schemas.topics import vehicle_id

# Names of METRICS that are said of each part.
FIGURES: Final = (
    "due",
    *FATES,
    "delivery_ratio",
    "emission_lag_p99_ms",
    "end_to_end_latency_p50_ms",
    "end_to_end_latency_p99_ms",
    *(f"wire_bytes_{way}" for way in DIRECTIONS),
    "overhead_bytes_per_message",
)


def part_figures(
    ledger: Path, link: Path, parts: Sequence[FleetPart], *, topology: str, start_at_ns: int, warmup_s: float
) -> list[dict[str, Any]]:
    """Return of each part `protocol`, `mode`, `vehicles` (how many) and FIGURES; [] without a ledger.

    Args:
        ledger: ledger.parquet.
        link: link.parquet.
        parts: of the fleet.
        topology: as `LedgerConfig` has it.
        start_at_ns: when second 0 began.
        warmup_s: bytes of earlier seconds are not counted, nor payloads that were due there.
    """
    if not ledger.is_file():
        return []
    messages, seconds = pq.read_table(ledger), pq.read_table(link)
    found = []
    for part in parts:
        names = pa.array([vehicle_id(vehicle) for vehicle in part.vehicles])
        own, of_link = (table.filter(pc.is_in(table["vehicle_id"], names)) for table in (messages, seconds))
        head = {"protocol": part.protocol.name, "mode": part.mode.name, "vehicles": len(part.vehicles)}
        found.append(head | _figures(own, of_link, topology, start_at_ns, warmup_s))
    return found


def _figures(
    messages: pa.Table, seconds: pa.Table, topology: str, start_at_ns: int, warmup_s: float
) -> dict[str, Any]:
    from_ns = start_at_ns + round(warmup_s * 1e9) if warmup_s > 0 else None
    sums = {**definitions.COUNTS, **definitions.payload(from_ns, topology)}
    (row,) = over_table(f"select {listed(sums)} from rows", messages).to_pylist()  # noqa: S608 - our own text
    values = definitions.quantiles(lambda column: _measured_ns(messages, column)) | row
    values["delivery_ratio"] = definitions.ratio(row["delivered"], row["due"])
    if row["unknown"]:
        values |= dict.fromkeys(OF_DELIVERED)
    if warmup_s > 0:
        seconds = seconds.filter(pc.greater_equal(seconds["second"], warmup_s))
    wire = {way: _wire_bytes(seconds.filter(pc.equal(seconds["direction"], way))) for way in DIRECTIONS}
    values |= {f"wire_bytes_{way}": captured for way, captured in wire.items()}
    delivered = row["delivered_after_warmup"]
    if delivered and not row["unknown_after_warmup"] and None not in wire.values():
        values["overhead_bytes_per_message"] = (
            sum(filter(None, wire.values())) - int(row["payload_after_warmup"])
        ) / delivered
    return {name: values.get(name) for name in FIGURES}


def _measured_ns(messages: pa.Table, column: str) -> npt.NDArray[np.int64]:
    return np.asarray(messages[column].filter(messages["in_window"]).drop_null(), np.int64)


def _wire_bytes(seconds: pa.Table) -> int | None:
    """Return the bytes captured without the link's own probes; None without a capture, and where nobody knows the probes."""
    if not {"wire_bytes", "probe_bytes"} <= set(seconds.column_names):
        return None
    captured, probes = (pc.sum(seconds[name]).as_py() for name in ("wire_bytes", "probe_bytes"))
    return None if captured is None or probes is None else int(captured) - int(probes)
