"""A killed run's result: what it is not made of, and what stands in its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ivsim.application import app
from ivsim.audit import audit
from ivsim.library.folder import found_in, is_unfinished, remove
from ivsim.library.report_anew import report_anew
from ivsim.library.unfinished import KILLED, finish
from ivsim.runs.directory import RunDirectory
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from tests.ivsim.audit.made_up_result import made_up_result

# What `account` makes of a run's logs, the last first.
MADE = (
    "SHA256SUMS", "report.html", "metrics.json", "ledger.parquet", "run.json", "clock.json", "link.parquet",
    "connections.parquet", "emissions.parquet",
)  # fmt: skip


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))


def killed(directory: Path, made: int) -> Path:
    """Return a made-up echo run that was killed so many files before its end."""
    run = made_up_result(directory)
    rewrite(run, lambda manifest: manifest | {"sender": {"shards": 1}})
    (run / "logs").mkdir(exist_ok=True)
    (run / "work").mkdir()
    (run / "work" / "sender.done.json").write_text('{"cpu_s": 1.5, "access_refused": 0}')
    for name in MADE[:made]:
        (run / name).unlink()
    return run


def rewrite(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    manifest = run / "manifest.json"
    manifest.write_text(json.dumps(change(json.loads(manifest.read_text()))))


def content(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("made", range(5, len(MADE) + 1))
def test_wherever_its_accounting_was_killed_it_is_made_of_the_logs(tmp_path: Path, made: int) -> None:
    run = killed(tmp_path / "run", made)
    assert is_unfinished(run)
    metrics = finish(run)
    assert not is_unfinished(run)
    assert metrics["partial_reason"] == KILLED
    assert metrics["run_due"] == 8
    assert metrics["run_received"] > 0
    assert metrics["security"]["sender_cpu_s"] == 1.5
    assert metrics["certificate"]["verdict"] == "unproven"
    assert metrics["clock_drift_ms"] is None
    # The capture is there; how many of its bytes were the link's own probes nobody says.
    assert pq.read_table(run / "wire.parquet").num_rows > 0
    for name in (
        "wire_bytes_uplink",
        "probe_bytes_uplink",
        "overhead_bytes_per_message",
        "link_rate_uplink_achieved_bps",
    ):
        assert metrics[name] is None, name
    assert audit(run).agrees
    assert report_anew(run) == []
    assert report_anew(run, ledger=True) == []


def test_a_run_that_was_whole_is_left_as_it_is(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", 0)
    before = {path: data for path, data in content(run).items() if path.parent == run}
    with pytest.raises(Refusal, match="or was killed: `ivsim report` finishes it"):
        report_anew(run)
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == "finished"
    assert content(run) == before
    assert not is_unfinished(run)


def test_a_table_of_the_capture_that_was_cut_off_is_taken_out_and_named(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    categories = run / "wire_categories.parquet"
    categories.write_bytes(categories.read_bytes()[:-20])
    counted = pq.read_table(run / "wire.parquet")
    (run / "wire.parquet").unlink()
    assert finish(run)["partial_reason"] == f"{KILLED}; wire_categories.parquet: cut off"
    assert not categories.exists()
    assert pq.read_table(run / "wire.parquet").equals(counted)


def test_the_files_that_it_was_told_of_may_have_gone(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    rewrite(run, lambda made: made | {"options": made["options"] | {"link": "uml", "trace": "gone.csv"}})
    assert finish(run)["run_received"] > 0


def test_what_its_parts_did_not_come_to_say_is_unknown(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    (run / "work" / "sender.done.json").write_text('{"cpu')
    assert finish(run)["security"]["sender_cpu_s"] is None


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    name = json.loads((run / "manifest.json").read_text())["run"]
    before = content(run)
    with RunRecord(name, tmp_path / "work"):
        assert found_in(run).state == "running"
        for doing in (finish, remove):
            with pytest.raises(Refusal, match=rf"^{run}: the run goes on$"):
                doing(run)
    assert content(run) == before
    assert found_in(run).state == "unfinished"


def test_a_killed_run_may_be_removed_as_it_is(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    remove(run)
    assert not run.exists()


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a manifest that is cut off": (
        lambda run: (run / "manifest.json").write_text('{"schema": 2'),
        "manifest.json: no JSON",
    ),
    "another version's": (
        lambda run: rewrite(run, lambda made: made | {"schema": 1}),
        "schema 1: this version reads 2",
    ),
    "options that no run has": (
        lambda run: rewrite(run, lambda made: made | {"options": made["options"] | {"vehicles": 0}}),
        "--vehicles",
    ),
    "vehicles of other machines": (
        lambda run: rewrite(
            run,
            lambda made: (
                made
                | {"options": made["options"] | {"agents": ["198.51.100.7:4000"], "agent_token_file": "t"}}
            ),
        ),
        "the logs of its agents' vehicles went with it",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_finished_is_refused_in_a_line_and_stays(tmp_path: Path, how: str) -> None:
    run = killed(tmp_path / "run", len(MADE))
    broken, says = REFUSED[how]
    broken(run)
    before = content(run)
    with pytest.raises(Refusal) as refused:
        finish(run)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert content(run) == before


def test_without_a_log_of_kafka_the_result_says_so_and_claims_no_loss(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", len(MADE))
    rewrite(run, lambda made: made | {"options": made["options"] | {"topology": "gateway"}})
    metrics = finish(run)
    assert "Kafka's records could not be kept: the run has left no log of Kafka" in metrics["partial_reason"]
    fates = pq.read_table(RunDirectory(run).ledger)["fate"].to_pylist()
    assert len(fates) == 8
    assert "lost" not in fates
    assert metrics["delivery_ratio"] is None
