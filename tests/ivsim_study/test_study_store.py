"""What is finished is kept, whatever comes: an interruption, a full disk, another version."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ivsim.runner import Outcome
from ivsim.study import execution
from ivsim.study.model import Study, cells_of
from ivsim.study.store import DONE, FAILED, OPEN, Store, full_disk
from schemas.errors import Refusal

STUDY = {
    "title": "t",
    "question": "q",
    "metrics": ["end_to_end_latency_p99_ms"],
    "scenario": {"vehicles": 1, "duration_s": 5.0},
    "axes": {"mode": ["mqtt qos0", "mqtt qos1", "mqtt qos2"]},
    "repetitions": 2,
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "results", "t", Study.model_validate(STUDY), quick=False)


def run(store: Store, monkeypatch: pytest.MonkeyPatch, outcome: Any, **words: Any) -> list[str]:
    ran: list[str] = []

    def execute(options: Any, directory: Path, *, quiet: bool) -> Outcome:
        assert directory.is_dir()
        assert not any(directory.iterdir())
        ran.append(f"{options.mode} {directory.name}")
        (directory / "half").write_text("x")
        return outcome(options, len(ran))

    monkeypatch.setattr(execution, "execute", execute)
    execution.run_study(store, cells_of(store.study, "here"), quiet=True, **words)
    return ran


def states(store: Store) -> list[str]:
    return [kept.state for kept in store.all_kept(cells_of(store.study, "here"))]


def fine(_options: Any, number: int) -> Outcome:
    return Outcome(metrics={"end_to_end_latency_p99_ms": float(number)})


def test_a_study_survives_the_way_to_disk_and_back(store: Store):
    again = Store.open(store.path)
    assert again.study == store.study
    assert [c.name for c in cells_of(again.study, "x")] == [c.name for c in cells_of(store.study, "x")]
    assert states(again) == [OPEN] * 6


def test_the_order_of_the_axes_survives(tmp_path: Path):
    axes = {"trace": ["car-2024", "paper-lte-car"], "mode": ["mqtt qos0"], "format": ["protobuf", "json"]}
    study = Study.model_validate({**STUDY, "axes": axes})
    made = Store.create(tmp_path / "ordered", "t", study, quick=False)
    made.spend(1.0)
    again = Store.open(made.path).study
    assert list(again.axes) == list(axes)
    assert [c.name for c in cells_of(again, "here")] == [c.name for c in cells_of(study, "here")]


def test_each_repetition_is_a_round_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch):
    ran = run(store, monkeypatch, fine)
    assert {word[-1] for word in ran[:3]} == {"1"}
    assert {word[-1] for word in ran[3:]} == {"2"}
    assert states(store) == [DONE] * 6
    assert run(store, monkeypatch, fine) == []


def test_an_interrupted_study_goes_on_where_it_was(store: Store, monkeypatch: pytest.MonkeyPatch):
    def interrupted(options: Any, number: int) -> Outcome:
        if number == 3:
            raise KeyboardInterrupt
        return fine(options, number)

    with pytest.raises(KeyboardInterrupt):
        run(store, monkeypatch, interrupted)
    assert states(store).count(DONE) == 2
    assert len(run(store, monkeypatch, fine)) == 4
    assert states(store) == [DONE] * 6


def test_a_failed_cell_stays_failed_with_its_reason_until_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    def broken(options: Any, number: int) -> Outcome:
        if options.mode == "qos1":
            return Outcome(exit_code=1, error="mosquitto was ended by signal 9\nlast lines")
        if options.mode == "qos2":
            raise Refusal("no java")
        return fine(options, number)

    run(store, monkeypatch, broken)
    kept = {k.task.cell.options.mode: k for k in store.all_kept(cells_of(store.study, "here"))}
    assert (kept["qos1"].state, kept["qos1"].reason) == (FAILED, "mosquitto was ended by signal 9")
    assert kept["qos2"].reason == "no java"
    assert run(store, monkeypatch, fine) == []
    assert len(run(store, monkeypatch, fine, again=True)) == 4
    assert states(store) == [DONE] * 6


def test_a_full_disk_is_one_line_and_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch):
    def full(options: Any, number: int) -> Outcome:
        if number == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fine(options, number)

    with pytest.raises(Refusal, match=r"disk is full.*resume"):
        run(store, monkeypatch, full)
    assert states(store).count(DONE) == 1
    assert len(run(store, monkeypatch, fine)) == 5


def test_no_session_begins_without_room(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(Refusal, match="disk is full"):
        run(store, monkeypatch, fine)


def test_only_a_full_disk_is_called_one(tmp_path: Path):
    with pytest.raises(OSError, match="weird"), full_disk(tmp_path):
        raise OSError(errno.EIO, "weird")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": 99}', "schema 99: this ivsim reads 1; nothing was changed"),
        ("{}", "schema None"),
        ("[]", "schema None"),
        ("{", "no JSON"),
    ],
)
def test_results_of_another_version_are_refused_and_left_alone(store: Store, text: str, words: str):
    file = store.path / "study.json"
    file.write_text(text)
    with pytest.raises(Refusal, match=words):
        Store.open(store.path)
    assert file.read_text() == text


def test_another_ivsim_may_read_but_not_go_on(store: Store):
    head = json.loads((store.path / "study.json").read_text())
    head["versions"]["ivsim"] = "0.0.1"
    (store.path / "study.json").write_text(json.dumps(head))
    old = Store.open(store.path)
    with pytest.raises(Refusal, match=r"begun by ivsim 0\.0\.1"):
        old.check_versions()


def test_a_directory_in_use_and_one_without_results_are_refused(store: Store, tmp_path: Path):
    with pytest.raises(Refusal, match="ivsim study resume"):
        Store.create(store.path, "t", store.study, quick=False)
    with pytest.raises(Refusal, match="no directory of study results"):
        Store.open(tmp_path)
    (tmp_path / "file").write_text("x")
    for where in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Refusal, match="--output"):
            Store.create(where, "t", store.study, quick=False)


def test_half_a_state_is_no_state(store: Store, monkeypatch: pytest.MonkeyPatch):
    run(store, monkeypatch, fine)
    kept = store.all_kept(cells_of(store.study, "here"))[0]
    (kept.directory / "state.json").write_text('{"sta')
    assert states(store).count(OPEN) == 1
    assert len(run(store, monkeypatch, fine)) == 1
