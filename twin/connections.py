"""Figures of the vehicles' connections, from what the run's owner wrote beside the emission log; Spark has no part in it."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow.parquet as pq

from schemas.quantiles import nearest_rank_ms
from twin.config import TwinConfig
from twin.metrics import QUANTILES

HANDSHAKE: Final = "handshake_time"


def figures(config: TwinConfig) -> dict[str, Any]:
    """Return the counts of connections.parquet and the largest backlog of run.json; nothing where they are missing."""
    path = config.run_file("connections.parquet")
    if not path.is_file():
        return {}
    rows = pq.read_table(path).to_pylist()
    steps = [row["event"] for row in rows]
    handshakes = sorted(row["handshake_ns"] for row in rows if row["handshake_ns"] is not None)
    return {
        "connections": steps.count("connected"),
        "connect_failures": steps.count("connect_failed"),
        "disconnections": steps.count("disconnected"),
        "sessions_resumed": sum(row["session_present"] is True for row in rows),
        "backlog_max": _largest_backlog(config),
        **{f"{HANDSHAKE}_{name}_ms": nearest_rank_ms(handshakes, share) for name, share in QUANTILES.items()},
    }


def _largest_backlog(config: TwinConfig) -> int | None:
    path = config.run_file("run.json")
    found = json.loads(path.read_text(encoding="utf-8")).get("backlog_max") if path.is_file() else None
    return None if found is None else int(found)
