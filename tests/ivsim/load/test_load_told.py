"""What a load test prints and which exit code it has, for outcomes that were made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ivsim import cli
from ivsim.commands import load
from ivsim.load.by_stage import StageFigures
from ivsim.runs.outcome import EXIT_FAILED, Outcome
from ivsim.runs.validity import EXIT_INVALID
from ivsim.thresholds import EXIT_MISSED

THRESHOLD = "delivery_ratio == 1"


def outcome(ratio: float | None, **more: Any) -> Outcome:
    causes = [{"name": "generator_limited", "words": "late [bold] by 70 ms", "severity": "degraded"}]
    metrics = {"run": "r", "delivery_ratio": ratio, "validity": {"verdict": "degraded", "causes": causes}}
    return Outcome(metrics=metrics, **more)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Type a load test that ends so, and return its exit code."""

    def typed(found: Outcome, *words: str, meanwhile: Callable[[], None] = lambda: None) -> int:
        def executed(*_: Any, **__: Any) -> Outcome:
            meanwhile()
            return found

        monkeypatch.setattr("ivsim.library.runs.outcome_of", executed)
        stated = ["--stage", "1s:10", "--threshold", THRESHOLD, "--annotations", "none"]
        monkeypatch.setattr(sys, "argv", ["ivsim", "load", *stated, *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    return typed


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
def test_the_exit_code_is_the_runs_or_the_thresholds(ratio, exit_code, code, told, capsys) -> None:
    assert told(outcome(ratio, exit_code=exit_code), "--json") == code
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "generator-limited"
    assert result["thresholds"][0]["verdict"] == {1.0: "met", 0.9: "missed", None: "not measured"}[ratio]


def test_the_first_line_is_the_word_with_its_reasons_as_they_are(told, capsys) -> None:
    assert told(outcome(1.0)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "generator-limited: late [bold] by 70 ms"
    assert f"threshold {THRESHOLD}: met: 1" in lines


def test_a_verdict_that_cannot_be_written_is_said_and_fails(told, tmp_path: Path, capsys) -> None:
    junit = tmp_path / "junit.xml"
    assert told(outcome(1.0), "--junit", str(junit), meanwhile=junit.mkdir) == EXIT_FAILED
    said = capsys.readouterr()
    assert said.err == f"ivsim: --junit {junit}: Is a directory\n"
    assert said.out.startswith("generator-limited: ")


def test_the_table_of_stages_fits_80_columns(
    told, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = StageFigures(
        120.0, 1_000, 15_000, 99_999, 15_000.0, 14_999.5, 14_999.5, 0.9999, 99_999.9, 9_999.9, 99_999.9
    )
    (tmp_path / "manifest.json").write_text('{"start_at_ns": 0}')
    monkeypatch.setattr(load, "stage_figures", lambda *_: [one])
    assert told(outcome(1.0, directory=tmp_path)) == 0
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
