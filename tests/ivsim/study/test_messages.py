"""Cells of one seed are compared message by message, so that what the link did to both drops out."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.study.cells import DONE, Cell, Kept, Task
from ivsim.study.clusters import Clusters, difference_of_intervals, ratio_of_means
from ivsim.study.compare import APART, MESSAGE, row_of
from ivsim.study.engines.whole_run.observations import LedgerObservations
from ivsim.study.messages import Messages, by_message, in_common, keys_of, paired, quantile_of
from ivsim.study.results import CellObservations, CellResult
from ivsim.study.statistics import Interval
from schemas.topics import vehicle_id

REPETITIONS, VEHICLES, EACH = 4, 10, 30
SHAPE = (REPETITIONS, VEHICLES, EACH)


class Cellful(CellObservations):
    """A cell with one value a message."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def messages(self, metric: str) -> Messages | None:
        return self._messages

    def interval(self, metric: str) -> Interval:
        return self._messages.clusters().quantile(0.5)


def cell(values: Any, keys: Any = None) -> Cellful:
    r, v, k = np.indices(np.shape(values))
    return Cellful(Messages(np.ravel(values), keys_of(r, v, k).ravel() if keys is None else keys, *SHAPE[:2]))


def roads(seed: int, shift: float) -> tuple[Cellful, Cellful]:
    """What the link does is in both, with a heavy tail. The second takes `shift` longer; runs differ by themselves, too."""
    rng = np.random.default_rng(seed)
    road = rng.exponential(200.0, SHAPE) + 100.0 * rng.standard_normal((*SHAPE[:2], 1))
    own = [rng.standard_normal(SHAPE) + 0.3 * rng.standard_normal((*SHAPE[:1], 1, 1)) for _ in range(2)]
    return cell(road + own[0]), cell(road + shift + own[1])


def test_a_median_is_that_of_the_messages_differences() -> None:
    first, second = roads(1, 3.0)
    found = by_message("acknowledgement_time_p50_ms", first, second)
    assert found is not None
    assert 1.5 < found.low < 3 < found.high < 5
    assert found.p_value < 1e-3
    assert found.repetitions == REPETITIONS
    apart = difference_of_intervals(*(one.messages("").clusters().quantile(0.5) for one in (first, second)))
    assert apart is not None
    assert apart.low < 0 < apart.high, "which nobody could tell from the cells apart"


def test_the_median_of_differences_has_an_interval_that_holds_and_a_test_that_does() -> None:
    trials = 200
    found = [by_message("x_p50_ms", *roads(100 + k, 3.0)) for k in range(trials)]
    held = np.mean([one is not None and one.low <= 3.0 <= one.high for one in found])
    slack = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert 0.93 - slack <= held
    alike = [by_message("x_p50_ms", *roads(500 + k, 0.0)) for k in range(trials)]
    assert np.mean([one is not None and one.p_value < 0.05 for one in alike]) <= 0.05 + slack


def test_of_all_messages_that_take_longer_the_test_is_sure() -> None:
    first, _ = roads(1, 0.0)
    values = first.messages("").values
    found = by_message("x_p50_ms", first, cell((values + 1.0).reshape(SHAPE)))
    assert found is not None
    assert (found.difference, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.p_value < 1e-9
    same = by_message("x_p50_ms", first, first)
    assert same is not None
    assert (same.difference, same.p_value) == (0.0, 1.0)


def test_a_mean_is_that_of_the_messages_both_have_and_a_tail_is_none() -> None:
    values = np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE)
    other = values + 2.0
    other[0, 0, 0] = np.nan  # never received there
    first, second = cell(values), cell(other)
    found = by_message("latency_mean_ms", first, second)
    assert found is not None
    assert found.difference == pytest.approx(2.0)
    assert by_message("latency_p99_ms", first, second) is None
    assert by_message("latency_mean_ms", first, CellObservations()) is None


def test_a_ratio_is_that_of_the_messages_both_have() -> None:
    still, lossy = (one.messages("") for one in roads(3, 0.0))
    assert still is not None
    assert lossy is not None
    gone = np.random.default_rng(4).random(lossy.values.size) < 0.5
    gone[np.argmax(still.values)] = True
    lossy = Messages(np.where(gone, np.nan, lossy.values), lossy.keys, *SHAPE[:2])
    found = in_common(lossy, still)
    assert found is not None
    assert found[0].keys.size == found[1].keys.size == (~gone).sum()
    assert all(np.isfinite(one.values).all() for one in (*found, *(in_common(still, lossy) or [])))
    of_both, of_all = (
        ratio_of_means(one.clusters(), other.clusters(), same_units=True)
        for one, other in (found, (lossy, still))
    )
    assert of_both.low < 1 < of_both.high
    assert 10 * (of_both.high - of_both.low) < of_all.high - of_all.low


def test_what_has_too_little_in_common_is_not_paired() -> None:
    values = np.zeros(SHAPE)
    first = cell(values).messages("")
    elsewhere = Messages(first.values, first.keys + 100, REPETITIONS, VEHICLES)
    assert paired(first, elsewhere) is None
    assert in_common(first, elsewhere) is None

    def shared(one_in: int) -> Messages:
        away = np.arange(first.keys.size) % one_in == 0
        return Messages(first.values, np.where(away, first.keys + 100, first.keys), REPETITIONS, VEHICLES)

    assert paired(first, shared(5)) is None
    found = paired(first, shared(20))
    assert found is not None
    assert found.n == first.values.size * 0.95


