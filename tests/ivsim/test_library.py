"""`ivsim` as a library, without a run: what it refuses, what it reads, and that importing it costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim import Refusal, RunFailed, RunOptions, load_results, run
from ivsim.library import runs
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import SCHEMA, RunDirectory
from ivsim.runs.outcome import Outcome


def made_up(directory: Path, **manifest: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "metrics.json").write_text('{"delivery_ratio": 1.0}')
    known = {"schema": SCHEMA, "options": RunOptions().model_dump(mode="json")}
    (directory / "manifest.json").write_text(json.dumps(known | manifest))
    pq.write_table(pa.table({"fate": ["delivered"]}), directory / "ledger.parquet")
    write_checksums(RunDirectory(directory))
    return directory


def test_importing_it_loads_none_of_the_parts() -> None:
    code = (
        "import sys, ivsim; print([n for n in ('pyarrow', 'pydantic', 'numpy', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_also_once_its_parts_are_loaded() -> None:
    import ivsim.runs.runner  # noqa: PLC0415 - a package of the same name would take the function's place

    assert set(ivsim.__all__) <= set(dir(ivsim))
    for name in ivsim.__all__:
        assert getattr(ivsim, name) is not None
    assert callable(ivsim.run)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = ivsim.walk


def test_results_are_read_back(tmp_path: Path) -> None:
    results = load_results(made_up(tmp_path))
    assert results.metrics == {"delivery_ratio": 1.0}
    assert results.options == RunOptions()
    assert results.ledger.to_pylist() == [{"fate": "delivered"}]
    with pytest.raises(Refusal, match="no table 'link'; there are ledger"):
        _ = results.link


@pytest.mark.parametrize(
    ("break_it", "named"),
    [
        (lambda path: (path / "metrics.json").unlink(), "no result of a run: metrics.json"),
        (lambda path: (path / "manifest.json").write_text("{"), "manifest.json: no JSON"),
        (lambda path: (path / "metrics.json").write_text("[]"), "metrics.json: no JSON object"),
        (
            lambda path: (path / "metrics.json").write_text("{}"),
            "metrics.json: changed since the run wrote it",
        ),
        (lambda path: (path / "SHA256SUMS").unlink(), "SHA256SUMS: missing; the run did not come to its end"),
        (lambda path: (path / "SHA256SUMS").write_text("no sum\n"), "SHA256SUMS: line 1: not a sha256 sum"),
        (lambda path: made_up(path, schema=99), f"schema 99: this version reads {SCHEMA}"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, break_it, named: str) -> None:
    path = made_up(tmp_path)
    break_it(path)
    with pytest.raises(Refusal, match=named):
        load_results(path)


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: data[:4]])
def test_a_table_that_is_damaged_is_named(tmp_path: Path, damage) -> None:
    table = made_up(tmp_path) / "ledger.parquet"
    table.write_bytes(damage(table.read_bytes()))
    with pytest.raises(Refusal, match=rf"^{table}: changed since the run wrote it \(SHA256SUMS\)$"):
        _ = load_results(tmp_path).ledger
    write_checksums(RunDirectory(tmp_path))  # as the run left it
    with pytest.raises(Refusal, match=f"^{table}: cannot be read: ") as refused:
        _ = load_results(tmp_path).ledger
    assert "\n" not in str(refused.value)
    table.unlink()
    with pytest.raises(Refusal, match=f"^{table}: missing; the run wrote one"):
        _ = load_results(tmp_path).ledger


def test_bad_fields_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="loss"):
        run(output=tmp_path / "out", loss_ratio=2)
    with pytest.raises(Refusal, match="options or fields, not both: vehicles"):
        run(RunOptions(), tmp_path / "out", vehicles=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_run_that_breaks_raises_with_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    directory = made_up(tmp_path) if known else None
    metrics = {"partial": True} if known else {}
    outcome = Outcome(exit_code=1, directory=directory, metrics=metrics, error="kafka has died")
    monkeypatch.setattr(runs, "outcome_of", lambda *_args, **_names: outcome)
    with pytest.raises(RunFailed, match="kafka has died") as failed:
        run()
    assert failed.value.exit_code == 1
    assert (failed.value.results is not None) == known
