"""`ivsim results`: what is in a folder of results; ivsim.library.folder does the work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ivsim.commands.result_path import result_path
from ivsim.labels import checked_tags
from ivsim.listing import listing, width_of
from ivsim.report.style import spoken_in
from ivsim.report.terminal import print_summary
from ivsim.topologies import USUAL_TOPOLOGY
from schemas.errors import Refusal

if TYPE_CHECKING:
    from ivsim.library.folder import Found

app = typer.Typer(no_args_is_help=True, help="Results of runs and studies: list, show, remove.")

FOLDER = Path("results")


@app.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where they are.")] = FOLDER,
    *,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only runs with this tag, KEY=VALUE; more than one: with all of them."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")] = False,
) -> None:
    """List the runs and studies in a folder by name: what was run, its tags, and whether its figures are valid."""
    from ivsim.library.folder import results_in  # noqa: PLC0415 - --help need not wait

    wanted = _tags(tag or ())
    found = [one for one in results_in(folder) if wanted <= set(one.tags)]
    if as_json:
        print(json.dumps([{**one._asdict(), "path": str(one.path)} for one in found], indent=2))
        return
    if not found:
        print(f"{folder}: no results{' with ' + ' '.join(sorted(wanted)) if wanted else ''}")
        return
    rows = [(str(one.path), one.state or one.kind, _what(one)) for one in found]
    print("\n".join(listing(rows, width_of())))


def _tags(given: Iterable[str]) -> set[str]:
    try:
        return set(checked_tags(given))
    except ValueError as error:
        raise Refusal(f"--tag {error}") from None


def _what(one: Found) -> str:
    unfinished = f"`ivsim report {one.path}` finishes it" if one.state == "unfinished" else ""
    return "; ".join(filter(None, (unfinished, one.what, " ".join(one.tags), f"{one.bytes / 1e6:,.1f} MB")))


@app.command()
def show(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A run's or a study's.", parser=result_path)
    ],
) -> None:
    """Print the figures of a finished run again, or the answer of a study's report."""
    from rich.console import Console  # noqa: PLC0415 - as above

    from ivsim.library.folder import is_study  # noqa: PLC0415

    if is_study(results):
        report = results / "report.md"
        if not report.is_file():
            raise Refusal(f"{results}: no report yet: `ivsim study report {results}`")
        print(report.read_text(encoding="utf-8"), end="")
        return
    from ivsim.library.results import load_results  # noqa: PLC0415

    found = load_results(results)
    options = found.manifest["options"]
    title = f"{spoken_in(options)}, {options['vehicles']} vehicles"
    print_summary(Console(), found.metrics, title, found.report, options.get("topology", USUAL_TOPOLOGY))


@app.command()
def rm(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Directories of results.", parser=result_path)
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove results, whole directories; nothing is removed when one of them is none."""
    from ivsim.library.folder import found_in, remove  # noqa: PLC0415 - as above

    found = [found_in(path) for path in results]
    for one in found:
        print(f"{one.path}: {one.what}, {one.bytes / 1e6:,.1f} MB")
    try:
        sure = yes or typer.confirm(f"remove {len(found)}?")
    except typer.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise KeyboardInterrupt from None
        raise Refusal("nothing is removed without an answer; --yes does not ask") from None
    if not sure:
        raise typer.Exit(1)
    for one in found:
        remove(one.path)
