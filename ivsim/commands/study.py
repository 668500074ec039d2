"""`ivsim study`: list, check, plan, run, resume, report and compare studies; ivsim.study does the work.

What a command needs is imported when it is called: scipy, matplotlib and the engines take seconds to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ivsim.commands.files import check_page, check_writable, writing
from ivsim.commands.progress import progress_option, wants_json
from ivsim.listing import listing, paragraph, table, width_of
from ivsim.runs.outcome import EXIT_FAILED
from ivsim.study.catalogue import studies, study_named, title_of
from ivsim.study.engines import ENGINES
from ivsim.told import TERMINAL, say, say_error

if TYPE_CHECKING:
    from ivsim.library.studies import StudyResults
    from ivsim.study.engines.base import Engine
    from ivsim.study.execution import Tell

EXIT_MISSED = 3
EXIT_INVALID = 4  # as of a run
EXIT_UNDECIDED = 5

app = typer.Typer(
    no_args_is_help=True, help="Studies: trade-offs as data, run in a fair order, reported, compared."
)

_Name = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study's name (ivsim study list) or a study.toml.")
]
_Results = Annotated[Path, typer.Argument(metavar="RESULTS", help="A directory of study results.")]
_Quick = Annotated[bool, typer.Option("--quick", help="Small samples, one repetition: to see that it works.")]
_Progress = Annotated[str, progress_option()]
_Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
_Junit = Annotated[Path | None, typer.Option("--junit", help="Also write the verdicts as JUnit XML.")]


@app.command("list")
def list_() -> None:
    """List the studies that come with the project."""
    _print([(name, title_of(path)) for name, path in studies().items()])


@app.command()
def check(name: _Name) -> None:
    """Check a study without running it, and say what it would run."""
    from ivsim.study.model import cells_of  # noqa: PLC0415 - see the module
    from ivsim.study.plan import sessions  # noqa: PLC0415

    study, path = study_named(name)
    for quick in (False, True):
        cells = cells_of(study, str(path), quick=quick)
        planned = sessions(study, cells, 1 if quick else study.repetitions)
        total = sum(study.measured_by.seconds(session) for session in planned) / 60
        what = "quick: " if quick else "fine; "
        said = f"{path}: {what}{len(cells)} cells in {len(planned)} sessions, about {total:.0f} min"
        print("\n".join(paragraph(said, width_of())))


@app.command()
def run(
    name: _Name,
    output: Annotated[
        Path | None, typer.Option(help="Directory of results; default results/studies/STUDY.")
    ] = None,
    quick: _Quick = False,
    until_width: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTH",
            help="Run blocks, 4 to 12, until the 95 % interval of each difference that the headline compares is that"
            " wide at most: in the metric's unit, or of the first figure (10%).",
        ),
    ] = None,
    quiet: _Quiet = False,
    progress: _Progress = TERMINAL,
    junit: _Junit = None,
) -> None:
    """Run a study and report it.

    Exit code 3 when a service level is missed, 5 undecided, 1 when a cell failed, 4 when its figures are invalid.
    """
    from ivsim.library.studies import begun, measured  # noqa: PLC0415 - the testbed: not before it is needed

    _check_junit(junit)
    tell = tell_of(progress, quiet=quiet)
    store = begun(name, output, quick=quick, until_width=until_width)
    raise typer.Exit(outcome_of(measured(store, tell, again=False), junit))


@app.command()
def resume(
    results: _Results,
    failed: Annotated[
        bool, typer.Option("--failed", help="Run the cells that failed once more, too.")
    ] = False,
    quiet: _Quiet = False,
    progress: _Progress = TERMINAL,
    junit: _Junit = None,
) -> None:
    """Go on with a study that was interrupted; nothing that is finished runs again."""
    from ivsim.library.studies import measured  # noqa: PLC0415 - see the module
    from ivsim.study.store import Store  # noqa: PLC0415

    _check_junit(junit)
    tell = tell_of(progress, quiet=quiet)
    store = Store.open(results)
    store.check_versions()
    raise typer.Exit(outcome_of(measured(store, tell, again=failed), junit))


def tell_of(progress: str, *, quiet: bool) -> Tell:
    """Return what says how far a study is."""
    from ivsim.study.execution import to_nobody, to_terminal  # noqa: PLC0415 - see the module

    if wants_json(progress, quiet=quiet):
        return partial(say, "session")
    return to_nobody if quiet else to_terminal


@app.command()
def report(
    results: _Results,
    output: Annotated[
        Path | None, typer.Option(help="Where to write it; default the results themselves.")
    ] = None,
    junit: _Junit = None,
) -> None:
    """Write report.md, its figures and report.html from results that are there."""
    from ivsim.library.studies import load_study  # noqa: PLC0415 - charts and scipy take a second to load

    _check_junit(junit)
    found = load_study(results)
    found.write_report(output)
    raise typer.Exit(outcome_of(found, junit, output))


@app.command()
def compare(
    first: _Results,
    second: _Results,
    relevant: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Smallest difference of interest, as a share of the first figure: what is less is not more than noise."
            " Ratios (shares of messages) are judged without it.",
        ),
    ] = 0.05,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write it as one page, with distributions over each other."),
    ] = None,
) -> None:
    """Show two results side by side, with the difference and whether it is more than noise.

    Needs 3 repetitions on either side for a verdict; all tests of the table together keep 5 % (Holm).
    """
    from ivsim.study import compare as comparing  # noqa: PLC0415 - scipy takes a second to load
    from ivsim.study.report import results as results_in  # noqa: PLC0415
    from ivsim.study.store import Store  # noqa: PLC0415

    if html is not None:
        check_page(html, first, second)
    stores = [Store.open(path) for path in (first, second)]
    one, two = ((store, results_in(store)) for store in stores)
    found = comparing.compare(one, two, relevant)
    if html is not None:
        from ivsim.study.compare_page import comparison_page  # noqa: PLC0415 - charts take a second to load

        page = comparison_page(one, two, found)
        with writing("--html", html):
            html.write_text(page, encoding="utf-8")
    width = width_of()
    for note in (*found.notes, f"first: {first}", f"second: {second}"):
        print("\n".join(paragraph(note, width)))
    head = ("metric", "first", "second", "difference", "more than noise")
    for cell in dict.fromkeys(row.cell for row in found.rows):
        print("\n".join(["", *paragraph(cell, width)]))
        rows = [comparing.as_table_row(row)[1:] for row in found.rows if row.cell == cell]
        print("\n".join(f"  {line}" for line in table(head, rows, width - 2)))
    if html is not None:
        print(f"\npage: {html}")


@app.command()
def plan(
    name: Annotated[
        str, typer.Argument(metavar="STUDY|RESULTS", help="A study, or the results of its pilot.")
    ],
    width: Annotated[
        str,
        typer.Option(
            help="Wanted width of the 95 % interval: in the metric's unit, or of the estimate (10%)."
        ),
    ],
    metric: Annotated[str | None, typer.Option(help="A metric of the study; its first without it.")] = None,
    pilot: Annotated[Path | None, typer.Option(help="Results of a pilot, where STUDY is a name.")] = None,
) -> None:
    """Say how many repetitions of each cell reach an interval of a wanted width, and what differences are found.

    From a pilot's results. A difference is found when it is significant by itself, at 5 %; with a probability of 80 %.
    """
    from ivsim.study import pilot as planning  # noqa: PLC0415 - scipy takes a second to load
    from ivsim.study import power  # noqa: PLC0415
    from ivsim.study.compare import RELEVANT  # noqa: PLC0415
    from ivsim.study.report import results as results_in  # noqa: PLC0415
    from ivsim.study.store import Store  # noqa: PLC0415

    wanted = planning.width_of(width)
    store = Store.open(planning.where(name, pilot))
    measured = results_in(store)
    found = planning.plan(store, measured, wanted, metric)
    columns = width_of()
    for note in found.notes:
        print("\n".join(paragraph(note, columns)))
    head = ("cell", f"{found.metric} now", "width now", "repetitions for it")
    for row in map(planning.as_table_row, found.rows):
        print("\n".join(["", *paragraph(row[0], columns)]))
        print("\n".join(listing(list(zip(head[1:], row[1:], strict=True)), columns, indent=2)))
    print("\n".join(["", *paragraph(found.answer, columns)]))
    blocks = power.planned_blocks(store.study)
    margin = f"blocks for {RELEVANT * 100:g} % of the first"
    for one in power.findable(store.study, measured):
        place, of, smallest, needed = power.as_table_row(store.study, one)
        print("\n".join(["", *paragraph(f"{place}: {of}", columns)]))
        print("\n".join(listing([(f"{blocks} blocks find", smallest), (margin, needed)], columns, indent=2)))


_Engine = Annotated[
    str | None, typer.Argument(metavar="ENGINE", help=f"One of {', '.join(ENGINES)}; all without it.")
]


@app.command()
def engines() -> None:
    """List the engines, the ways in which cells are measured."""
    from ivsim.study.engines.base import engine_named  # noqa: PLC0415 - see the module

    _print([(name, engine_named(name).summary) for name in ENGINES])


@app.command()
def metrics(engine: _Engine = None) -> None:
    """List what a study can measure, by engine."""
    for row in _chosen(engine):
        print(f"{row.name}:")
        rows = [(m.name, m.unit, f"{m.meaning} ({m.population})") for m in row.metrics.values()]
        _print(rows, indent=2)


@app.command()
def axes(engine: _Engine = None) -> None:
    """List what a study can vary, by engine, with what is allowed."""
    for row in _chosen(engine):
        print(f"{row.name}:")
        _print([(axis.name, axis.type, axis.allowed) for axis in row.axes().values()], indent=2)


def _chosen(name: str | None) -> list[Engine]:
    from ivsim.study.engines.base import engine_named  # noqa: PLC0415 - see the module

    return [engine_named(one) for one in (ENGINES if name is None else [name])]


def _print(rows: Sequence[Sequence[str]], indent: int = 0) -> None:
    for line in listing(rows, width_of(), indent):
        print(line)


def _check_junit(junit: Path | None) -> None:
    if junit is not None:
        check_writable("--junit", junit)


def outcome_of(found: StudyResults, junit: Path | None, written: Path | None = None) -> int:
    """Print where the report is and what is amiss, and return the exit code that the results deserve."""
    from ivsim.study import service_levels  # noqa: PLC0415

    print((written or found.directory) / "report.md")
    if junit is not None:
        judged = service_levels.judge(found.study, found.cells)
        with writing("--junit", junit):
            junit.write_text(service_levels.junit(found.name, found.cells, judged))
    failed = [result for result in found.cells if result.reasons]
    for result in failed:
        say_error(f"cell {result.cell.name} failed: {result.reasons[0]}")
    for one in (*found.missed, *found.undecided):
        say_error(f"{one.cell}: {one.verdict}: {one.problem}")
    failures = [one for result in failed for one in result.failures]
    if not all(one.invalid for one in failures):
        return EXIT_FAILED
    if failures or any(result.validity == "invalid" for result in found.cells):
        return EXIT_INVALID
    if found.missed:
        return EXIT_MISSED
    # A quick run is to see that it works, and decides nothing.
    return EXIT_UNDECIDED if found.undecided and not found.quick else 0
