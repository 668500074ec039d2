"""The figures of each stage, from a ledger that was made up."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.load.by_stage import stage_figures
from ivsim.option_rules import run_options

START = 1_000_000_000_000
MS = 1_000_000


def ledger(path: Path, rows: list[tuple[int, str, int | None, int | None]]) -> Path:
    """Write rows of (due after the start in ms, fate, emission lag in ms, end-to-end latency in ms)."""
    columns = {
        "due_at_ns": [START + due * MS for due, *_ in rows],
        "fate": [fate for _, fate, *_ in rows],
        "emitted_at_ns": [None if lag is None else START + (due + lag) * MS for due, _, lag, _ in rows],
        "emission_lag_ns": [None if lag is None else lag * MS for *_, lag, _ in rows],
        "end_to_end_latency_ns": [None if late is None else late * MS for *_, late in rows],
    }
    types = pa.schema([(name, pa.string() if name == "fate" else pa.int64()) for name in columns])
    pq.write_table(pa.table(columns, types), path)
    return path


def test_a_message_belongs_to_the_stage_in_which_it_was_due(tmp_path: Path) -> None:
    options = run_options(stages=["2s:2", "4s:2-8"], vehicles=8, duration_s=6.0)
    path = ledger(
        tmp_path / "ledger.parquet",
        [
            (0, "delivered", 1, 10),
            (1_000, "delivered", 3, 30),
            (1_999, "lost", 5, None),
            (2_000, "delivered", 2, 40),
            (5_999, "unsent", None, None),
        ],
    )
    first, second = stage_figures(path, options, START)
    assert first._asdict() == {
        "duration_s": 2.0, "begin_vehicles": 2, "end_vehicles": 2, "due": 3, "offered_per_s": 1.5, "emitted_per_s": 1.5,
        "delivered_per_s": 1.0, "delivery_ratio": pytest.approx(2 / 3), "emission_lag_p99_ms": 5.0,
        "end_to_end_latency_p50_ms": 10.0, "end_to_end_latency_p99_ms": 30.0,
    }  # fmt: skip
    assert (second.begin_vehicles, second.end_vehicles, second.due) == (2, 8, 2)
    assert (second.emitted_per_s, second.delivery_ratio, second.emission_lag_p99_ms) == (0.25, 0.5, 2.0)


def test_what_is_not_known_is_not_said(tmp_path: Path) -> None:
    path = ledger(tmp_path / "ledger.parquet", [(0, "delivered", 1, 10), (10, "unknown", 1, None)])
    (only,) = stage_figures(path, run_options(vehicles=2), START)
    assert (only.begin_vehicles, only.end_vehicles, only.duration_s, only.due) == (2, 2, 60.0, 2)
    assert (only.delivered_per_s, only.delivery_ratio, only.end_to_end_latency_p99_ms) == (None, None, None)
    empty = stage_figures(
        path, run_options(stages=["1s:2", "1s:0"], vehicles=2, duration_s=2.0), START - 1_000 * MS
    )
    assert (empty[0].due, empty[0].delivery_ratio, empty[0].emission_lag_p99_ms) == (0, None, None)
    assert stage_figures(tmp_path / "missing.parquet", run_options(), START) == []
