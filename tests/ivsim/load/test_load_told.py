"""What a load test prints and which exit code it has, for outcomes that were made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ivsim.commands import load
from ivsim.load.by_stage import StageFigures
from ivsim.option_rules import run_options
from ivsim.runs.outcome import EXIT_FAILED, Outcome
from ivsim.runs.validity import EXIT_INVALID
from ivsim.thresholds import EXIT_MISSED, parse

THRESHOLD = "delivery_ratio == 1"


def outcome(ratio: float | None, **more: Any) -> Outcome:
    causes = [{"name": "generator_limited", "words": "late [bold] by 70 ms", "severity": "degraded"}]
    metrics = {"run": "r", "delivery_ratio": ratio, "validity": {"verdict": "degraded", "causes": causes}}
    return Outcome(metrics=metrics, **more)


def told(found: Outcome, junit: Path | None = None, *, as_json: bool = False) -> int:
    return load._told(found, run_options(), [parse(THRESHOLD)], junit, "none", as_json=as_json, time_s=1.0)


@pytest.mark.parametrize(
    ("ratio", "exit_code", "code"),
    [
        (1.0, 0, 0),
        (0.9, 0, EXIT_MISSED),
        (None, 0, EXIT_MISSED),
        (0.9, EXIT_INVALID, EXIT_INVALID),
        (1.0, EXIT_FAILED, EXIT_FAILED),
    ],
)
def test_the_exit_code_is_the_runs_or_the_thresholds(ratio, exit_code, code, capsys) -> None:
    assert told(outcome(ratio, exit_code=exit_code), as_json=True) == code
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "generator-limited"
    assert result["thresholds"][0]["verdict"] == {1.0: "met", 0.9: "missed", None: "not measured"}[ratio]


def test_the_first_line_is_the_word_with_its_reasons_as_they_are(capsys) -> None:
    assert told(outcome(1.0)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "generator-limited: late [bold] by 70 ms"
    assert f"threshold {THRESHOLD}: met: 1" in lines


def test_a_verdict_that_cannot_be_written_is_said_and_fails(tmp_path: Path, capsys) -> None:
    assert told(outcome(1.0), tmp_path) == EXIT_FAILED
    said = capsys.readouterr()
    assert said.err == f"ivsim: --junit {tmp_path}: Is a directory\n"
    assert said.out.startswith("generator-limited: ")


def test_the_table_of_stages_fits_80_columns(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = StageFigures(
        120.0, 1_000, 15_000, 99_999, 15_000.0, 14_999.5, 14_999.5, 0.9999, 99_999.9, 9_999.9, 99_999.9
    )
    monkeypatch.setattr(load, "_stages", lambda _outcome, _options: [one])
    assert told(outcome(1.0)) == 0
    text = capsys.readouterr().out
    for word in (
        "vehicles",
        "offered",
        "emitted",
        "delivered",
        "delivery",
        "to 15,000",
        "lag p99",
        "end p50",
    ):
        assert word in text
    assert "…" not in text
