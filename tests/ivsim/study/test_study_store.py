"""What is finished is kept, whatever comes: an interruption, a full disk, another version."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import Outcome
from ivsim.study import execution
from ivsim.study.cells import DONE, FAILED, OPEN, repetition_seed
from ivsim.study.engines.whole_run import engine
from ivsim.study.model import Study, cells_of
from ivsim.study.sealed import write_sealed
from ivsim.study.store import Store, full_disk
from schemas.errors import Refusal

# printf 'ivsim/1/repetition/1' | sha256sum | cut -c1-12
SEED_1 = 0x185CB538F25A
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


class MadeUpTestbed:
    """What the engine sees of a testbed; its runs are `outcome(options, number of the run)`.

    Attributes:
        all: every one that was made; outcome and `ran` are those of the test that goes on.
    """

    all: ClassVar[list[MadeUpTestbed]] = []
    outcome: ClassVar[Any]
    ran: ClassVar[list[str]] = []

    def __init__(self, work: Path) -> None:
        assert work.is_dir()
        assert all(one.closed for one in self.all), "one at a time"
        self.runs, self.closed = 0, False
        self.all.append(self)

    def open(self) -> MadeUpTestbed:
        return self

    def close(self) -> None:
        self.closed = True

    def copy_logs(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "kafka.log").write_text("of the testbed")

    def run(self, options: Any, directory: Path, *, disturb: Any) -> Outcome:
        assert not self.closed
        assert directory.is_dir()
        assert not any(directory.iterdir())
        self.runs += 1
        self.ran.append(f"{options.mode} {directory.name}")
        (directory / "half").write_text("x")
        disturb(None)
        return type(self).outcome(options, len(self.ran))


def run(store: Store, monkeypatch: pytest.MonkeyPatch, outcome: Any, **words: Any) -> list[str]:
    MadeUpTestbed.all, MadeUpTestbed.ran, MadeUpTestbed.outcome = [], [], outcome
    monkeypatch.setattr(engine, "Testbed", MadeUpTestbed)
    try:
        execution.run_study(store, cells_of(store.study, "here"), **words)
    finally:
        assert all(one.closed for one in MadeUpTestbed.all)
        assert not (store.path / "work").exists()
    return MadeUpTestbed.ran


def runs_by_testbed() -> list[int]:
    return [one.runs for one in MadeUpTestbed.all]


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
    assert runs_by_testbed() == [6]
    assert run(store, monkeypatch, fine) == []


def test_a_cell_that_a_signal_ended_stays_open(store: Store, monkeypatch: pytest.MonkeyPatch):
    def stopped(options: Any, number: int) -> Outcome:
        if number == 3:
            return Outcome(128 + signal.SIGTERM, metrics={"partial": True}, error="stopped by SIGTERM")
        return fine(options, number)

    with pytest.raises(Interrupted) as interrupted:
        run(store, monkeypatch, stopped)
    assert interrupted.value.number == signal.SIGTERM
    assert sorted(states(store)) == [DONE] * 2 + [OPEN] * 4
    assert len(run(store, monkeypatch, fine)) == 4
    assert states(store) == [DONE] * 6


def test_a_signal_between_two_cells_closes_the_testbed(store: Store, monkeypatch: pytest.MonkeyPatch):
    def signalled(options: Any, number: int) -> Outcome:
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)  # where `interruptible` of the study hears it
        return fine(options, number)

    with pytest.raises(Interrupted):
        run(store, monkeypatch, signalled)
    assert states(store).count(DONE) == 1


def test_a_study_without_signals_of_its_own_is_stopped_within_a_cell(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    asked = iter([False, False, False, True])

    def stopped() -> None:
        if next(asked):
            raise Interrupted(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(store, monkeypatch, fine, stopped=stopped)
    assert sorted(states(store)) == [DONE] + [OPEN] * 5


@pytest.mark.parametrize(
    "broken",
    [
        Outcome(1, error="kafka was ended by SIGKILL"),
        Outcome(4, metrics={"partial": True, "validity": {"causes": [{"words": "the ledger is partial"}]}}),
        Refusal("Kafka topic ivsim.x: no answer"),
    ],
)
def test_a_testbed_that_failed_a_run_gives_way_to_a_new_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, broken: Outcome | Refusal
):
    def second_breaks(options: Any, number: int) -> Outcome:
        if number != 2:
            return fine(options, number)
        if isinstance(broken, Refusal):
            raise broken
        return broken

    run(store, monkeypatch, second_breaks)
    assert runs_by_testbed() == [2, 4]
    assert sorted(states(store)) == [DONE] * 5 + [FAILED]
    (failed,) = [one for one in store.all_kept(cells_of(store.study, "here")) if one.state == FAILED]
    assert (failed.directory / "logs" / "kafka.log").read_text() == "of the testbed"


def test_a_run_that_is_invalid_by_its_figures_alone_keeps_the_testbed(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    causes = [{"words": "the link was not as asked"}]

    def invalid(options: Any, number: int) -> Outcome:
        return Outcome(4, metrics={"validity": {"causes": causes}}) if number == 2 else fine(options, number)

    run(store, monkeypatch, invalid)
    assert runs_by_testbed() == [6]
    (failed,) = [one for one in store.all_kept(cells_of(store.study, "here")) if one.state == FAILED]
    assert failed.reason == "the link was not as asked"


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
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=10, used=10, free=0))
    with pytest.raises(Refusal, match="disk is full"):
        run(store, monkeypatch, fine)


def test_only_a_full_disk_is_called_one(tmp_path: Path):
    with pytest.raises(OSError, match="weird"), full_disk(tmp_path):
        raise OSError(errno.EIO, "weird")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"schema": 99}',
            r"schema 99: this ivsim reads 3; report it with the ivsim that made it .unknown., or run",
        ),
        ('{"schema": 2, "versions": {"ivsim": "0.0.9"}}', r"study\.json: schema 2: .*made it .0\.0\.9."),
        ("{}", "schema None"),
        ("[]", "no JSON object"),
        ('{"schema": 3}', "no sha256"),
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
    write_sealed(store.path / "study.json", head)
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


def test_a_state_that_is_missing_is_open_and_a_damaged_or_changed_one_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    run(store, monkeypatch, fine)
    file = store.all_kept(cells_of(store.study, "here"))[0].directory / "state.json"
    whole = file.read_text()
    for text, why in (
        ('{"sta', r"state\.json: no JSON"),
        (whole.replace("end_to_end_latency_p99_ms", "lost"), r"state\.json: changed since it was written"),
        (whole.replace('"done"', '"failed"'), r"state\.json: changed since"),
    ):
        file.write_text(text)
        with pytest.raises(Refusal, match=why):
            run(store, monkeypatch, fine)
        assert file.read_text() == text
    file.unlink()
    assert states(store).count(OPEN) == 1
    assert len(run(store, monkeypatch, fine)) == 1


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("study", {"title": "t"}, r"study\.json: study\.question: Field required"),
        ("versions", None, r"study\.json: versions: dict is wanted"),
        ("quick", "yes", r"study\.json: quick: bool is wanted"),
    ],
)
def test_a_head_that_is_no_head_is_refused_by_its_key(store: Store, key: str, value: Any, why: str):
    head = json.loads((store.path / "study.json").read_text())
    write_sealed(store.path / "study.json", head | {key: value})
    with pytest.raises(Refusal, match=why):
        Store.open(store.path)


def test_a_head_edited_by_hand_is_refused_and_left_as_it_is(store: Store):
    file = store.path / "study.json"
    text = file.read_text().replace('"seed": 1', '"seed": 2')
    file.write_text(text)
    with pytest.raises(Refusal, match=r"study\.json: changed since it was written"):
        Store.open(store.path)
    assert file.read_text() == text


def test_each_repetition_has_a_seed_of_its_own_stored_with_the_cell(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    seeds: list[int] = []

    def noted(options: Any, number: int) -> Outcome:
        seeds.append(options.seed)
        return fine(options, number)

    run(store, monkeypatch, noted)
    kept = store.all_kept(cells_of(store.study, "here"))
    assert sorted(one.seed for one in kept) == sorted(seeds)
    by_repetition = {n: {one.seed for one in kept if one.task.repetition == n} for n in (1, 2)}
    # The first six bytes of SHA-256 of "ivsim/1/repetition/1": stated, so that anybody can draw the same again.
    assert by_repetition == {1: {SEED_1}, 2: {repetition_seed(1, 2)}}
    assert SEED_1 != repetition_seed(1, 2) != repetition_seed(2, 1)
