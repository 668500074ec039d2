"""A study's results work wherever they are: what its cells read is in them, and held against its checksum."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from study_made_up import keep_echo

from ivsim.library.export import export
from ivsim.library.studies import load_study
from ivsim.study.cells import Task
from ivsim.study.model import Study
from ivsim.study.store import Store
from schemas.errors import Refusal

TRACE = "time_s,uplink_kbps,downlink_kbps,rtt_ms\n0,900,1800,60\n1,400,900,80\n2,700,1500,70\n"


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results whose study named a trace by a relative path, elsewhere; what it named has gone."""
    began = tmp_path / "began"
    (began / "mine").mkdir(parents=True)
    (began / "mine" / "drive.csv").write_text(TRACE)
    monkeypatch.chdir(began)
    study = Study.model_validate(
        {
            "title": "Made up",
            "question": "Which is faster?",
            "metrics": ["latency_mean_ms"],
            "engine": "echo",
            "repetitions": 1,
            "scenario": {"vehicles": 5, "interval_s": 10.0, "duration_s": 100.0},
            "axes": {"mode": ["mqtt qos0"], "trace": ["mine/drive.csv", "tunnel"]},
        }
    )
    store = Store.create(Path("results"), "moved", study, quick=False)
    for cell in store.cells():
        keep_echo(store, Task.of(cell, 1), 90.0)
    shutil.move(began / "results", tmp_path / "elsewhere")
    shutil.rmtree(began / "mine")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "elsewhere"


def test_everything_that_reads_a_study_works_elsewhere(moved: Path, tmp_path: Path) -> None:
    study = load_study(moved)
    assert [cell.cell.values["trace"] for cell in study.cells] == ["mine/drive.csv", "tunnel"]
    assert [cell.cell.name for cell in study.cells] == [
        "mode=mqtt-qos0_trace=mine-drive.csv",
        "mode=mqtt-qos0_trace=tunnel",
    ]
    assert study.finished
    assert study.write_report().is_file()
    assert {path.name for path, _ in export(moved, "csv", tmp_path / "out")} == {
        "figures.csv",
        "repetitions.csv",
    }
    (options,) = [cell.cell.options for cell in study.cells if cell.cell.values["trace"] != "tunnel"]
    assert options.traces[0].step_at(1).rtt_ms == 80
    assert list((moved / "inputs").rglob("*.csv")) == [moved / "inputs" / "1" / "drive.csv"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda copy: copy.write_text(TRACE.replace("60", "61")), "changed since the study was measured"),
        (lambda copy: copy.unlink(), "missing; it is mine/drive.csv"),
    ],
)
def test_a_copy_that_was_changed_is_refused_by_its_name(moved: Path, damage, says: str) -> None:
    copy = moved / "inputs" / "1" / "drive.csv"
    damage(copy)
    with pytest.raises(Refusal, match=f"^{copy}: {says}"):
        load_study(moved)


def test_results_of_an_earlier_version_are_read_as_before(tmp_path: Path) -> None:
    study = Study.model_validate(
        {
            "title": "Made up",
            "question": "Which is faster?",
            "metrics": ["latency_mean_ms"],
            "engine": "echo",
            "axes": {"mode": ["mqtt qos0"]},
        }
    )
    store = Store.create(tmp_path / "results", "made-up", study, quick=False)
    assert json.loads((tmp_path / "results" / "study.json").read_text())["inputs"] == {}
    del store.head["inputs"]
    assert [cell.name for cell in store.cells()] == ["mode=mqtt-qos0"]


def test_accounts_and_keys_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("accounts.json").write_text("{}")
    study = Study.model_validate(
        {
            "title": "Made up",
            "question": "Which is faster?",
            "metrics": ["delivery_ratio"],
            "scenario": {"target_accounts": "accounts.json"},
            "axes": {"mode": ["mqtt qos0"]},
        }
    )
    store = Store.create(tmp_path / "results", "made-up", study, quick=False)
    assert store.head["inputs"] == {"accounts.json": {"path": str(tmp_path / "accounts.json")}}
    assert not (tmp_path / "results" / "inputs").exists()
