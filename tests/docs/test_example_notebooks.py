"""The example notebooks: each runs from its first cell to its last, and is kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"
EXAMPLES = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.broker
@pytest.mark.netns
@pytest.mark.timeout(600)
def test_the_notebook_of_runs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    execute("qos", tmp_path)
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.full
def test_the_notebook_of_a_study_runs(tmp_path: Path) -> None:
    execute("formats", tmp_path)


def test_each_example_is_executed_here() -> None:
    assert [path.stem for path in EXAMPLES] == ["formats", "qos"]


def execute(name: str, directory: Path) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    ).execute()
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) >= 3
