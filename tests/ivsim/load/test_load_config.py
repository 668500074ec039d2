"""A load test from a file: the words of the command line, what is typed first; no run is started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ivsim import cli
from ivsim.options import RunOptions
from ivsim.runs.outcome import Outcome

SCENARIO = """
protocol = "coap"
mode = "non"
loss_ratio = 0.1
stage = ["10s:5", "20s:5-20"]
rate = 0.5
threshold = ["delivery_ratio == 1"]
abort_on = ["unsent > 10"]
"""


class Asked:
    """Calls `ivsim load` and keeps what it would have run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.options: list[RunOptions] = []
        monkeypatch.setattr("ivsim.library.runs.outcome_of", self._execute)

    def _execute(self, options: RunOptions, *_: Any, **__: Any) -> Outcome:
        self.options.append(options)
        return Outcome(metrics={"delivery_ratio": 0.9})

    def __call__(self, *arguments: str) -> tuple[Any, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["ivsim", "load", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *self._capsys.readouterr()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(monkeypatch, capsys)


def test_a_scenario_file_says_what_the_command_line_says(asked: Asked, tmp_path: Path) -> None:
    scenario = tmp_path / "ramp.toml"
    scenario.write_text(SCENARIO)
    code, out, err = asked("--config", str(scenario), "--annotations", "github", "--json")
    typed = [
        "--protocol",
        "coap",
        "--non",
        "--loss",
        "0.1",
        "--stage",
        "10s:5",
        "--stage",
        "20s:5-20",
        "--rate",
        "0.5",
    ]
    assert asked(*typed)[0] == 0
    assert asked.options[0] == asked.options[1]
    assert code == 3
    assert '"delivery_ratio == 1"' in out
    assert err == "::error title=ivsim load%3A threshold::delivery_ratio == 1: missed: 0.9\n"


def test_what_is_typed_goes_before_the_file(asked: Asked, tmp_path: Path) -> None:
    scenario = tmp_path / "ramp.toml"
    scenario.write_text(SCENARIO)
    typed = [
        "--stage",
        "3s:7",
        "--rate",
        "2",
        "--loss",
        "0.2",
        "--con",
        "--threshold",
        "delivery_ratio > 0.5",
    ]
    code, _, _ = asked("--config", str(scenario), *typed)
    (options,) = asked.options
    assert (options.vehicles, options.duration_s, options.interval_s) == (7, 3.0, 0.5)
    assert (options.loss_ratio, options.mode, code) == (0.2, "con", 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stages = 3\nspeed = 1", "FILE: speed: no such option; options are protocol, mode"),
        ('stage = "10s:5"', "FILE: stage: '10s:5': expected a list of texts"),
        ('rate = "fast"', "FILE: rate: 'fast': expected a number"),
        ("rate = true", "FILE: rate: True: expected a number"),
        ("loss_ratio = 2", "FILE: loss_ratio 2: input should be less than or equal to 1"),
        ('threshold = ["p99"]', "--threshold 'p99': write a figure"),
        ('stage = ["10s"]', "--stage "),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line_and_nothing_runs(
    asked: Asked, tmp_path: Path, text: str, says: str
) -> None:
    scenario = tmp_path / "ramp.toml"
    scenario.write_text(text)
    code, out, err = asked("--config", str(scenario))
    assert (code, out, asked.options) == (2, "", [])
    assert err.replace(str(scenario), "FILE").startswith(f"ivsim: {says}")
    assert err.count("\n") == 1
