"""A process of ours that does without pandas: pyarrow and DuckDB work as where it is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from schemas.without_pandas import without_pandas

def work():
    table = pa.table({"a": [1, 2, None], "b": pa.array(np.arange(3.0)), "c": ["x", None, "z"]})
    pq.write_table(table, sys.argv[1])
    with duckdb.connect() as database:
        database.register("known", pq.read_table(sys.argv[1]))
        rows = database.execute("select a, b, c from known where b >= ?", [1]).fetchall()
    assert rows == [(2, 1.0, None), (None, 2.0, "z")], rows

KEPT
"""


def loaded(tmp_path, ending: str) -> str:
    program = PROGRAM.replace("KEPT", ending + '\nprint("pandas" in sys.modules)')
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "table.parquet")],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


def test_arrow_and_duckdb_load_pandas_by_themselves(tmp_path) -> None:
    """Where that ends, so may the module."""
    assert loaded(tmp_path, "work()") == "True"


def test_neither_does_in_the_block(tmp_path) -> None:
    assert loaded(tmp_path, "with without_pandas():\n    work()") == "False"


def test_behind_the_block_there_is_pandas(tmp_path) -> None:
    ending = "with without_pandas():\n    work()\nimport pandas\nassert pa.array(pandas.Series([1])).to_pylist() == [1]"
    assert loaded(tmp_path, ending) == "True"


def test_what_is_loaded_already_stays(tmp_path) -> None:
    assert loaded(tmp_path, "import pandas\nwith without_pandas():\n    import pandas\n    work()") == "True"


def test_in_the_block_an_import_says_so(tmp_path) -> None:
    ending = "with without_pandas():\n    import pandas"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        loaded(tmp_path, ending)
    assert "ModuleNotFoundError: this process does without pandas" in failed.value.stderr
