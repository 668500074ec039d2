"""`ivsim platform`: the ingestion platforms that `ivsim pipe` can measure, and fetching those that set-up leaves out."""

from __future__ import annotations

import sys
from pathlib import Path
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


@app.command("power-cut")
def power_cut(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PLATFORM...", help="Which; default all that promise a durability."),
    ] = None,
    durability: Annotated[
        str, typer.Option(help="What an answer promises, by commas: cache, synced.")
    ] = "cache,synced",
    cuts: Annotated[int, typer.Option(min=1, max=1_000, help="Cuts of each platform and durability.")] = 5,
    rate: Annotated[float, typer.Option(min=1, max=2_000, help="Records a second.")] = 200.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order, and of each cut's moment.")] = 1,
    output: Annotated[Path, typer.Option(help="Directory of the result, new or empty.")] = Path(
        "results/power-cuts"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Cut the power of the machine that a platform stands on, and count what it has lost of what it acknowledged.

    The machine is a user-mode Linux with a disk of its own. Exit code 1 when a platform did not come back.
    """
    from ivsim.runs.display import Display  # noqa: PLC0415 - a second that --help need not wait
    from ivsim.runs.interrupt import Interrupted, interruptible  # noqa: PLC0415
    from ivsim.study.engines.pipe.power_cut_series import FILE, HEAD, REPORT, Asked, checked, rows  # noqa: PLC0415
    from ivsim.study.engines.pipe.power_cut_series import cuts as cut_all  # noqa: PLC0415
    from ivsim.study.engines.pipe.run import new_directory  # noqa: PLC0415
    from simulator.links.privileges import ensure_privileges  # noqa: PLC0415

    able = [name for name in PLATFORMS if platform_named(name).durability]
    here = [name for name in able if platform_named(name).missing() is None]
    asked = checked(Asked(names or here, durability.split(","), cuts, rate, seed))
    ensure_privileges()
    path = new_directory(output)
    try:
        with interruptible(), Display(quiet=quiet) as display:
            found = cut_all(
                asked, path, lambda over, of, what: display.phase(f"cut {over + 1} of {of}: {what}")
            )
    except Interrupted as interrupted:
        print(
            f"ivsim: stopped by {interrupted}; the cuts that were over are in {path / FILE}", file=sys.stderr
        )
        raise typer.Exit(128 + interrupted.number) from None
    for row in listing([HEAD, *rows(found)], width_of()):
        print(row)
    print(f"report: {path / REPORT}")
    raise typer.Exit(1 if any(one["error"] is not None for one in found) else 0)
