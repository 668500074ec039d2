"""`ivsim platform`: the ingestion platforms that `ivsim pipe` can measure, and fetching those that set-up leaves out."""

from __future__ import annotations

from typing import Annotated

import typer

from ivsim.listing import listing, width_of
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from schemas.errors import Refusal

app = typer.Typer(
    no_args_is_help=True, help="Ingestion platforms: list them, install those that set-up leaves out."
)


@app.command("list")
def list_() -> None:
    """List the platforms, with what is missing of each."""
    rows = [("platform", "installed", "what it is")]
    for row in map(platform_named, PLATFORMS):
        lack = row.missing()
        rows.append((row.name, "yes" if lack is None else "no", row.summary if lack is None else lack))
    print("\n".join(listing(rows, width_of())))


@app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="PLATFORM", help=f"One of {', '.join(PLATFORMS)}.")],
) -> None:
    """Fetch a platform that set-up leaves out: its server with Maven, its client with pip. Nothing where it is there."""
    if name not in PLATFORMS:
        raise Refusal(f"PLATFORM {name!r}: allowed are {', '.join(PLATFORMS)}")
    row = platform_named(name)
    if row.missing() is not None:
        print(f"{name}: fetching it, which takes a minute or two", flush=True)
        row.install()
    lack = row.missing()
    if lack is not None:
        raise Refusal(lack)
    print(f"{name}: installed")
