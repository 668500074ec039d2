"""One Spark that serves run after run has room for what Java compiles: its use grows less and less, far below its limit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.twin.code_cache import used_after_each
from tests.twin.made_up import MadeUpRun

RUNS = 20
MB = 1 << 20
# What is used may be three quarters of the room: when Java finds little free, it spends time on throwing compiled code
# away, and what a run needs at once has to find a place beside what the last one has left. Twenty runs use a third.
MOST_USED_RATIO = 3 / 4
# Spark makes the same classes for each run of a kind, and Java sweeps out those of the runs before: the second ten runs
# add a fifth of what the first ten did. Were all kept, each run would go on to add what the second to tenth did, and
# that is nearly half of the first ten's.
MOST_GROWTH_RATIO = 1 / 3


def assert_comes_to_rest(room_bytes: int, used_bytes: Sequence[int]) -> None:
    said = f"of {room_bytes / MB:.0f} MB, used after each run: {[round(used / MB, 1) for used in used_bytes]}"
    first, last = used_bytes[RUNS // 2 - 1], used_bytes[RUNS - 1] - used_bytes[RUNS // 2 - 1]
    assert max(used_bytes) <= MOST_USED_RATIO * room_bytes, said
    assert last <= MOST_GROWTH_RATIO * first, said


# On two cores of which others take most, a run takes up to 45 s.
@pytest.mark.timeout(1800)
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.full
def test_twenty_runs_in_a_row_leave_room_for_what_is_compiled(run: MadeUpRun) -> None:
    own = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, own) as process:
        room_bytes, used_bytes = process.submit(used_after_each, run.config, RUNS).result()
    assert room_bytes == 240 * MB
    assert len(used_bytes) == RUNS
    assert_comes_to_rest(room_bytes, used_bytes)


def test_what_would_fill_it_is_found() -> None:
    assert_comes_to_rest(240 * MB, [round((60 + 0.5 * run) * MB) for run in range(RUNS)])
    with pytest.raises(AssertionError, match="of 48 MB, used after each run"):
        assert_comes_to_rest(48 * MB, [40 * MB] * RUNS)
    with pytest.raises(AssertionError, match="of 240 MB, used after each run"):
        assert_comes_to_rest(240 * MB, [(35 + 4 * run) * MB for run in range(RUNS)])
