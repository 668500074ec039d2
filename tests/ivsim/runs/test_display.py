"""What a run says on a terminal while it goes."""

from __future__ import annotations

import io

from rich.console import Console

from ivsim.runs.display import Display


def drawn(display: Display) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(display._draw())
    return out.getvalue()


def test_the_time_left_is_of_the_phase_that_it_was_told_in() -> None:
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
        display._phase_began_s -= 20
        display.phase("accounting: reading the ledger")
        assert drawn(display).splitlines()[0].split()[-2:] == ["20", "s"]


def test_a_file_has_a_line_a_phase() -> None:
    out = io.StringIO()
    with Display(quiet=False, console=Console(file=out, width=80)) as display:
        display.phase("running")
        display.phase("draining")
    assert out.getvalue() == "running\ndraining\n"
