"""An engine and a paper of somebody else's need one line each; nothing generic knows their names."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_study
import typer
from typer.testing import CliRunner

from ivsim.commands import reproduce as reproduce_command
from ivsim.commands import study as study_command
from ivsim.papers import PAPERS, Row
from ivsim.papers.base import left_out, within
from ivsim.papers.reproduction import reproduce
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import engine_named
from ivsim.study.store import Store
from schemas.errors import Refusal


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Register both and return the study's file."""
    monkeypatch.setitem(ENGINES, "toy", "toy_study:Toy")
    monkeypatch.setitem(PAPERS, "words", Row("toy_study:ToyPaper", "Somebody, On Words"))
    folder = tmp_path / "words"
    folder.mkdir()
    path = folder / "study.toml"
    path.write_text(toy_study.STUDY)
    monkeypatch.setattr(toy_study.ToyPaper, "studies", (path,))
    monkeypatch.chdir(tmp_path)
    return path


def ran(app, *words: str) -> str:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_study_of_a_toy_engine_runs_resumes_and_reports(toy: Path, tmp_path: Path):
    ran(study_command.app, "run", str(toy), "--output", "out", "--quiet")
    assert toy_study.Toy.open_now == 0
    text = (tmp_path / "out" / "report.md").read_text()
    # 3 letters of 2 g, and 1 or 2 g for the repetition.
    assert "| abc | 7.50" in text
    assert "No verdict on any difference: too few repetitions." in text
    assert "weight g, g" in text or "weight_g" in text
    ran(study_command.app, "resume", "out", "--quiet")
    assert "toy:" in ran(study_command.app, "metrics", "toy")
    assert "letters alone" in ran(study_command.app, "axes", "toy")
    assert "2 cells in 4 sessions" in ran(study_command.app, "check", str(toy))


def test_a_paper_from_outside_is_reproduced(toy: Path, tmp_path: Path):
    app = typer.Typer()
    app.command()(reproduce_command.command)
    text = ran(app, "words", "--output", "paper", "--quiet")
    assert "1  agree" in text
    assert "Of the 1 claims 1 agree (1)." in text
    report = (tmp_path / "paper" / "report.md").read_text()
    assert "| 1 | longer words are heavier | **agree** |" in report
    # Its report is the paper's wherever its main study is reported.
    ran(study_command.app, "report", "paper", "--output", "again")
    assert "longer words are heavier" in (tmp_path / "again" / "report.md").read_text()


def test_a_paper_is_gone_on_with(toy: Path, tmp_path: Path):
    first = reproduce(toy_study.ToyPaper(), tmp_path / "p", quick=True, quiet=True)
    stamp = (tmp_path / "p" / "cells" / "word=a" / "1" / "state.json").stat().st_mtime_ns
    again = reproduce(toy_study.ToyPaper(), tmp_path / "p", quick=False, quiet=True)
    assert again.claims == first.claims
    assert (tmp_path / "p" / "cells" / "word=a" / "1" / "state.json").stat().st_mtime_ns == stamp


def test_what_the_toy_does_not_take_is_refused(toy: Path):
    for old, new, why in (
        ('"abc"', '"a1"', "letters alone"),
        ("grams = 2", "kilograms = 2", "the engine toy has no such field; fields are grams, seed"),
        ("[axes]\nword", "[axes]\nwort", "axes of the engine toy are word"),
    ):
        toy.write_text(toy_study.STUDY.replace(old, new))
        with pytest.raises(Refusal, match=why):
            study_command.check(str(toy))


def test_every_row_of_the_table_is_an_engine_of_its_name():
    for name in ENGINES:
        engine = engine_named(name)
        assert engine.name == name
        assert engine.series_axis in engine.axes()
        assert all(key == metric.name for key, metric in engine.metrics.items())
        assert all(key == axis.name and axis.allowed for key, axis in engine.axes().items())


def test_a_study_that_this_machine_cannot_measure_is_left_out_by_name(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(ENGINES, "absent", "toy_study:Absent")
    other = tmp_path / "weights" / "study.toml"
    other.parent.mkdir()
    other.write_text(toy_study.STUDY.replace('engine = "toy"', 'engine = "absent"'))
    with pytest.raises(Refusal, match="make balance"):
        study_command.run(str(other), output=tmp_path / "alone")
    assert not (tmp_path / "alone").exists()

    monkeypatch.setattr(toy_study.ToyPaper, "studies", (toy, other))
    app = typer.Typer()
    app.command()(reproduce_command.command)
    ran = CliRunner().invoke(app, ["words", "--output", "paper", "--quiet"], catch_exceptions=False)
    assert ran.exit_code == 0
    assert f"ivsim: study {other} left out: a balance missing" in ran.stderr
    store = Store.open(tmp_path / "paper")
    assert left_out(store) == {str(other): "a balance missing; `make balance` installs it"}
    assert within(store, "weights") is None

    # The main study cannot be left out.
    monkeypatch.setattr(toy_study.ToyPaper, "studies", (other, toy))
    with pytest.raises(Refusal, match="make balance"):
        reproduce(toy_study.ToyPaper(), tmp_path / "other", quick=True, quiet=True)
    assert not (tmp_path / "other").exists()


def test_the_time_left_is_that_of_all_studies_of_a_paper(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    other = tmp_path / "more" / "study.toml"
    other.parent.mkdir()
    other.write_text(toy_study.STUDY)
    monkeypatch.setattr(toy_study.ToyPaper, "studies", (toy, other))
    monkeypatch.setattr(toy_study.Toy, "seconds", lambda _self, session: 10.0 * len(session.tasks))
    reproduce(toy_study.ToyPaper(), tmp_path / "both", quick=False, quiet=False)
    said = capfd.readouterr().err
    # Two cells in two repetitions, in each of two studies.
    assert "4 cells in 4 sessions, about 80 s" in said
    assert "session 1 of 4: word=a/1; 80 s left" in said or "session 1 of 4: word=abc/1; 80 s left" in said
    assert "4 cells in 4 sessions, about 40 s" in said
