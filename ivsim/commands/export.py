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
    to: Annotated[
        str, typer.Option("--to", help="Tables: csv, parquet or json. Charts: svg, png or pdf.")
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(help="A new directory for the files. (default RESULTS' name and the format)"),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="A table, such as ledger; may be given more than once.")
    ] = None,
    chart: Annotated[
        list[str] | None, typer.Option(help="A chart, such as stages; may be given more than once.")
    ] = None,
) -> None:
    """Write the tables of a run or a study, or the charts of its report, a file each.

    Of a run: its figures (metrics), the ledger with one row for each message due,
    the link second by second, and the logs behind them. Of a study: figures with
    intervals, and the figures of each repetition. A figure that is not defined is null (CSV: an empty field), never 0.

    Charts are drawn anew, with fonts in the file and 300 dots per inch, as publishers ask for.
    """
    from ivsim.library.export import export  # noqa: PLC0415 - pyarrow and scipy: not before they are needed

    where = output or Path(f"{results.absolute().name}-{to}")
    written = export(results, to, where, tuple(table or ()), tuple(chart or ()))
    print("\n".join(listing([(str(path), words) for path, words in written], width_of())))
