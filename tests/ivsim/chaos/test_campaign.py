"""A campaign around runs that are made up: what it tells, how it goes on after a stop, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from ivsim.chaos import campaign_run
from ivsim.chaos.campaign import ROWS, TABLE, Campaign, Row, Stopped
from ivsim.chaos.promises import Judgement
from ivsim.chaos.schedule import Schedule, read
from ivsim.runs.testbed import Testbed
from schemas.errors import Refusal

NO_TESTBED = cast("Testbed", None)
END = {
    "unsaved_s": 4.25,
    "unsaved_lost": 2,
    "first_unsaved_s": 0.125,
    "unshared_s": 1.5,
    "unshared_lost": 3,
    "last_unshared_s": None,
}


class Runs:
    """Stands in for run_schedule: fails where `fault` is, stops at run number `stop`."""

    def __init__(self, fault: str = "", stop: int = -1) -> None:
        self.fault, self.stop = fault, stop
        self.names: list[str] = []

    def __call__(self, schedule: Schedule, _base: Path, _testbed: Any) -> Row:
        if len(self.names) == self.stop:
            raise Stopped(130)
        self.names.append(schedule.name)
        faults = [planned.fault for planned in schedule.faults]
        judgement = Judgement("keeps", {"due": 9, "delivered": 9})
        if self.fault in faults:
            judgement.broken.append("the sky fell")
        lost = {"gateway": 2} if judgement.broken else {}
        ends = [END] if "broker-kill" in faults else []
        return Row(
            schedule.name, schedule.protocol, schedule.mode, faults, 9, lost, judgement, broker_ends=ends
        )


def call(monkeypatch: pytest.MonkeyPatch, runs: Runs, base: Path, faults: int = 40) -> int:
    monkeypatch.setattr(campaign_run, "run_schedule", runs)
    return campaign_run.run_campaign(Campaign(base, faults, 3), NO_TESTBED)


def test_no_breach_is_0_and_leaves_rows_and_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, Runs(), tmp_path) == 0
    rows = [json.loads(line) for line in (tmp_path / ROWS).read_text().splitlines()]
    assert sum(len(row["injected"]) for row in rows) == 40
    shown = capsys.readouterr()
    table = (tmp_path / TABLE).read_text()
    assert table in shown.out
    ended = {
        f"{row['protocol']} {row['mode']}": len(row["broker_ends"]) for row in rows if row["broker_ends"]
    }
    assert ended
    for mode, ends in ended.items():
        assert f"| {mode} | {ends} | 4.2 s | {2 * ends} | 0.125 s | 1.5 s | {3 * ends} |  |" in table
    assert f"40 faults in {len(rows)} runs; {9 * len(rows)} messages acknowledged; 0 runs broke" in table
    assert f"[{len(rows)}/{len(rows)}, " in shown.err


def test_a_breach_is_1_and_names_the_smallest_schedule(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, Runs("spark-kill"), tmp_path) == 1
    capsys.readouterr()
    text = (tmp_path / TABLE).read_text()
    assert "the sky fell" in text
    assert "2 gateway" in text
    files = sorted(tmp_path.glob("*-smallest.json"))
    assert files
    for file in files:
        assert f"`ivsim chaos --schedule {file}`" in text
        assert "spark-kill" in [planned.fault for planned in read(file).faults]


def test_a_stop_keeps_what_is_done_and_the_next_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Runs(stop=3), Runs()
    assert call(monkeypatch, first, tmp_path) == 130
    assert "goes on from here" in " ".join(capsys.readouterr().err.split())
    assert call(monkeypatch, second, tmp_path) == 0
    assert "3 runs are in" in capsys.readouterr().err
    assert first.names + second.names == [schedule.name for schedule in Campaign(tmp_path, 40, 3).schedules]


def test_another_campaigns_directory_is_refused(tmp_path: Path) -> None:
    Campaign(tmp_path, 40, 3)
    for faults, seed in ((41, 3), (40, 4)):
        with pytest.raises(Refusal, match="another campaign's: --campaign 40 --seed 3"):
            Campaign(tmp_path, faults, seed)
    (tmp_path / ROWS).write_text("rain\n")
    with pytest.raises(Refusal, match="not a campaign's"):
        Campaign(tmp_path, 40, 3)


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text("{}")
    with pytest.raises(Refusal, match="not empty"):
        Campaign(tmp_path, 40, 3)
