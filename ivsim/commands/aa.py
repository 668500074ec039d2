"""`ivsim aa`: measures one setting of a study twice by the same design, and prints what differences that finds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.commands.progress import progress_option
from ivsim.commands.study import outcome_of, tell_of
from ivsim.listing import paragraph, table, width_of
from ivsim.told import TERMINAL


def command(
    name: Annotated[
        str, typer.Argument(metavar="STUDY", help="A study's name (ivsim study list) or a study.toml.")
    ],
    cell: Annotated[
        str | None, typer.Option(help="Name of the cell to measure; the first without it.")
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="How many blocks; as many as the study's without it.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Directory of results; default aa below the study's results where these are there, else"
            " results/studies/STUDY-aa."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small samples, one repetition: to see that it works.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    progress: Annotated[str, progress_option()] = TERMINAL,
) -> None:
    """Measure one setting of a study twice, as two cells of each block, and show what differences that finds.

    A design that finds more than noise between a setting and itself cannot tell two settings apart. An interrupted one goes on
    by `ivsim study resume`. Exit codes are those of `ivsim study run`.
    """
    from ivsim.library.studies import begun_twice, measured  # noqa: PLC0415 - the testbed: not before it is needed
    from ivsim.study import twice  # noqa: PLC0415 - scipy takes a second to load

    tell = tell_of(progress, quiet=quiet)
    store = begun_twice(name, output, cell=cell, repetitions=repetitions, quick=quick)
    found = measured(store, tell, again=False)
    if all(one.done for one in found.cells):
        rows = twice.rows(found.study, found.cells)
        print("\n".join(table(twice.HEAD, [twice.as_row(row) for row in rows], width_of())))
        print("\n".join(["", *paragraph(twice.sentence(rows), width_of())]))
    raise typer.Exit(outcome_of(found, None))
