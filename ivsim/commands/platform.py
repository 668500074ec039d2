"""`ivsim platform`: the ingestion platforms that `ivsim pipe` can measure, and fetching those that set-up leaves out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ivsim.listing import listing, width_of
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named, promising
from schemas.errors import Refusal

app = typer.Typer(
    no_args_is_help=True, help="Ingestion platforms: list them, install those that set-up leaves out."
)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PLATFORM...", help="Which; default all that promise a durability."),
]
Output = Annotated[Path, typer.Option(help="Directory of the result, new or empty.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Durability = Annotated[str, typer.Option(help="What an answer promises, by commas: cache, synced.")]


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


@app.command()
def capacity(
    names: Names = None,
    durability: Durability = "cache,synced",
    record: Annotated[
        str, typer.Option(help="Records, by commas: b500, b1k, b65k, b600k.")
    ] = "b1k,b65k,b600k",
    seed: Annotated[int, typer.Option(min=0, help="Of the order.")] = 1,
    output: Output = Path("results/capacity"),
    quiet: Quiet = False,
) -> None:
    """Search the highest rate that a platform carries, beside its full speed and its own tool.

    Two to three minutes for each platform, durability and record. Exit code 1 when a search came to no result.
    """
    from ivsim.study.engines.pipe.capacity_series import FILE, HEAD, REPORT, Asked, checked, rows, searches  # noqa: PLC0415

    asked = checked(Asked(names or _here(), durability.split(","), record.split(","), seed))
    found, path = _shown(partial(searches, asked), output, "search", FILE, quiet=quiet)
    _tell([HEAD, *rows(found)], path / REPORT)
    raise typer.Exit(1 if any(one.error is not None for one in found) else 0)


@app.command("power-cut")
def power_cut(
    names: Names = None,
    durability: Durability = "cache,synced",
    cuts: Annotated[int, typer.Option(min=1, max=1_000, help="Cuts of each platform and durability.")] = 5,
    rate: Annotated[float, typer.Option(min=1, max=2_000, help="Records a second.")] = 200.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order, and of each cut's moment.")] = 1,
    output: Output = Path("results/power-cuts"),
    quiet: Quiet = False,
) -> None:
    """Cut the power of the machine that a platform stands on, and count what it has lost of what it acknowledged.

    The machine is a user-mode Linux with a disk of its own. Exit code 1 when a platform did not come back.
    """
    from ivsim.study.engines.pipe.power_cut_series import FILE, HEAD, REPORT, Asked, checked, rows  # noqa: PLC0415
    from ivsim.study.engines.pipe.power_cut_series import cuts as cut_all  # noqa: PLC0415
    from simulator.links.privileges import ensure_privileges  # noqa: PLC0415

    asked = checked(Asked(names or _here(), durability.split(","), cuts, rate, seed))
    ensure_privileges()
    found, path = _shown(partial(cut_all, asked), output, "cut", FILE, quiet=quiet)
    _tell([HEAD, *rows(found)], path / REPORT)
    raise typer.Exit(1 if any(one["error"] is not None for one in found) else 0)


def _here() -> list[str]:
    """Return the platforms that promise a durability and are installed."""
    return [name for name in promising() if platform_named(name).missing() is None]


def _shown(
    series: Callable[[Path, Callable[[int, int, str], None]], list[Any]],
    output: Path,
    what: str,
    file: str,
    *,
    quiet: bool,
) -> tuple[list[Any], Path]:
    """Run a series with its progress; return what it found, and where it lies. A signal leaves what is over in `file`."""
    from ivsim.runs.display import Display  # noqa: PLC0415 - a second that --help need not wait
    from ivsim.runs.interrupt import Interrupted, interruptible  # noqa: PLC0415
    from ivsim.study.engines.pipe.run import new_directory  # noqa: PLC0415

    path = new_directory(output)
    began_s = time.monotonic()
    # When each began.
    starts_s: list[float] = []

    def tell(over: int, of: int, now: str) -> None:
        now_s = time.monotonic()
        if over == len(starts_s):
            starts_s.append(now_s)
        left = ""
        if over:
            left_s = (starts_s[-1] - began_s) / over * (of - over) - (now_s - starts_s[-1])
            left = f"; about {max(1.0, left_s / 60):.0f} min left"
        display.phase(f"{what} {over + 1} of {of}: {now}{left}")

    try:
        with interruptible(), Display(quiet=quiet) as display:
            return series(path, tell), path
    except Interrupted as interrupted:
        print(f"ivsim: stopped by {interrupted}; what was over is in {path / file}", file=sys.stderr)
        raise typer.Exit(128 + interrupted.number) from None


def _tell(rows: list[tuple[str, ...]], report: Path) -> None:
    for row in listing(rows, width_of()):
        print(row)
    print(f"report: {report}")
