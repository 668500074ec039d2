"""The link log as one table: what was asked, what the kernel counted, what the vehicles' end saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from simulator.capture.second_log import to_table as wire_table

KEY = ("second", "vehicle_id", "direction")
SCHEMA = pa.schema(
    [
        ("second", pa.int32()),
        ("vehicle_id", pa.string()),
        ("direction", pa.string()),
        ("asked_rate_bps", pa.float64()),
        ("asked_delay_ms", pa.float64()),
        ("asked_loss_ratio", pa.float64()),
        ("asked_jitter_ms", pa.float64()),
        ("asked_reorder_ratio", pa.float64()),
        ("asked_burst_packets", pa.float64()),
        ("applied_at_ns", pa.int64()),
        ("update_ms", pa.float64()),
        ("counted_at_ns", pa.int64()),
        ("qdisc_bytes", pa.int64()),
        ("qdisc_packets", pa.int64()),
        ("drops", pa.int64()),
        ("queue_drops", pa.int64()),
        ("backlog_bytes", pa.int64()),
        ("probe_sent", pa.int32()),
        ("probe_received", pa.int32()),
        ("probe_delay_ms", pa.float64()),
        ("probe_bytes", pa.int64()),
    ]
)
# column of the link log <- column of the capture; wire bytes count the IP packet, as the glossary has it
WIRE = {
    "wire_bytes": "ip_bytes",
    "wire_packets": "packets",
    "retransmitted_bytes": "tcp_retransmitted_bytes",
    "pure_ack_packets": "tcp_pure_ack_packets",
    "keep_alive_packets": "tcp_keep_alive_packets",
}


def link_table(asked: list[dict[str, Any]], wire_events: Path) -> pa.Table:
    """Return link.parquet: one row per second (-1: before the start), vehicle and direction.

    Args:
        asked: the replay's rows with the probes' columns; empty when the run never started.
        wire_events: the capture's crash-safe log; when it is missing, its columns are null, not 0.
    """
    left = pa.Table.from_pylist(asked, schema=SCHEMA)
    if not wire_events.is_file():
        nulls = pa.nulls(left.num_rows, pa.int64())
        for name in WIRE:
            left = left.append_column(name, nulls)
        return left
    seen = wire_table(wire_events)
    seen = seen.filter(pc.is_valid(seen.column("vehicle_id"))).select([*KEY, *WIRE.values()])
    seen = seen.rename_columns([*KEY, *WIRE])
    joined = left.join(seen, keys=list(KEY), join_type="full outer")
    # The capture was running: a second without a frame is a measured nothing.
    for name in WIRE:
        index = joined.schema.get_field_index(name)
        joined = joined.set_column(index, name, pc.fill_null(joined.column(name), 0))
    return joined.sort_by([(name, "ascending") for name in KEY])
