"""The page of a run that has no ledger: it opens, says why, and shows no figure."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.report.page import write_page
from ivsim.runs.directory import RunDirectory
from ivsim.runs.ledger_job import without_ledger
from ivsim.runs.validity import judge, sender_lag_p99_ms


def test_a_run_without_ledger_has_a_page_that_says_so(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    pq.write_table(pa.table({"vehicle_id": ["a", "a"]}), directory.emissions)
    metrics = without_ledger(directory) | {
        "partial_reason": "there is no ledger: ledger was ended by SIGKILL"
    }
    assert (metrics["run_due"], metrics["due"], metrics["partial"]) == (2, None, True)
    lag_ms = sender_lag_p99_ms(directory.ledger)
    assert lag_ms is None
    metrics["validity"] = judge(metrics, sender_lag_p99_ms=lag_ms, capture_drops=None).as_dict()
    directory.metrics.write_text(json.dumps(metrics))
    options = {
        "protocol": "mqtt", "mode": "qos1", "vehicles": 2, "interval_s": 1.0, "duration_s": 4.0, "format": "json",
        "link": "direct", "trace": "default", "loss_ratio": 0.0, "seed": 1,
    }  # fmt: skip
    manifest = {"run": "r", "options": options, "link": {"name": "direct"}, "start_at_ns": 1}
    directory.manifest.write_text(json.dumps(manifest))
    text = write_page(tmp_path).read_text()
    assert (
        "This run is invalid: the ledger is partial: there is no ledger: ledger was ended by SIGKILL." in text
    )
    assert "<td>clock source</td><td>unknown</td>" in text
