"""`ivsim report --ledger`: the ledger of a result once more, from what the run has kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.audit import audit
from ivsim.library.report_anew import Changed, report_anew, rows_changed, with_ledger
from ivsim.option_rules import run_options
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from ivsim.runs.testbed import Testbed
from schemas.errors import Refusal
from tests.ivsim.audit.made_up_result import made_up_result


def ledger_of(path: Path, rows: list[dict[str, object]]) -> Path:
    schema = pa.schema(
        [
            ("vehicle_id", pa.string()),
            ("epoch", pa.int32()),
            ("sequence", pa.int64()),
            ("fate", pa.string()),
            ("at", pa.int64()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def test_rows_that_differ_are_counted_once_and_nulls_are_alike(tmp_path: Path) -> None:
    rows = [
        {"vehicle_id": "a", "epoch": 1, "sequence": n, "fate": "lost", "at": None if n % 2 else n}
        for n in range(6)
    ]
    before = ledger_of(tmp_path / "before", rows)
    assert rows_changed(before, ledger_of(tmp_path / "same", rows)) == 0
    other = [dict(row) for row in rows]
    other[1] |= {"fate": "late", "at": 5}
    other[2]["at"] = None
    assert rows_changed(before, ledger_of(tmp_path / "other", other)) == 2
    assert rows_changed(before, ledger_of(tmp_path / "fewer", rows[1:])) is None
    assert rows_changed(tmp_path / "none", before) is None


def test_a_run_is_partial_no_more_when_its_ledger_was_all_that_it_lacked() -> None:
    found = {"due": 5, "lost": 1}
    without = {"due": None, "wire_bytes": 3, "partial": True, "partial_reason": "there is no ledger: killed"}
    assert with_ledger(without, found) == {
        "due": 5, "lost": 1, "wire_bytes": 3, "partial": False, "partial_reason": None,
    }  # fmt: skip
    stopped = {"due": 4, "partial": True, "partial_reason": "stopped by SIGINT; there is no ledger: killed"}
    assert with_ledger(stopped, found) == {
        "due": 5, "lost": 1, "partial": True, "partial_reason": "stopped by SIGINT",
    }  # fmt: skip


def test_without_what_it_is_made_of_it_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    run = made_up_result(tmp_path / "run")
    (run / "emissions.parquet").unlink()
    write_checksums(RunDirectory(run))
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with pytest.raises(Refusal, match=r"^emissions\.parquet: missing; without it no ledger can be made$"):
        report_anew(run, ledger=True)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_a_made_up_runs_ledger_comes_out_as_it_was(tmp_path: Path) -> None:
    run = made_up_result(tmp_path / "run")
    changed = report_anew(run, ledger=True)
    assert changed == []
    assert audit(run).agrees


def test_a_run_may_be_named_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_result(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert report_anew(Path("run"), ledger=True) == []


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.broker
@pytest.mark.netns
def test_a_run_that_lost_its_ledger_gets_it_back_from_what_it_has_kept(
    tmp_path: Path, testbed: Testbed
) -> None:
    options = run_options(
        protocol="coap", mode="non", vehicles=5, interval_s=0.5, duration_s=10.0, loss_ratio=0.3, loss_timeout_s=5.0,
    )  # fmt: skip
    run = tmp_path / "run"
    assert testbed.run(options, run).error is None
    kept = tmp_path / "kept"
    shutil.copytree(run, kept)
    assert report_anew(run, ledger=True) == []
    (run / "ledger.parquet").unlink()
    assert report_anew(run, ledger=True) == [Changed("rows of the ledger", None, "all")]
    assert rows_changed(kept / "ledger.parquet", run / "ledger.parquet") == 0
    fates = {row["fate"] for row in pq.read_table(run / "ledger.parquet").to_pylist()}
    assert {"delivered", "lost"} <= fates
    assert audit(run).agrees
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["partial"] is False
