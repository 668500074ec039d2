"""`ivsim plugins`: parts that other installed packages add to the tables; ivsim.plugins does the work."""

from __future__ import annotations

import sys

import typer

from ivsim.listing import listing, width_of
from ivsim.plugins import listed

EXIT_REFUSED = 2


def command() -> None:
    """List the parts that other installed packages add, and what is refused of them; exit code 2 when something is."""
    rows = listed()
    if not rows:
        print("No plug-ins are installed.")
        return
    head = ("kind", "name", "package", "")
    cells = [
        (row.plugin.group, row.plugin.name, f"{row.plugin.package} {row.plugin.version}", row.state)
        for row in rows
    ]
    print("\n".join(listing([head, *cells], width_of())))
    refused = [row.refusal for row in rows if row.refusal is not None]
    for reason in refused:
        print(f"ivsim: {' '.join(reason.split())}", file=sys.stderr)
    raise typer.Exit(EXIT_REFUSED if refused else 0)
