"""Studies from Python: run, stopped, gone on with, read; by a toy engine, so that nothing is started."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
import toy_study

from ivsim import Refusal, StudyStopped, load_study, resume_study, run_study
from ivsim.study.engines import ENGINES


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(ENGINES, "toy", "toy_study:Toy")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "words" / "study.toml"
    path.parent.mkdir()
    path.write_text(toy_study.STUDY)
    return path


def stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a signal come when the first session of a study is over."""
    whole = toy_study.Toy.measure

    def measure(self, session, results, tick):
        yield from whole(self, session, results, tick)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(toy_study.Toy, "measure", measure)


def test_a_study_is_run_and_read_again(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = run_study(study)
    assert found.directory == Path("results/studies/words")
    assert found.finished
    assert found.name == "words"
    assert found.report.read_text().startswith("<!doctype html>")
    # 3 letters of 2 g, and 1 or 2 g for the repetition.
    rows = {row["word"]: row for row in found.figures().to_pylist()}
    assert rows["abc"] == {
        "cell": "word=abc", "sweep": "", "word": "abc", "metric": "weight_g", "unit": "g",
        "estimate": 7.5, "low": None, "high": None, "n": 2, "interval_unit": "repetition", "repetitions": 2,
        "effective": None,
    }  # fmt: skip
    assert load_study(found.directory).figures("weight_g") == found.figures()
    assert [one.directory.name for cell in found.cells for one in cell.done] == ["1", "2"] * 2
    assert capfd.readouterr() == ("", "")


def test_a_quick_study_has_one_repetition(study: Path, tmp_path: Path) -> None:
    found = run_study(study, tmp_path / "out", quick=True)
    assert found.quick
    assert found.finished
    assert found.figures()["n"].to_pylist() == [1, 1]
    assert found.figures()["low"].null_count == 2


def test_a_service_level_that_is_missed_or_open_is_told(study: Path, tmp_path: Path) -> None:
    text = study.read_text().replace("[scenario]", '[service_levels]\nweight_g = "< 5"\n[scenario]')
    study.write_text(text)
    few = run_study(study, tmp_path / "two")
    assert few.missed == []
    assert {one.problem for one in few.undecided} == {
        f"weight_g is {grams}, wanted < 5; too few repetitions: 2 of at least 3" for grams in ("3.50", "7.50")
    }
    study.write_text(text.replace("repetitions = 2", "repetitions = 3"))
    found = run_study(study, tmp_path / "three")
    assert [(one.cell, one.problem) for one in found.missed] == [
        ("word=abc", "weight_g is 8.00 [5.86, 10.9], not < 5")
    ]
    assert [one.cell for one in found.undecided] == ["word=a"]


def test_a_stopped_study_is_gone_on_with(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        stopping(context)
        with pytest.raises(StudyStopped, match="resume_study goes on with it") as stopped:
            run_study(study)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    known = stopped.value.results
    assert not known.finished
    assert sum(len(cell.done) for cell in known.cells) == 1
    assert toy_study.Toy.open_now == 0
    with pytest.raises(Refusal, match="not empty"):
        run_study(study)
    assert resume_study(known.directory).finished


def test_a_notebook_whose_thread_runs_a_loop_can_run_one(study: Path) -> None:
    async def cell() -> bool:
        return run_study(study).finished

    assert asyncio.run(cell())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: run_study("no-such-study"), "neither a study.toml nor one of"),
        (lambda: load_study("nowhere"), "this is no directory of study results"),
        (lambda: resume_study("nowhere"), "this is no directory of study results"),
    ],
)
def test_what_cannot_be_done_is_refused(study: Path, call, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        call()
    assert not Path("results").exists()


def test_an_unknown_metric_is_refused_with_those_that_there_are(study: Path) -> None:
    with pytest.raises(Refusal, match="metric 'height_m': metrics of the engine toy are weight_g"):
        run_study(study).figures("height_m")
