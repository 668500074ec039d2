"""`ivsim study`: list, check, run, resume, report and compare studies; ivsim.study does the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ivsim.study.catalogue import run_entry, studies, study_named
from ivsim.study.figures_of_cells import STUDY_METRICS
from ivsim.study.model import Study, cells_of
from ivsim.study.plan import sessions
from ivsim.study.store import Store
from schemas.errors import Refusal

EXIT_FAILED = 1
EXIT_MISSED = 3

app = typer.Typer(
    no_args_is_help=True, help="Studies: trade-offs as data, run in a fair order, reported, compared."
)

_Name = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study's name (ivsim study list) or a study.toml.")
]
_Results = Annotated[Path, typer.Argument(metavar="RESULTS", help="A directory of study results.")]
_Quick = Annotated[bool, typer.Option("--quick", help="Small samples, one repetition: to see that it works.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
_Junit = Annotated[Path | None, typer.Option("--junit", help="Also write the verdicts as JUnit XML.")]


@app.command("list")
def list_() -> None:
    """List the studies that come with the project."""
    for name, path in studies().items():
        study, _ = study_named(str(path))
        print(f"{name:18} {study.title}")


@app.command()
def check(name: _Name) -> None:
    """Check a study without running it, and say what it would run."""
    study, path = study_named(name)
    if study.entry is not None:
        print(f"{path}: fine; measures by itself ({study.entry})")
        return
    for quick in (False, True):
        cells = cells_of(study, str(path), quick=quick)
        planned = sessions(study, cells, 1 if quick else study.repetitions)
        total = sum(session.seconds for session in planned) / 60
        what = "quick: " if quick else "fine; "
        print(f"{path}: {what}{len(cells)} cells in {len(planned)} sessions, about {total:.0f} min")


@app.command()
def run(
    name: _Name,
    output: Annotated[
        Path | None, typer.Option(help="Directory of results; default results/studies/STUDY.")
    ] = None,
    quick: _Quick = False,
    quiet: _Quiet = False,
    junit: _Junit = None,
) -> None:
    """Run a study and report it; exit code 3 when a service level is missed, 1 when a cell failed."""
    from ivsim.study.execution import default_output  # noqa: PLC0415 - not before it is needed

    study, path = study_named(name)
    title = path.parent.name if path.name == "study.toml" else path.stem
    where = output or default_output(title, quick=quick)
    if study.entry is not None:
        print(run_entry(study, where, quick=quick))
        return
    cells_of(study, str(path), quick=quick)
    store = Store.create(where, title, study, quick=quick)
    raise typer.Exit(_go_on(store, quiet=quiet, again=False, junit=junit))


@app.command()
def resume(
    results: _Results,
    failed: Annotated[
        bool, typer.Option("--failed", help="Run the cells that failed once more, too.")
    ] = False,
    quiet: _Quiet = False,
    junit: _Junit = None,
) -> None:
    """Go on with a study that was interrupted; nothing that is finished runs again."""
    store = Store.open(results)
    store.check_versions()
    raise typer.Exit(_go_on(store, quiet=quiet, again=failed, junit=junit))


@app.command()
def report(
    results: _Results,
    output: Annotated[
        Path | None, typer.Option(help="Where to write it; default the results themselves.")
    ] = None,
    junit: _Junit = None,
) -> None:
    """Write report.md, its figures and report.html from results that are there."""
    raise typer.Exit(_report(Store.open(results), output or results, junit))


@app.command()
def compare(first: _Results, second: _Results) -> None:
    """Show two results side by side, with the difference and whether it is more than noise."""
    from ivsim.study import compare as comparing  # noqa: PLC0415 - scipy takes a second to load
    from ivsim.study.report import results as results_in  # noqa: PLC0415

    stores = [Store.open(path) for path in (first, second)]
    rows = comparing.compare(*((store, results_in(store)) for store in stores))
    table = Table("cell", "metric", str(first), str(second), "difference", "more than noise")
    for row in rows:
        table.add_row(*comparing.words(row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


@app.command()
def metrics() -> None:
    """List what a study can measure."""
    for metric in STUDY_METRICS.values():
        print(f"{metric.name:34} {metric.unit:6} {metric.meaning} ({metric.population})")


def _go_on(store: Store, *, quiet: bool, again: bool, junit: Path | None) -> int:
    from ivsim.study.execution import run_study  # noqa: PLC0415 - the testbed: not before it is needed

    study: Study = store.study
    cells = cells_of(study, str(store.path / "study.json"), quick=store.quick)
    run_study(store, cells, quiet=quiet, again=again)
    return _report(store, store.path, junit)


def _report(store: Store, directory: Path, junit: Path | None) -> int:
    """Write the report, print where it is, and return the exit code that the results deserve."""
    from ivsim.study import levels  # noqa: PLC0415 - charts and scipy take a second to load
    from ivsim.study.catalogue import writer_of  # noqa: PLC0415
    from ivsim.study.report import results as results_in  # noqa: PLC0415

    print(writer_of(store.name)(store, directory))
    found = results_in(store)
    judged = levels.judge(store.study, found)
    if junit is not None:
        try:
            junit.write_text(levels.junit(store.name, found, judged))
        except OSError as error:
            raise Refusal(f"--junit {junit}: {error.strerror}") from None
    failed = [result for result in found if result.reasons]
    for result in failed:
        print(f"ivsim: cell {result.cell.name} failed: {result.reasons[0]}", file=sys.stderr)
    missed = [one for one in judged if one.problem is not None]
    for one in missed:
        print(f"ivsim: {one.cell}: {one.problem}", file=sys.stderr)
    return EXIT_FAILED if failed else EXIT_MISSED if missed else 0
