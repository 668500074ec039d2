"""Audit and pipeline come to the same figures of a query, from answers and ledgers that no run would be glad of."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from ivsim.option_rules import run_options
from ivsim.runs import query_figures as of_run
from tests.ivsim.audit.whole import query_figures
from twin.queries import answers

ROOT = Path(__file__).resolve().parents[3]
SECOND = 1_000_000_000
LEDGER = pa.schema(
    [*answers.KEY, ("due_at_ns", pa.int64()), ("in_window", pa.bool_())],
)
# Vehicle, sequence, what is said of it: milliseconds after a start, and whether it counts.
MESSAGES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9)),
    st.tuples(st.integers(0, 5_000), st.booleans()),
    max_size=12,
)
ANSWERS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 9_000_000_000)), max_size=20
)


@given(MESSAGES, ANSWERS, st.sampled_from([1.0, 250.5, 1_000.0, 60_000.0]))
def test_both_say_the_same_of_a_query(
    messages: dict[tuple[str, int], tuple[int, bool]],
    given_answers: list[tuple[str, int, int]],
    limit_ms: float,
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "vehicle_id": who,
            "epoch": 1,
            "sequence": n,
            "due_at_ns": SECOND + at * 1_000_000,
            "in_window": counts,
        }
        for (who, n), (at, counts) in messages.items()
    ]
    said = [
        {
            "vehicle_id": who,
            "epoch": 1,
            "sequence": n,
            "station": "s",
            "distance_m": 1.0,
            "answered_at_ns": SECOND + at,
        }
        for who, n, at in given_answers
    ]
    options = run_options(
        query="nearest-station", stations=str(ROOT / "examples/stations.csv"), answer_limit_ms=limit_ms
    )
    with TemporaryDirectory() as name:
        directory = Path(name)
        pq.write_table(pa.Table.from_pylist(rows, schema=LEDGER), directory / "ledger.parquet")
        without = of_run.query_figures(directory, options)
        assert without == query_figures(options.model_dump(), None, rows)
        pq.write_table(pa.Table.from_pylist(said, schema=answers.SCHEMA), directory / answers.ANSWERS)
        assert of_run.query_figures(directory, options) == query_figures(options.model_dump(), said, rows)
