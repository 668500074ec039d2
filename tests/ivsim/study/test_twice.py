"""One setting measured twice: two cells of each block that are alike, what differs between them, and where it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_study
from study_made_up import keep_echo

from ivsim import load_study, resume_study, run_study
from ivsim.cli import main
from ivsim.study import twice
from ivsim.study.cells import Task
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import Outcome, engine_named
from ivsim.study.model import Study, cells_of
from ivsim.study.plan import sessions
from ivsim.study.report import results, write_report
from ivsim.study.store import Store


class Drifting(toy_study.Toy):
    """Weighs more from one weighing to the next, by `drift_g`."""

    weighed = 0
    drift_g = 0.0

    def measure(self, session, results, tick):
        for one in super().measure(session, results, tick):
            Drifting.weighed += 1
            heavier = self.drift_g * (one.task.cell.name.endswith("-b"))
            yield Outcome(
                one.task, {"weight_g": one.figures["weight_g"] + heavier + Drifting.weighed % 3 * 1e-3}
            )


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(ENGINES, "toy", f"{__name__}:Drifting")
    monkeypatch.setattr(Drifting, "drift_g", 0.0)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "words" / "study.toml"
    path.parent.mkdir()
    path.write_text(toy_study.STUDY.replace("repetitions = 2", "repetitions = 8"))
    return path


def aa(monkeypatch: pytest.MonkeyPatch, capsys: Any, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["ivsim", "aa", *words, "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_setting_is_measured_as_two_cells_of_each_block(study: Path, monkeypatch, capsys) -> None:
    code, out, _ = aa(monkeypatch, capsys, str(study))
    assert code == 0
    where = Path("results/studies/words-aa")
    found = load_study(where)
    assert [one.cell.name for one in found.cells] == ["word=a-a", "word=a-b"]
    assert [len(one.done) for one in found.cells] == [8, 8]
    assert [one.seed for one in found.cells[0].done] == [one.seed for one in found.cells[1].done]
    assert "weight_g" in out
    assert "repetition" in out
    assert "Of one setting measured twice 0 of 1 metrics differ by more than noise." in out
    report = (where / "report.md").read_text()
    assert report.startswith("# How heavy is a word?: one setting twice")
    assert "## The same setting twice" in report
    assert json.loads((where / "study.json").read_text())["twice"] == "word=a"
    assert resume_study(where).finished


def test_a_design_that_finds_what_is_not_there_is_told(study: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Drifting, "drift_g", 5.0)
    code, out, _ = aa(monkeypatch, capsys, str(study), "--cell", "word=abc", "--repetitions", "4")
    assert code == 0
    assert "1 of 1 metrics differ by more than noise: weight_g." in out
    found = load_study("results/studies/words-aa")
    assert [one.cell.name for one in found.cells] == ["word=abc-a", "word=abc-b"]
    assert [len(one.done) for one in found.cells] == [4, 4]


def test_a_report_has_the_setting_that_was_measured_twice_below_it(study: Path, monkeypatch, capsys) -> None:
    known = run_study(study)
    assert "The same setting twice" not in known.write_report().read_text()
    aa(monkeypatch, capsys, str(study))
    assert (known.directory / "aa" / "study.json").is_file()
    text = known.write_report().read_text()
    assert "## The same setting twice" in text
    assert "`word=a` measured twice" in text
    row = next(
        line
        for line in text.splitlines()
        if line.startswith("| weight_g |") and "| repetition | no |" in line
    )
    assert row.count("|") == 5


def test_a_quick_one_gives_no_verdict(study: Path, monkeypatch, capsys) -> None:
    code, out, _ = aa(monkeypatch, capsys, str(study), "--quick")
    assert code == 0
    assert "too few repetitions" in out
    assert "Of one setting measured twice no metric has a verdict." in out
    assert Path("results/studies/words-aa-quick").is_dir()


def test_an_unknown_cell_is_refused(study: Path, monkeypatch, capsys) -> None:
    code, _, err = aa(monkeypatch, capsys, str(study), "--cell", "word=b")
    assert code == 2
    assert err.strip() == "ivsim: --cell word=b: cells of the study are word=a, word=abc"
    assert not Path("results").exists()


def test_messages_of_both_are_compared_with_themselves(tmp_path: Path, made_study: Study) -> None:
    """On the echo engine the two run side by side, each on vehicles of its own."""
    cells = cells_of(made_study, "here")
    asked, name = twice.asked(made_study, cells, None, None)
    store = Store.create(tmp_path / "out", "made-aa", asked, quick=False, twice=name)
    both = store.cells()
    assert [cell.name for cell in both] == [f"{name}-a", f"{name}-b"]
    planned = sessions(asked, both, 3)
    assert [len(session.tasks) for session in planned] == [2, 2, 2]
    for cell in both:
        for repetition in (1, 2, 3):
            keep_echo(store, Task.of(cell, repetition), 100.0)
    found = twice.rows(asked, results(store))
    assert {row.metric: row.by for row in found}["latency_mean_ms"] == "message"
    assert not any(row.more_than_noise for row in found)
    assert "0 of 3 metrics" in write_report(store, tmp_path / "report").read_text()


@pytest.mark.parametrize("name", ["serialisation", "serialisation-cpp"])
def test_a_format_that_is_timed_twice_has_a_session_of_its_own_each(name: str) -> None:
    from ivsim.study.catalogue import study_named  # noqa: PLC0415 - of this test alone
    from ivsim.study.cells import twice as doubled  # noqa: PLC0415

    study, path = study_named(name)
    cells = cells_of(study, str(path))
    both = doubled(cells, cells[0].name)
    assert engine_named(study.engine).sessions(both, ()) == [[both[0]], [both[1]]]
    alone = engine_named(study.engine).sessions(cells, ())
    assert len(alone) < len(cells)
