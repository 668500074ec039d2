"""Results of a study as a run would have left them, made up: no link, no broker."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.study.cells import Task
from ivsim.study.engines.echo.metrics import echo_figures, measured
from ivsim.study.sealed import write_sealed
from ivsim.study.store import Store
from schemas.topics import vehicle_id

START_NS = 1_700_000_000_000_000_000
WAYS = ("uplink", "downlink")
PARTS = (
    "payload",
    "protocol",
    "transport",
    "ip",
    "link",
    "retransmitted",
    "acknowledgement",
    "tcp_acknowledgement",
    "unattributed",
)


def emissions(vehicles: int, messages: int, latency_ms: np.ndarray, lost: set[int] = frozenset()) -> pa.Table:
    """Return emissions.parquet of vehicles that send each 10 s; `lost` are rows that never came back."""
    count = vehicles * messages
    index = np.arange(count)
    due = START_NS + (index // vehicles) * 10_000_000_000 + (index % vehicles) * 1_000_000
    emitted = due + 500_000
    received = due + (latency_ms * 1e6).astype(np.int64)
    gone = np.isin(index, list(lost))
    return pa.table(
        {
            "vehicle_id": [vehicle_id(int(k % vehicles) + 1) for k in index],
            "epoch": pa.array(np.ones(count, np.int32)),
            "sequence": pa.array(index // vehicles + 1),
            "sampled_at_ns": pa.array(due),
            "due_at_ns": pa.array(due),
            "emitted_at_ns": pa.array(emitted),
            "acknowledged_at_ns": pa.nulls(count, pa.int64()),
            "refused_at_ns": pa.nulls(count, pa.int64()),
            "received_at_ns": pa.array(received, mask=gone),
            "payload_bytes": pa.array(np.full(count, 1_000, np.int32)),
            "unsent_reason": pa.nulls(count, pa.string()),
            "buffered": pa.array(np.zeros(count, bool)),
        }
    )


def wire(table: pa.Table, protocol: str = "mqtt", returned: int = 1_000, **parts: int) -> pa.Table:
    """Return wire_messages.parquet beside it, every message with the same bytes each way."""
    count = table.num_rows
    values = {"protocol": 40, "ip": 20, "link": 14, "payload": 1_000} | parts
    columns: dict[str, Any] = {
        "vehicle_id": table.column("vehicle_id"),
        "protocol": pa.array([protocol] * count),
        "first_sent_at_ns": table.column("emitted_at_ns"),
    }
    for part in PARTS:
        for way in WAYS:
            amount = returned if (part, way) == ("payload", "downlink") else values.get(part, 0)
            columns[f"{part}_bytes_{way}"] = pa.array(np.full(count, amount, np.int64))
    return pa.table(columns)


def keep_echo(
    store: Store, task: Task, latency_ms: float, spread_ms: float = 5.0, lost: set[int] = frozenset()
) -> None:
    """Keep an echo cell as done, with latencies around a mean."""
    options = task.cell.options
    messages = round(options.duration_s / options.interval_s)
    rng = np.random.default_rng(zlib.crc32(task.name.encode()))
    values = rng.normal(latency_ms, spread_ms, options.vehicles * messages)
    directory = store.begin(task)
    table = emissions(options.vehicles, messages, values, lost)
    pq.write_table(table, directory / "emissions.parquet")
    pq.write_table(wire(table), directory / "wire_messages.parquet")
    end_ns = START_NS + round(options.duration_s * 1e9)
    run = {"start_at_ns": START_NS, "warmup_s": 0.0, "end_at_ns": end_ns, "first_vehicle": 1}
    write_sealed(directory / "run.json", run)
    store.finish(task, echo_figures(measured(table, 1, START_NS, end_ns, options.loss_timeout_s)))
