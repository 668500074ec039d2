"""`ivsim reproduce`: repeats a published study and prints, claim by claim, what agrees."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ivsim.papers import PAPERS, paper_named
from ivsim.runs.outcome import EXIT_FAILED

_LIST = "\n\n".join(f"{name}: {row.citation}" for name, row in PAPERS.items())
HELP = f"""Repeat a published study and decide its claims, one by one; goes on with results that are there.

Papers:

{_LIST}"""


def command(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help=f"One of {', '.join(PAPERS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="At most ten minutes: small samples.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Directory of results; default results/studies/PAPER.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    from ivsim.papers.reproduction import reproduce  # noqa: PLC0415 - the testbed: not before it is needed
    from ivsim.study.execution import default_output  # noqa: PLC0415

    where = output or default_output(paper, quick=quick)
    found = reproduce(paper_named(paper), where, quick=quick, quiet=quiet)
    print(f"{found.claims}\n\n{found.report}")
    for study, why in found.left_out.items():
        print(f"ivsim: study {study} left out: {why}", file=sys.stderr)
    for failure in found.failures:
        print(f"ivsim: cell {failure}", file=sys.stderr)
    raise typer.Exit(EXIT_FAILED if found.failures else 0)


command.__doc__ = HELP
