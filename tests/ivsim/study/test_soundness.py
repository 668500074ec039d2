"""A study whose repetitions are not valid says so first, beside each figure, and by its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ivsim.commands.study import EXIT_INVALID, outcome_of
from ivsim.library.studies import load_study
from ivsim.study.cells import DONE, FAILED, Cell, Kept, Task
from ivsim.study.compare import compare
from ivsim.study.report import sections
from ivsim.study.results import CellResult
from ivsim.study.soundness import beside, first_words, section
from ivsim.study.store import Store
from ivsim.study.summary import DASH

LATE = {"verdict": "degraded", "causes": [{"name": "link_changes_late"}]}
BOTH = {"verdict": "degraded", "causes": [{"name": "link_changes_late"}, {"name": "generator_limited"}]}
INVALID = {"verdict": "invalid", "causes": [{"name": "capture_dropped"}]}


def result(*figures: dict[str, Any]) -> CellResult:
    cell = Cell("one", "", {}, None)
    return CellResult(cell, [Kept(Task(cell, n), DONE, None, f, Path()) for n, f in enumerate(figures, 1)])


def test_valid_repetitions_need_no_words() -> None:
    found = [result({}, {"validity": {"verdict": "valid"}, "certificate": {"verdict": "proven"}})]
    assert first_words(found) == ""
    assert beside(found[0]) == "valid"


def test_reasons_are_counted_by_repetition_and_an_off_link_is_one() -> None:
    found = [
        result({"validity": LATE}, {"validity": BOTH}, {"certificate": {"verdict": "off"}}),
        result({"validity": INVALID}),
        result({"validity": {"verdict": "valid"}}),
    ]
    assert first_words(found) == (
        "**4 of 5 repetitions are not valid** (2 degraded, 1 link off, 1 invalid): link changes late 2,"
        " generator limited 1, link off 1, capture dropped 1."
    )
    assert [beside(one) for one in found] == ["2 degraded, 1 link off", "invalid", "valid"]
    assert beside(CellResult(found[0].cell)) == "none"


def test_repetitions_that_are_not_valid_stand_with_their_reasons_and_the_load() -> None:
    of_pipe = {"verdict": "degraded", "causes": [{"words": "emission lag p99 40 ms (limit 10 ms)"}]}
    found = [result({"validity": of_pipe}, {"validity": LATE}, {})]
    failed = (
        found[0]
        .kept[2]
        ._replace(state=FAILED, reason="invalid: 3 arrivals", invalid=True, figures={}, load_average=7.25)
    )
    found[0].kept[2] = failed
    assert first_words(found).startswith(
        "**3 of 3 repetitions are not valid** (2 degraded, 1 invalid): emission lag"
    )
    text = section(found)
    assert f"| one/1 | degraded | emission lag p99 40 ms (limit 10 ms) | {DASH} |" in text
    assert "| one/3 | invalid | invalid: 3 arrivals | 7.2 |" in text
    assert section([result({})]) == ""
    assert found[0].valid == []


def test_a_repetition_that_is_not_valid_has_no_part_in_a_difference(
    made_store: Callable[..., tuple[Store, list[Cell]]],
) -> None:
    store, cells = made_store("first", lambda _: 90.0)
    other, _ = made_store("second", lambda _: 200.0)
    sides = [(one, load_study(one.path).cells) for one in (store, other)]
    before = {row.verdict for row in compare(*sides).rows if row.cell == cells[0].name}
    assert "yes" in before
    degraded(other, cells)
    sides[1] = (other, load_study(other.path).cells)
    found = compare(*sides)
    rows = [row for row in found.rows if row.cell == cells[0].name]
    # Two of three are left on either side, and are paired as before.
    assert {row.verdict for row in rows} == {"too few repetitions"}
    assert "apart" not in {row.by for row in rows if row.metric == "latency_mean_ms"}
    assert {row.first.repetitions for row in rows if row.first.repetitions} == {2}
    assert any("is degraded: 2 of its repetitions compared" in note for note in found.notes)
    for number in (2, 3):
        task = Task.of(cells[0], number)
        other.finish(task, {**other.kept(task).figures, "validity": LATE})
    sides[1] = (other, load_study(other.path).cells)
    rows = [row for row in compare(*sides).rows if row.cell == cells[0].name]
    assert {row.verdict for row in rows} == {"degraded"}


def degraded(store: Store, cells: list[Cell]) -> None:
    """Have the first cell's first repetition say that it was degraded."""
    task = Task.of(cells[0], 1)
    store.finish(task, {**store.kept(task).figures, "validity": LATE})


def test_a_report_says_it_before_its_first_sentence_and_beside_the_figures(
    made_store: Callable[..., tuple[Store, list[Cell]]],
) -> None:
    store, cells = made_store("sound", lambda _: 90.0)
    head, tables, *_ = sections(store, load_study(store.path).cells)
    assert "not valid" not in head
    assert "validity" not in tables
    degraded(store, cells)
    head, tables, *_ = sections(store, load_study(store.path).cells)
    lines = [line for line in head.splitlines() if line.startswith("**")]
    assert lines[0] == "**1 of 12 repetitions are not valid** (1 degraded): link changes late 1."
    rows = [line for line in tables.splitlines() if line.startswith(("| mqtt", "| coap"))]
    assert [row.split(" | ")[-1] for row in rows] == ["1 degraded, 2 valid |", *["valid |"] * 3]


@pytest.mark.parametrize(("invalid", "code"), [(True, EXIT_INVALID), (False, 1)])
def test_the_exit_code_is_that_of_a_run(
    made_store: Callable[..., tuple[Store, list[Cell]]], invalid: bool, code: int
) -> None:
    store, cells = made_store("sound", lambda _: 90.0)
    assert outcome_of(load_study(store.path), None) == 0
    store.fail(Task.of(cells[0], 1), "its capture dropped frames", invalid=invalid)
    found = load_study(store.path)
    assert [one.state for one in found.cells[0].failures] == [FAILED]
    assert outcome_of(found, None) == code
