"""Figures of the vehicles' connections, from what the run's owner wrote beside the emission log; Spark has no part in it."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow.parquet as pq

from ledger.config import LedgerConfig
from ledger.metrics import QUANTILES
from schemas.quantiles import nearest_rank_ms

HANDSHAKE: Final = "handshake_time"
CONNECTED: Final = "time_to_connected"


def figures(config: LedgerConfig) -> dict[str, Any]:
    """Return the counts of connections.parquet and the largest backlog of run.json; nothing where they are missing."""
    path = config.run_file("connections.parquet")
    if not path.is_file():
        return {}
    rows = pq.read_table(path).to_pylist()
    steps = [row["event"] for row in rows]
    handshakes = sorted(row["handshake_ns"] for row in rows if row["handshake_ns"] is not None)
    since_due = _since_due(rows)
    return {
        "connections": steps.count("connected"),
        "connect_failures": steps.count("connect_failed"),
        "disconnections": steps.count("disconnected"),
        "sessions_resumed": sum(row["session_present"] is True for row in rows),
        "backlog_max": _largest_backlog(config),
        **{f"{HANDSHAKE}_{name}_ms": nearest_rank_ms(handshakes, share) for name, share in QUANTILES.items()},
        **{f"{CONNECTED}_{name}_ms": nearest_rank_ms(since_due, share) for name, share in QUANTILES.items()},
    }


def _since_due(rows: list[dict[str, Any]]) -> list[int]:
    """Return, sorted, the ns from when a connection was due to the next that stood; empty without a connect rate."""
    due_at_ns: dict[str, int] = {}
    found = []
    for row in rows:
        if row["event"] == "connect_due":
            due_at_ns[row["vehicle_id"]] = row["at_ns"]
        elif row["event"] == "connected" and (due := due_at_ns.pop(row["vehicle_id"], None)) is not None:
            found.append(row["at_ns"] - due)
    return sorted(found)


def _largest_backlog(config: LedgerConfig) -> int | None:
    path = config.run_file("run.json")
    found = json.loads(path.read_text(encoding="utf-8")).get("backlog_max") if path.is_file() else None
    return None if found is None else int(found)
