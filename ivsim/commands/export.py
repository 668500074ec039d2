"""`ivsim export`: a result as tables for other programs; ivsim.library.export does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.commands.result_path import result_path
from ivsim.listing import listing, width_of


def command(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A directory of a run or a study.", parser=result_path)
    ],
    *,
    to: Annotated[str, typer.Option("--to", help="csv, parquet or json.")] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(help="A new directory for the files. (default RESULTS' name and the format)"),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--table", help="A table, such as ledger; may be given more than once."),
    ] = None,
) -> None:
    """Write the tables of a run or a study as files that other programs read, a table a file.

    Of a run: its figures (metrics), the ledger with one row for each message due,
    the link second by second, and the logs behind them. Of a study: figures with
    intervals, and the figures of each repetition. A figure that is not defined is null (CSV: an empty field), never 0.
    """
    from ivsim.library.export import export  # noqa: PLC0415 - pyarrow and scipy: not before they are needed

    where = output or Path(f"{results.absolute().name}-{to}")
    written = export(results, to, where, tuple(name or ()))
    rows = [(str(path), f"{count:,} rows") for path, count in written]
    print("\n".join(listing(rows, width_of())))
