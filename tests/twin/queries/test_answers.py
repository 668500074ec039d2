"""The answers' files and figures: made-up ledgers and answers, and the figures that follow from them by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twin.queries import answers
from twin.queries.answers import ANSWERS, BATCHES, QUERY_METRICS, SCHEMA

MS = 1_000_000


def rows(*sequences: int, vehicle: str = "a") -> pa.Table:
    found = [
        {"vehicle_id": vehicle, "epoch": 1, "sequence": n, "station": "s", "distance_m": 5.0}
        for n in sequences
    ]
    return pa.Table.from_pylist(found, schema=pa.schema(list(SCHEMA)[:-1]))


def ledger(directory: Path, due_ms: dict[int, int], outside: int | None = None) -> None:
    found: list[dict[str, Any]] = [
        {"vehicle_id": "a", "epoch": 1, "sequence": n, "due_at_ns": at * MS, "in_window": n != outside}
        for n, at in due_ms.items()
    ]
    schema = pa.schema(
        [
            ("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), ("due_at_ns", pa.int64()),
            ("in_window", pa.bool_()),
        ]
    )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(found, schema=schema), directory / "ledger.parquet")


def test_what_was_answered_in_time_is_a_share_of_what_was_due(tmp_path: Path) -> None:
    ledger(tmp_path, {1: 0, 2: 1_000, 3: 2_000, 4: 3_000, 5: 4_000}, outside=5)
    answers.write_batch(rows(1, 2), tmp_path, 0, lambda: 1_200 * MS)
    # The third message comes once more in a later batch: the first answer counts. Nothing is due as 9.
    answers.write_batch(rows(3, 5, 9), tmp_path, 1, lambda: 4_100 * MS)
    answers.write_batch(rows(3), tmp_path, 2, lambda: 9_000 * MS)
    answers.collect(tmp_path)
    found = answers.figures(tmp_path, limit_ms=1_200.0)
    assert found == {
        "answers": 3,
        "answers_in_time_ratio": 2 / 4,
        "answer_latency_mean_ms": pytest.approx((1_200 + 200 + 2_100) / 3),
        "answer_latency_p50_ms": 1_200.0,
        "answer_latency_p99_ms": 2_100.0,
    }
    assert set(found) == set(QUERY_METRICS)
    assert answers.figures(tmp_path, limit_ms=1_199.0)["answers_in_time_ratio"] == 1 / 4
    kept = pq.read_table(tmp_path / ANSWERS)
    assert kept.schema.equals(SCHEMA)
    assert kept["sequence"].to_pylist() == [1, 2, 3, 3, 5, 9]
    assert not (tmp_path / BATCHES).exists()


def test_a_batch_that_is_written_again_replaces_itself_and_an_empty_one_is_none(tmp_path: Path) -> None:
    for at in (1, 2):
        answers.write_batch(rows(1), tmp_path, 7, lambda at=at: at)
    answers.write_batch(rows(), tmp_path, 8)
    answers.collect(tmp_path)
    assert pq.read_table(tmp_path / ANSWERS)["answered_at_ns"].to_pylist() == [2]


def test_no_answer_is_none_in_time_and_no_ledger_is_not_known(tmp_path: Path) -> None:
    assert answers.figures(tmp_path, 1.0) == dict.fromkeys(QUERY_METRICS)
    answers.collect(tmp_path)
    assert answers.figures(tmp_path, 1.0) == dict.fromkeys(QUERY_METRICS)
    ledger(tmp_path, {1: 0})
    assert answers.figures(tmp_path, 1.0) == {
        **dict.fromkeys(QUERY_METRICS), "answers": 0, "answers_in_time_ratio": 0.0
    }  # fmt: skip
    ledger(tmp_path, {})
    assert answers.figures(tmp_path, 1.0)["answers_in_time_ratio"] is None
