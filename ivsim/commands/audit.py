"""`ivsim audit`: a finished run's figures, recomputed from its raw logs; ivsim.audit does the work."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ivsim.audit import Audit, BadResult, Sheet, audit
from ivsim.audit.compare import KEPT
from ivsim.commands.result_path import result_path

SHOWN = 20


def command(
    results: Annotated[
        Path, typer.Argument(help="Directory of a finished run.", metavar="RESULTS", parser=result_path)
    ],
    *,
    every: Annotated[
        bool, typer.Option("--all", help=f"Print {KEPT:,} differences of each file, not {SHOWN}.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON alone on standard output.")
    ] = False,
) -> None:
    """Recompute every figure of a finished run from its raw logs, and print what differs.

    Ledger, metrics, report and tables are made again by code of its own: from
    the emission log, the gateways' logs, the capture, the link's log and
    Kafka's records; and, with tshark, from the frames of a run with --pcap.
    Nothing is changed.

    Exit code 0: all agree. 1: a figure differs. 2: refused, with the file's
    name: no result, one of another version, cut short, or a source changed.
    """
    try:
        made = audit(results, Progress() if sys.stderr.isatty() else _unsaid)
    except BadResult as error:
        print(f"ivsim: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(json.dumps(as_object(made), indent=2) if as_json else words(made, None if every else SHOWN))
    raise typer.Exit(0 if made.agrees else 1)


class Progress:
    """Says on the terminal's last line which share of the run is being held, and the time left."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, done: int, shares: int) -> None:
        left = ""
        if done:
            left_s = (time.monotonic() - self._began_s) * (shares - done) / done
            left = f", {left_s // 60:.0f}:{left_s % 60:02.0f} left"
        line = "" if done == shares else f"auditing share {done + 1} of {shares}{left}"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _unsaid(*_: int) -> None:
    """Say nothing: nobody looks."""


def as_object(made: Audit) -> dict[str, object]:
    """Return what an audit came to, for programs."""
    return {
        "run": made.result.manifest["run"],
        "agrees": made.agrees,
        "compared": made.compared,
        "notes": made.notes,
        "files": [
            {
                "file": sheet.name,
                "source": sheet.source,
                "compared": sheet.compared,
                "differing": sheet.differing,
                "as_said": sheet.as_said,
                "differences": [vars(difference) for difference in sheet.differences],
            }
            for sheet in made.sheets
        ],
    }


def words(made: Audit, most: int | None) -> str:
    """Return the same for a person: a line a file, a line a figure that differs, and what was not audited."""
    options = made.result.options
    what = f"{options['protocol']} {options['mode']}, {options['topology']}, {options['vehicles']} vehicles"
    lines = [made.result.manifest["run"], f"  {what}", ""]
    width = max(len(sheet.name) for sheet in made.sheets)
    for sheet in made.sheets:
        differ = sheet.differing
        outcome = f"{differ:,} differ" if differ else "agree"
        lines.append(f"  {sheet.name:<{width}}  {sheet.compared:>9,}  {outcome:<9}  {sheet.source}")
    for sheet in made.sheets:
        lines += _differences(sheet, most)
    lines += [f"  as said: {s.name}: {', '.join(s.as_said)}" for s in made.sheets if s.as_said]
    lines += [f"  not audited: {note}" for note in made.notes]
    differ = sum(sheet.differing for sheet in made.sheets)
    lines.append(
        f"All {made.compared:,} figures agree."
        if made.agrees
        else f"{differ:,} of {made.compared:,} figures DIFFER."
    )
    return "\n".join(lines)


def _differences(sheet: Sheet, most: int | None) -> list[str]:
    if not sheet.differences:
        return []
    first = sheet.differences[:most]
    rows = [("figure", "said", "recomputed"), *((d.figure, d.said, d.recomputed) for d in first)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["", f"{sheet.name}, from {sheet.source}:"]
    lines += [f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows]
    if len(first) < sheet.differing:
        more = " (--all)" if len(first) < len(sheet.differences) else ""
        lines.append(f"  and {sheet.differing - len(first):,} more{more}")
    return [*lines, ""]
