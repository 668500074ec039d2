"""What repetitions that are not valid leave of a study's rules: widths, service levels, aa."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ivsim.library.studies import begun_twice
from ivsim.papers.parts import Cells as PipeCells
from ivsim.study import blocks, twice
from ivsim.study.catalogue import study_named
from ivsim.study.cells import DONE, Cell, Kept, Task
from ivsim.study.model import Study, cells_of
from ivsim.study.pilot import width_of
from ivsim.study.report import results
from ivsim.study.results import CellObservations, CellResult
from ivsim.study.service_levels import MET, UNDECIDED, judge
from ivsim.study.store import Store
from schemas.errors import Refusal

DEGRADED = {"verdict": "degraded", "causes": [{"name": "generator_limited"}]}
Make = Callable[..., tuple[Store, list[Cell]]]


def degrade(store: Store, cell: Cell, *repetitions: int) -> None:
    for number in repetitions:
        task = Task.of(cell, number)
        store.finish(task, {**store.kept(task).figures, "validity": DEGRADED})


def test_a_cell_of_some_repetitions_is_observed_anew_once() -> None:
    seen = []

    def observe(_: Cell, kept: object) -> CellObservations:
        seen.append(kept)
        return CellObservations()

    cell = Cell("one", "", {}, None)
    kept = [
        Kept(Task(cell, n), DONE, None, {"validity": DEGRADED if n == 2 else {}}, Path()) for n in (1, 2, 3)
    ]
    whole = CellResult(cell, kept, observe=observe)
    assert whole.sound.kept == [kept[0], kept[2]]
    assert whole.sound is whole.sound
    assert seen == [[kept[0], kept[2]]]
    assert whole.of(kept) is whole


def test_a_degraded_repetition_does_not_keep_blocks_from_being_enough(made_store: Make) -> None:
    headline = {
        "kind": "steps",
        "axis": "mode",
        "steps": [["mqtt qos0", "coap non"]],
        "metrics": ["latency_mean_ms"],
    }
    store, cells = made_store("a", lambda _: 100.0, headline=headline, repetitions=4)
    rule = width_of("1000", blocks.OPTION)
    before = blocks.widest(store.study, results(store), rule).width
    assert before is not None
    degrade(store, cells[0], 2)
    assert blocks.widest(store.study, results(store), rule).width is not None
    # One of which no repetition is valid is known by no number of blocks, and holds the others up no longer.
    degrade(store, cells[0], 1, 2, 3, 4)
    assert blocks.widest(store.study, results(store), rule).width is not None


def test_a_service_level_is_kept_by_valid_repetitions_alone(made_store: Make) -> None:
    store, cells = made_store("a", lambda _: 100.0, service_levels={"latency_mean_ms": "< 250"})
    assert {one.verdict for one in judge(store.study, results(store))} == {MET}
    degrade(store, cells[0], 1)
    found = judge(store.study, results(store))
    assert found[0].verdict == UNDECIDED
    assert (found[0].problem or "").endswith("too few repetitions: 2 of at least 3")
    degrade(store, cells[0], 1, 2, 3)
    found = judge(store.study, results(store))
    assert (found[0].verdict, found[0].problem) == (UNDECIDED, "all its repetitions are degraded")


def test_one_setting_twice_has_the_blocks_that_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep's own repetitions are of its study, and no quick look has more than one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=r"^--repetitions 2: has no effect with --quick"):
        begun_twice("serialisation", tmp_path / "quick", cell=None, repetitions=2, quick=True)
    assert not (tmp_path / "quick").exists()
    store = begun_twice("serialisation", tmp_path / "out", cell=None, repetitions=2, quick=False)
    assert [store.study.repetitions_of(cell) for cell in store.cells()] == [2, 2]
    study, path = study_named("kafka-formats")
    cells = cells_of(study, str(path))
    own = next(cell for cell in cells if study.sweeps[cell.sweep].repetitions == 2)
    for repetitions in (3, 12):
        asked, _ = twice.asked(study, cells, own.name, repetitions)
        assert asked.repetitions_of(own) == repetitions
        assert Study.model_validate(asked.model_dump()) == asked
    assert twice.asked(study, cells, own.name, None)[0].repetitions_of(own) == 2


def test_claims_of_pipes_rest_on_valid_repetitions_alone() -> None:
    cell = Cell("one", "core", {"format": "json"}, None)
    figures = [{"speed": 1.0}, {"speed": 2.0, "validity": DEGRADED}, {"speed": 3.0}]
    kept = [Kept(Task(cell, n), DONE, None, one, Path()) for n, one in enumerate(figures, 1)]
    found = PipeCells([CellResult(cell, kept)])
    assert found.figures("speed", "core", format="json") == {1: 1.0, 3: 3.0}
    assert found.taken() == 2
