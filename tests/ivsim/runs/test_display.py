"""What a run says on a terminal while it goes."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ivsim.option_rules import run_options
from ivsim.runs.display import Display
from ivsim.runs.runner import Run


def drawn(display: Display) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(display)
    return out.getvalue()


def test_the_time_left_is_of_the_phase_that_it_was_told_in(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    with Display(quiet=False, console=Console(file=out, width=80, force_terminal=True)) as display:
        display.phase("draining")
        display.progress(0.99, 0.2, {"delivered": 7})
        assert "0 s left" in drawn(display)
        display.phase("draining")
        assert "0 s left" in drawn(display)
        display.phase("accounting")
        shown = drawn(display)
        assert "left" not in shown
        assert shown.splitlines()[0].split() == ["accounting", "0", "s"]
        assert "7" in shown
        later_s = time.monotonic() + 20
        monkeypatch.setattr("ivsim.runs.display.time", SimpleNamespace(monotonic=lambda: later_s))
        display.phase("accounting: reading the ledger")
        assert drawn(display).splitlines()[0].split()[-2:] == ["20", "s"]


FIGURES = {
    "offered": 1_234_567, "emitted": 1_234_560, "acknowledged": 1_234_000, "in twin": 1_233_000, "unsent": 12,
    "wire kB": 345_678.9, "p50 ms": 12.3, "p99 ms": 1_345.6, "lag ms": 0.234,
}  # fmt: skip
CORES = {
    "sender": 0.312,
    "mosquitto": 0.08,
    "gateway": 0.1,
    "capture": 0.1,
    "kafka": 0.09,
    "spark": 0.41,
    "runner": 0.06,
}


@pytest.mark.parametrize("terminal", [True, False])
def test_figures_and_the_cores_of_each_part_fit_into_80_columns(terminal: bool) -> None:
    out = io.StringIO()
    with Display(quiet=False, console=Console(file=out, width=80, force_terminal=terminal)) as display:
        display.progress(0.45, 12.0, FIGURES, CORES)
        shown = drawn(display) if terminal else out.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    for name, text in zip(FIGURES, ("1,234,567", "1,234,560", "1,234,000", "1,233,000", "12"), strict=False):
        assert text in words if terminal else f"{name} {text}" in words
    assert "CPU in cores: sender 0.31, mosquitto 0.08, gateway 0.10," in words


def test_a_file_has_a_line_a_phase() -> None:
    out = io.StringIO()
    with Display(quiet=False, console=Console(file=out, width=80)) as display:
        display.phase("running")
        display.phase("draining")
    assert out.getvalue() == "running\ndraining\n"


def test_progress_begins_with_nothing_and_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a short run it began at 59 %, as if the loss timeout were over, and at 0 % again when it was waited for."""
    run, told = Run.__new__(Run), []
    monkeypatch.setattr(run, "_display", Display(quiet=True), raising=False)
    monkeypatch.setattr(run, "_tick", lambda _started, share, _left_s: told.append(share))
    monkeypatch.setattr("ivsim.runs.runner.arrived", lambda *_: len(told) > 8)
    monkeypatch.setattr("ivsim.runs.runner._drain_end_ns", lambda *_: time.time_ns() + 10**10)
    options = run_options(duration_s=1.0, loss_timeout_s=30.0)
    plan = SimpleNamespace(senders=[])
    started: Any = SimpleNamespace(start_at_ns=time.time_ns(), options=options, plan=plan)
    run._wait(started)
    assert 0 <= told[0] < 0.3
    assert told[-1] < 1
    assert run._drain(started)
    assert told == sorted(told)
    assert told[-1] == 1
