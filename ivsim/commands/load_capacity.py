"""`ivsim load --find-capacity`: searches, prints the table, and returns the exit code; `ivsim.load.capacity` does the work."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.load.capacity import Searched, Step, search
from ivsim.load.capacity_asked import Asked
from ivsim.load.service_level import ServiceLevel
from ivsim.runs.directory import make_run_directory
from ivsim.runs.display import Display, JsonDisplay
from ivsim.runs.memory import check_memory, check_memory_with_link
from ivsim.runs.preflight import preflight
from ivsim.runs.versions import machine
from ivsim.search import Ask
from ivsim.told import say, say_error
from simulator.links.privileges import ensure_privileges

_WORDS = {"capacity": "green", "at least": "bold yellow"}
_VERDICTS = {"met": "green", "generator": "yellow"}


def find_capacity(
    asked: Asked, level: ServiceLevel, output: Path | None, *, quiet: bool, as_json: bool, json_lines: bool
) -> int:
    """Search, write the result directory, print it; return the exit code."""
    from ivsim.load.capacity_report import write_report, write_summary  # noqa: PLC0415 - charts load in a second
    from ivsim.load.capacity_words import result_of, summary_of  # noqa: PLC0415

    most = asked.of(Ask("step", asked.bounds.most))
    check_memory(most)
    preflight(most)
    ensure_privileges()
    check_memory_with_link(most)
    options = asked.options
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    name = f"{stamp}-capacity-{options.protocol}-{options.mode}-{secrets.token_hex(3)}"
    directory = make_run_directory(output, name)
    here = machine()
    silent = (quiet or as_json) and not json_lines

    def noted(steps: Sequence[Step]) -> None:
        write_summary(directory.path, Searched(asked, level, tuple(steps), None), here)
        one = steps[-1]
        verdict = "warm-up, not judged" if one.kind == "warm-up" else one.verdict
        reasons = f" ({one.reasons})" if one.reasons and one.kind != "warm-up" else ""
        if not silent:
            say("step", f"{len(steps)}: {one.load:,} {asked.raised}: {verdict}{reasons}")

    def display() -> Display:
        return JsonDisplay(sys.stderr) if json_lines else Display(quiet=silent)

    try:
        searched = search(asked, level, directory.path, directory.work, display=display, noted=noted)
    finally:
        shutil.rmtree(directory.work, ignore_errors=True)
    report = write_report(directory.path, searched)
    result = result_of(searched)
    if as_json:
        print(json.dumps(summary_of(searched, here), indent=2, default=str))
    else:
        _print(Console(), searched, report)
    if searched.stopped is not None:
        say_error(f"stopped by {searched.stopped}")
    return result.exit_code


def _print(console: Console, searched: Searched, report: Path) -> None:
    from ivsim.load.capacity_words import HEAD, head_of, notes, result_of, rows  # noqa: PLC0415

    result = result_of(searched)
    line = Text.assemble((result.word, _WORDS.get(result.word, "bold red")), f": {result.words}")
    console.print(line, soft_wrap=True)
    table = Table(
        title=head_of(searched), title_justify="left", title_style="bold", header_style="dim", padding=0
    )
    for head in HEAD:
        table.add_column(head, justify="left" if head in {"kind", "verdict"} else "right")
    for one, row in zip(searched.steps, rows(searched.steps), strict=True):
        style = "dim" if one.kind == "warm-up" else _VERDICTS.get(one.verdict or "", "red")
        table.add_row(*row[:3], Text(row[3], style=style), *row[4:])
    console.print(table)
    for note in notes(searched.steps):
        console.print(note, soft_wrap=True, highlight=False, markup=False)
    console.print(f"report: {report.with_suffix('.html')}", soft_wrap=True, highlight=False, markup=False)
