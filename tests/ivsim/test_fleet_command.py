"""`ivsim fleet`: the files that it writes, its note, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim import cli
from ivsim.option_rules import run_options
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from simulator.fleet import emissions
from simulator.scenario import Scenario


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ivsim", "fleet", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_a_share_of_a_fleet_of_millions_is_written_and_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "third"
    # Of ten thousand shares of three million vehicles, each has three hundred.
    words = ["--vehicles", "3000000", "--share", "10000/10000", "--duration", "1", "--format", "avro"]
    assert typed(monkeypatch, *words, "--seed", "7", "--output", str(place), "--json") == 0
    note = json.loads(capsys.readouterr().out)
    assert note == json.loads((place / "fleet.json").read_text())
    assert (note["vehicles"], note["messages"], note["files"]) == (300, 300, 1)
    assert note["options"]["share"] == "10000/10000"
    rows = pq.read_table(place / "messages-0010000.parquet").to_pylist()
    scenario = Scenario(vehicles=3_000_000, duration_s=1.0, format="avro", seed=7)
    start_at_ns = note["options"]["start_at_ms"] * 1_000_000
    (last,) = emissions(scenario, start_at_ns, [3_000_000])
    assert {"due_offset_ns": last.due_offset_ns, "vehicle_id": vehicle_id(3_000_000), "epoch": 1, "sequence": 1,
            "payload": last.payload} in rows  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--vehicles 10000000", "--vehicles 10000000: input should be less than or equal to 9999999"),
        ("--vehicles 0", "--vehicles 0: input should be greater than or equal to 1"),
        ("--share 3/2", "--share '3/2': write K/N with K from 1 to N, and N up to 10000"),
        ("--share 0/2", "--share '0/2': write K/N with K from 1 to N, and N up to 10000"),
        ("--share half", "--share 'half': write K/N with K from 1 to N, and N up to 10000"),
        ("--vehicles 2 --share 1/3", "--share 1/3: each needs a vehicle at least: --vehicles is 2"),
        ("--format xml", "--format 'xml': allowed are"),
        ("--interval nan", "--interval 'nan': expected a number"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    words: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert typed(monkeypatch, *words.split(), "--output", str(tmp_path / "x")) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/proc/x", "."])
def test_a_place_that_cannot_be_written_or_holds_something_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("somebody's")
    assert typed(monkeypatch, "--output", place) == 2
    assert f"--output {place}: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("asked", [{"vehicles": 65_001}, {"vehicles": 1_000_000, "link": "direct"}])
def test_a_run_says_how_many_vehicles_fit_and_what_takes_more(asked: dict[str, object]) -> None:
    with pytest.raises(
        Refusal,
        match=r"^--vehicles \d+: a run has up to 65000, each with an address of its own in 198\.18\.0\.0/16;"
        r" `ivsim fleet` generates the messages of up to 9999999 without sending any$",
    ):
        run_options(**asked)
