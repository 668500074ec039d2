"""`ivsim report`: figures and page anew from a run's tables, or nothing changed at all."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ivsim import cli
from ivsim.audit import audit
from ivsim.library import report_anew as module
from ivsim.library.report_anew import Changed, report_anew
from ivsim.report import figures
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from schemas.errors import Refusal
from tests.ivsim.audit.made_up_result import made_up_result

pytestmark = pytest.mark.usefixtures("blank_charts")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_up_result(tmp_path / "run")


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def rewritten(directory: Path, name: str = "metrics.json", **values: Any) -> None:
    """Write an object with other values, as the run itself would have written it."""
    found = json.loads((directory / name).read_text())
    (directory / name).write_text(json.dumps(found | values))
    write_checksums(RunDirectory(directory))


def said(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_of_a_run_as_it_is_nothing_changes(run: Path) -> None:
    """The made-up run's figures are the audit's own: two ways that share no code come to the same."""
    before, figures = content(run), json.loads((run / "metrics.json").read_text())
    assert report_anew(run) == []
    assert json.loads((run / "metrics.json").read_text()) == figures
    after = content(run)
    assert sorted(after) == sorted(before)
    assert {name for name in after if after[name] != before[name]} <= {
        "metrics.json",
        "report.html",
        "SHA256SUMS",
    }
    assert audit(run).agrees
    assert report_anew(run) == []
    assert content(run) == after, "the same files give the same bytes"


@pytest.mark.parametrize("how", ["lost", "changed"])
def test_a_page_that_was_lost_or_changed_comes_back(run: Path, how: str) -> None:
    report_anew(run)
    before = content(run)
    (run / "report.html").unlink() if how == "lost" else (run / "report.html").write_text("other")
    report_anew(run)
    assert content(run) == before


def test_a_figure_that_was_worked_out_otherwise_is_made_anew_and_named(run: Path) -> None:
    right = json.loads((run / "metrics.json").read_text())
    rewritten(run, delivered=99, validity={"verdict": "invalid", "causes": []})
    assert not audit(run).agrees
    assert report_anew(run) == [
        Changed("delivered", 99, right["delivered"]),
        Changed("validity", {"verdict": "invalid", "causes": []}, right["validity"]),
    ]
    assert audit(run).agrees
    assert 'data-metric="delivered" data-value="99"' not in (run / "report.html").read_text()


def test_what_the_run_alone_could_know_stays(run: Path) -> None:
    died = {"name": "sender_died", "severity": "degraded", "words": "sender 1 died"}
    rewritten(
        run,
        "manifest.json",
        options=json.loads((run / "manifest.json").read_text())["options"] | {"topology": "gateway"},
    )
    known = {
        "twin_updates": 5,
        "rejected_records": 2,
        "unknown_records": 1,
        "security": {"security": "plain"},
    }
    rewritten(
        run, **known, partial=True, partial_reason="cut", validity={"verdict": "degraded", "causes": [died]}
    )
    report_anew(run)
    metrics = json.loads((run / "metrics.json").read_text())
    assert {name: metrics[name] for name in known} == known
    assert metrics["partial_reason"] == "cut"
    assert [cause["name"] for cause in metrics["validity"]["causes"]] == ["partial_ledger", "sender_died"]
    assert metrics["validity"]["verdict"] == "invalid"


@pytest.mark.parametrize("ledger", [False, True])
def test_the_files_that_a_run_was_told_of_may_have_gone(run: Path, ledger: bool) -> None:
    options = json.loads((run / "manifest.json").read_text())["options"]
    rewritten(
        run, "manifest.json", options=options | {"link": "uml", "trace": "gone.csv", "rtt": "gone.json"}
    )
    assert report_anew(run, ledger=ledger) == []


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no ledger": (lambda run: (run / "ledger.parquet").unlink(), "ledger.parquet: missing; without it"),
    "no link": (lambda run: (run / "link.parquet").unlink(), "link.parquet: missing; without it"),
    "no clock": (lambda run: (run / "clock.json").unlink(), "clock.json: missing; without it"),
    "no sums": (lambda run: (run / "SHA256SUMS").unlink(), "SHA256SUMS: missing; the run did not come"),
    "no figures": (lambda run: (run / "metrics.json").unlink(), "no result of a run: metrics.json"),
    "no log": (lambda run: (run / "wire.events").unlink(), "wire.events: missing; the run wrote one"),
    "another ledger": (
        lambda run: (run / "ledger.parquet").write_bytes(b"other"),
        "ledger.parquet: changed since the run wrote it",
    ),
    "other figures": (
        lambda run: (run / "metrics.json").write_text("{}"),
        "metrics.json: changed since the run wrote it",
    ),
    "a sum that is none": (
        lambda run: (run / "SHA256SUMS").write_text("../../etc/passwd\n"),
        "SHA256SUMS: line 1: not a sha256 sum and a name",
    ),
    "a name elsewhere": (
        lambda run: (run / "SHA256SUMS").write_text(f"{'0' * 64}  ../x\n"),
        "SHA256SUMS: line 1: not a sha256 sum and a name",
    ),
    "sums of nothing": (lambda run: (run / "SHA256SUMS").write_text(""), "metrics.json: not in SHA256SUMS"),
    "a broken table": (
        lambda run: ((run / "link.parquet").write_bytes(b"other"), write_checksums(RunDirectory(run))),
        "link.parquet: cannot be read",
    ),
    "an older ledger": (
        lambda run: (
            pq.write_table(pq.read_table(run / "ledger.parquet").drop(["copies"]), run / "ledger.parquet"),
            write_checksums(RunDirectory(run)),
        ),
        "ledger.parquet: column copies is missing: of another version",
    ),
    "another version": (
        lambda run: rewritten(run, "manifest.json", schema=1),
        "schema 1: this version reads",
    ),
}


@pytest.mark.parametrize("how", BREAKS)
def test_what_cannot_be_is_refused_with_the_file_and_nothing_changes(
    how: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, says = BREAKS[how]
    broken(run)
    before = content(run)
    code, out, err = said(["report", str(run)], monkeypatch, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert content(run) == before


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_ends_it_on_the_way_leaves_the_result_as_it_was(
    failure: BaseException, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(module, "write_result", fails)
    before = content(run)
    with pytest.raises((Refusal, KeyboardInterrupt)):
        report_anew(run)
    assert content(run) == before
    assert not any(path.is_dir() for path in run.iterdir())


def test_a_studys_results_are_told_their_own_command(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(Refusal, match="results of a study: `ivsim study report"):
        report_anew(tmp_path)


def test_the_command_says_what_changed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(run, delivered=99)
    code, out, _ = said(["report", str(run)], monkeypatch, capsys)
    assert code == 0
    assert out.splitlines()[-3:] == [
        "delivered: 3, was 99",
        "figures changed: 1",
        f"report: {run / 'report.html'}",
    ]


def test_figures_of_the_old_ledger_are_not_drawn_where_a_new_one_is_made(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Path] = []

    @contextmanager
    def noted(directory: Path) -> Iterator[None]:
        drawn.append(directory)
        yield None

    monkeypatch.setattr(figures, "figures_apart", noted)
    assert said(["report", str(run), "--ledger"], monkeypatch, capsys)[0] == 0
    assert drawn == []
    assert said(["report", str(run)], monkeypatch, capsys)[0] == 0
    assert drawn == [run]
