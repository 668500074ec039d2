"""A column on the disk does what a list does, and takes no memory of its own."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capture.long_column import LongColumn

STEPS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda value: ("append", value)),
    st.integers(0, 200_000).map(lambda count: ("zeros", count)),
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 9)).map(lambda pair: ("set", pair)),
)


@given(st.lists(STEPS, max_size=12))
def test_it_holds_what_a_list_holds(steps: list[tuple[str, object]]) -> None:
    column, oracle = LongColumn(), list[int]()
    for step, value in steps:
        match step, value:
            case "append", int(number):
                column.append(number)
                oracle.append(number)
            case "zeros", int(count):
                column.extend_zeros(count)
                oracle += [0] * count
            case "set", (float(where), int(number)) if oracle:
                column[int(where * len(oracle))] = number
                oracle[int(where * len(oracle))] = number
    assert len(column) == len(oracle)
    assert list(column) == column.numbers().tolist() == oracle
    if oracle:
        assert column[len(oracle) - 1] == oracle[-1]
    with pytest.raises(IndexError):
        column[len(oracle)]


def test_no_file_is_left_and_no_memory_of_its_own_taken(tmp_path: Path) -> None:
    process = psutil.Process()

    def own_bytes() -> int:
        found = process.memory_info()
        return int(found.rss - found.shared)

    column = LongColumn(tmp_path)
    before = own_bytes()
    for number in range(2_000_000):
        column.append(number)
    assert own_bytes() - before < 4_000_000, "16 MB of numbers"
    assert list(tmp_path.iterdir()) == []
    assert column[1_999_999] == 1_999_999
