"""`ivsim profile`: deployment profiles; ivsim.profile_check does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.listing import listing, width_of

EXIT_MISSING = 1

app = typer.Typer(no_args_is_help=True, help="Deployment profiles: where Kafka, Spark and the target are.")


@app.callback()
def group() -> None:
    """Deployment profiles: where Kafka, Spark and the target are."""


@app.command()
def check(
    profile: Annotated[Path, typer.Argument(metavar="FILE", help="The profile, a TOML file.")],
) -> None:
    """Try each connection that a profile names, and say in one line each what is there and what is missing.

    Nothing is made or changed anywhere. Exit code 1 when something is missing.
    """
    from ivsim.profile_check import checks, options_of  # noqa: PLC0415 - a second that --help need not wait

    found = list(checks(options_of(profile)))
    rows = [
        (one.part, "yes" if one.missing is None else "no", one.there or one.missing or "") for one in found
    ]
    print("\n".join(listing(rows, width_of())) if rows else f"{profile}: names nothing: all is the run's own")
    raise typer.Exit(EXIT_MISSING if any(one.missing is not None for one in found) else 0)
