"""The answers of a query as files of a run, and how long after its message was due each was there; no Spark here."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledger.metrics import Metric

KEY: Final = (("vehicle_id", pa.string()), ("epoch", pa.int64()), ("sequence", pa.int64()))
SCHEMA: Final = pa.schema(
    [*KEY, ("station", pa.string()), ("distance_m", pa.float64()), ("answered_at_ns", pa.int64())]
)
# Of a batch each while the run goes on; one file of all when it is over.
BATCHES: Final = "answers"
ANSWERS: Final = "answers.parquet"
_NAMES: Final = [name for name, _ in KEY]
_WINDOW: Final = "due in the window"
QUERY_METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric("answers", "1", _WINDOW, "messages that the query has answered"),
        Metric("answers_in_time_ratio", "ratio", _WINDOW, "answered within the limit, of all that were due"),
        Metric("answer_latency_mean_ms", "ms", "answered", "the answer was there, minus due time, mean"),
        Metric("answer_latency_p50_ms", "ms", "answered", "the answer was there, minus due time, p50"),
        Metric("answer_latency_p99_ms", "ms", "answered", "the answer was there, minus due time, p99"),
    )
}


def write_batch(
    found: pa.Table, run_dir: Path, number: int, now_ns: Callable[[], int] = time.time_ns
) -> None:
    """Write the answers of a batch with the time at which they are there; the same batch again replaces them.

    Args:
        found: SCHEMA's columns but the last.
        run_dir: of the run.
        number: of the batch.
        now_ns: the clock.
    """
    if not found.num_rows:
        return
    directory = run_dir / BATCHES
    directory.mkdir(exist_ok=True)
    stamped = found.append_column("answered_at_ns", pa.array([now_ns()] * found.num_rows, pa.int64()))
    path = directory / f"batch-{number:08d}.parquet"
    temporary = path.with_suffix(".part")
    pq.write_table(stamped.select(SCHEMA.names).cast(SCHEMA), temporary)
    temporary.replace(path)


def collect(run_dir: Path) -> None:
    """Make one file, answers.parquet, of all batches; without any it has no row."""
    directory = run_dir / BATCHES
    tables = [pq.read_table(path) for path in sorted(directory.glob("batch-*.parquet"))]
    order = [(name, "ascending") for name in (*_NAMES, "answered_at_ns")]
    pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]).sort_by(order), run_dir / ANSWERS)
    shutil.rmtree(directory, ignore_errors=True)


def figures(run_dir: Path, limit_ms: float) -> dict[str, Any]:
    """Return QUERY_METRICS of a run from its ledger and answers.parquet; all None without either.

    Of a message that was answered twice the first answer counts.
    """
    ledger, path = run_dir / "ledger.parquet", run_dir / ANSWERS
    if not (ledger.is_file() and path.is_file()):
        return dict.fromkeys(QUERY_METRICS)
    rows = pq.read_table(ledger, columns=[*_NAMES, "due_at_ns", "in_window"])
    due = rows.filter(rows["in_window"]).select([*_NAMES, "due_at_ns"])
    due = due.cast(pa.schema([*KEY, ("due_at_ns", pa.int64())]))
    first = pq.read_table(path).group_by(_NAMES).aggregate([("answered_at_ns", "min")])
    both = due.join(first, _NAMES, join_type="inner")
    latency_ns = sorted(pc.subtract(both["answered_at_ns_min"], both["due_at_ns"]).to_pylist())
    count = len(latency_ns)
    in_time = sum(one <= limit_ms * 1e6 for one in latency_ns)
    return {
        "answers": count,
        "answers_in_time_ratio": in_time / due.num_rows if due.num_rows else None,
        "answer_latency_mean_ms": sum(latency_ns) / count / 1e6 if count else None,
        # Nearest rank, in whole numbers, as all quantiles of a run are taken.
        "answer_latency_p50_ms": latency_ns[-(-count * 50 // 100) - 1] / 1e6 if count else None,
        "answer_latency_p99_ms": latency_ns[-(-count * 99 // 100) - 1] / 1e6 if count else None,
    }