def test_cells_that_send_at_other_times_are_not_paired() -> None:
    """The second half of a minute was slow; who sends twice as often has sent as many messages by its middle."""
    rate_1 = np.arange(60) * 1_000
    rate_2 = np.arange(120) * 500
    one, two = (
        Messages(np.where(due_ms < 30_000, 10.0, 100.0), keys_of(0, np.zeros_like(due_ms), due_ms), 1, 1)
        for due_ms in (rate_1, rate_2)
    )
    assert paired(one, two) is None
    assert one.clusters().mean().estimate == two.clusters().mean().estimate


def test_of_one_vehicle_the_unit_is_a_batch_of_messages_in_a_row() -> None:
    keys = keys_of(0, np.zeros(100, np.int64), np.arange(100)[::-1])
    found = Messages(np.arange(100.0), keys, 1, 1).clusters()
    assert (found.kind, found.values[0]) == ("batch of messages in a row", 99.0)


@pytest.mark.parametrize(
    ("metric", "found"),
    [("one_way_delay_p99_ms", ("one_way_delay", 0.99)), ("one_way_delay_max_ms", None), ("lost", None)],
)
def test_a_quantile_is_known_by_its_name(metric: str, found: Any) -> None:
    assert quantile_of(metric) == found


def written(directory: Path, rows: list[tuple[int, int, int | None]], start_ns: int) -> Path:
    """Write a ledger: vehicle, second at which a message was due, ms until it was acknowledged."""
    directory.mkdir()
    table = pa.table(
        {
            "vehicle_id": [vehicle_id(vehicle) for vehicle, _, _ in rows],
            "due_at_ns": pa.array([start_ns + second * 1_000_000_000 for _, second, _ in rows], pa.int64()),
            "in_window": [second > 0 for _, second, _ in rows],
            "fate": ["delivered"] * len(rows),
            "acknowledgement_time_ns": pa.array(
                [None if ms is None else ms * 1_000_000 for *_, ms in rows], pa.int64()
            ),
        }
    )
    pq.write_table(table, directory / "ledger.parquet")
    return directory


def test_ledgers_of_two_runs_name_a_message_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of their rows, their clocks, and what one of them lost."""
    monkeypatch.setattr("ivsim.study.engines.whole_run.observations.check", lambda *_: None)
    due = [(vehicle, second) for vehicle in (1, 2, 3) for second in range(30)]
    one = written(tmp_path / "a", [(v, s, 100 * v + s) for v, s in due], 1_000)
    two = written(
        tmp_path / "b",
        [(v, s, None if (v, s) == (2, 7) else 100 * v + s + v) for v, s in reversed(due)],
        5_000,
    )
    first, second = (LedgerObservations([directory]) for directory in (one, two))
    metric = "acknowledgement_time_p50_ms"
    apart = paired(*(found for side in (first, second) if (found := side.messages(metric)) is not None))
    assert apart is not None
    assert apart.n == 3 * 29 - 1, "in the window, and known on both sides"
    assert sorted(set(apart.values)) == [1.0, 2.0, 3.0]
    assert [set(apart.values[apart.unit == unit]) for unit in range(3)] == [{1.0}, {2.0}, {3.0}]
    assert by_message(metric, first, second) is None, (
        "three vehicles of one run are too few for a median's bounds"
    )


def result(figures: list[dict[str, Any]], observations: CellObservations, seed: int = 1) -> CellResult:
    made = Cell("c", "", {}, SimpleNamespace())
    kept = [Kept(Task(made, k + 1), DONE, None, one, Path(), seed + k) for k, one in enumerate(figures)]
    return CellResult(made, kept, observations)


def test_what_a_repetition_has_once_is_compared_repetition_by_repetition() -> None:
    """The machine was slower in each block than in the one before, and for both alike."""
    first = result([{"cpu": c} for c in (10.0, 20.0, 30.0, 40.0, 50.0)], CellObservations())
    second = result([{"cpu": c} for c in (11.0, 21.5, 30.5, 41.0, 51.0)], CellObservations())
    row = row_of("cpu", first, second)
    assert row.comparison is not None
    assert (row.by, row.comparison.repetitions) == ("repetition", 5)
    assert 0.5 < row.comparison.low < 1 < row.comparison.high < 1.5
    other = result([{"cpu": c} for c in (11.0, 21.5, 30.5, 41.0, 51.0)], CellObservations(), seed=9)
    row = row_of("cpu", first, other)
    assert row.comparison is not None
    assert (row.by, row.comparison.low < 0) == (APART, True)


def test_a_share_of_few_repetitions_is_not_called_sure_since_all_are_alike() -> None:
    class Lossy(CellObservations):
        def __init__(self, lost: int) -> None:
            r, v, k = np.indices(SHAPE)
            self._clusters = Clusters((k < lost).astype(float).ravel(), r.ravel(), v.ravel(), *SHAPE[:2])

        def interval(self, metric: str) -> Any:
            return self._clusters.share()

    sides = [result([{"lost_ratio": lost / EACH}] * 4, Lossy(lost)) for lost in (0, 1)]
    assert row_of("lost_ratio", *sides).by == APART


def test_latencies_of_two_cells_are_compared_by_message() -> None:
    first, second = (result([{}] * REPETITIONS, one) for one in roads(1, 3.0))
    assert row_of("x_p50_ms", first, second).by == MESSAGE
