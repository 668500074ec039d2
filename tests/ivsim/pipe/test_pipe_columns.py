"""What a client has written survives a kill -9 of it, row by row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.study.engines.pipe.columns import Journal, MappedColumns, journaled, mapped, write

NAMES = ("first", "second", "last")
KILLED = """
import os, signal, sys
from pathlib import Path
from ivsim.study.engines.pipe.columns import Journal, MappedColumns
kept = MappedColumns(Path(sys.argv[1]), ("first", "second", "last"), 10, "last").columns
for value in range(1, 5):
    for column in kept.values():
        column.append(value)
kept["first"].append(99)
with Journal(Path(sys.argv[2])) as journal:
    journal.write([[1, 2], [3, 4]])
    journal.write([(5,), (6,)])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_both_outlive_a_kill_and_the_next_process_goes_on(tmp_path):
    columns, rows = tmp_path / "columns", tmp_path / "rows"
    done = subprocess.run([sys.executable, "-c", KILLED, str(columns), str(rows)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert journaled(rows, 2).tolist() == [[1, 2, 5], [3, 4, 6]]
    again = MappedColumns(columns, NAMES, 10, "last").columns
    # A row that was not finished was not made: it is written over.
    assert [len(column) for column in again.values()] == [4, 4, 4]
    again["first"].append(7)
    again["second"][2] = 55
    assert mapped(columns, 3, 5).tolist() == [[1, 2, 3, 4, 7], [1, 2, 55, 4, 0], [1, 2, 3, 4, 0]]


def test_columns_hold_no_more_than_was_said(tmp_path):
    columns = MappedColumns(tmp_path / "c", NAMES, 2, "last").columns
    for value in (1, 2):
        columns["last"].append(value)
    with pytest.raises(IndexError):
        columns["last"].append(3)
    assert len(MappedColumns(tmp_path / "c", NAMES, 2, "last").columns["first"]) == 2


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)), max_size=20), st.integers(0, 15)
)
def test_a_row_that_was_cut_short_was_not_written(tmp_path_factory, rows, cut):
    path = tmp_path_factory.mktemp("journal") / "rows"
    with Journal(path) as journal:
        for row in rows:
            journal.write([[value] for value in row])
    os.truncate(path, max(0, path.stat().st_size - cut))
    whole = rows[: len(rows) - (1 if cut and rows else 0)]
    assert journaled(path, 2).T.tolist() == [list(row) for row in whole]


def test_columns_of_one_that_lives_are_written_at_the_end(tmp_path):
    write(tmp_path / "c", {"a": array("q", [1, 2]), "b": array("q", [3, 4])})
    assert np.fromfile(tmp_path / "c", np.int64).tolist() == [1, 2, 3, 4]
