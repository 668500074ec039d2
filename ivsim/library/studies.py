"""A study and its results from Python: what `ivsim study` calls too; it prints nothing of its own but progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ivsim.papers import paper_of
from ivsim.report.drawing import Charts
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.own_thread import OwnThread
from ivsim.study import twice
from ivsim.study.blocks import check_rule, new_rule
from ivsim.study.catalogue import name_of, study_named
from ivsim.study.execution import Tell, check_there, default_output, to_nobody, to_terminal
from ivsim.study.execution import run_study as run_cells
from ivsim.study.model import Study, cells_of
from ivsim.study.report import results, write_report
from ivsim.study.results import CellResult
from ivsim.study.selected_charts import selected_charts
from ivsim.study.service_levels import NOT_MET, UNDECIDED, Judged, judge
from ivsim.study.store import Store
from schemas.errors import Refusal

REPORT: Final = "report.html"


class StudyStopped(RuntimeError):  # noqa: N818 - what happened, not a kind of error
    """A signal stopped a study; what is finished is kept, and `resume_study` goes on with it.

    Attributes:
        results: what is finished.
        exit_code: of `ivsim study run` in this case: 128 and the number of the signal.
    """

    def __init__(self, results: StudyResults, number: int) -> None:
        super().__init__(f"{results.directory}: stopped; resume_study goes on with it")
        self.results, self.exit_code = results, 128 + number


@dataclass(frozen=True)
class StudyResults:
    """One study's directory of results, read.

    Attributes:
        directory: where it is.
        name: of the study.
        study: what was asked for, as it was when the study began.
        quick: whether it is a quick run, with small samples and one repetition.
        cells: every cell in the study's order: `values` of its axes, the `figures` and `directory` of each repetition
            that is `done`, the `reasons` of those that failed, `interval(metric)`. A cell that was a run of its own
            has the run's directory: `load_results(cell.done[0].directory)`.
    """

    directory: Path
    name: str
    study: Study
    quick: bool
    cells: Sequence[CellResult]

    @property
    def finished(self) -> bool:
        """Whether every repetition of every cell is done, and no further block is to come."""
        until = Store.open(self.directory).until
        return (until is None or until["reached"] is not None) and all(
            len(cell.done) == self.study.repetitions_of(cell.cell, quick=self.quick) for cell in self.cells
        )

    @property
    def missed(self) -> list[Judged]:
        """The service levels that a cell does not meet, each with the `problem`."""
        return [one for one in judge(self.study, self.cells) if one.verdict == NOT_MET]

    @property
    def undecided(self) -> list[Judged]:
        """The service levels that the intervals leave open, or that too few repetitions do, each with the `problem`."""
        return [one for one in judge(self.study, self.cells) if one.verdict == UNDECIDED]

    @property
    def report(self) -> Path:
        """The report, one HTML file that opens offline; report.md beside it."""
        return self.directory / REPORT

    def figures(self, *metrics: str) -> pa.Table:
        """Return one row per cell and metric, the study's metrics where none is named; Refusal for an unknown one.

        Columns: cell, sweep, one per axis (its value as text, null where the cell's sweep has no such axis), metric,
        unit, and estimate, low, high (the two-sided 95 % interval; null where it is undefined) over n values; what
        the interval took for independent (interval_unit), over how many repetitions, and how many independent
        values would be as certain (effective).
        """
        known = self.study.measured_by.metrics
        for name in metrics:
            if name not in known:
                raise Refusal(
                    f"metric {name!r}: metrics of the engine {self.study.engine} are {', '.join(known)}"
                )
        axes = dict.fromkeys(axis for cell in self.cells for axis in cell.cell.values)
        texts = ("cell", "sweep", *axes, "metric", "unit")
        schema = pa.schema(
            [(name, pa.string()) for name in texts]
            + [(name, pa.float64()) for name in ("estimate", "low", "high")]
            + [("n", pa.int64()), ("interval_unit", pa.string()), ("repetitions", pa.int64())]
            + [("effective", pa.float64())]
        )
        rows = [
            self._row(result, metric, axes)
            for result in self.cells
            for metric in metrics or self.metrics_of(result)
        ]
        return pa.Table.from_pylist(rows, schema)

    def charts(self) -> Charts:
        """Return the charts of the report, drawn anew: by the name of the file, the chart and its caption."""
        store, paper = Store.open(self.directory), paper_of(self.name)
        return selected_charts(self.study, self.cells) if paper is None else paper.report_charts(store)

    def write_report(self, directory: str | Path | None = None) -> Path:
        """Write report.md, its charts and report.html, here or elsewhere; return the path of report.md."""
        store, where = Store.open(self.directory), self.directory if directory is None else Path(directory)
        paper = paper_of(self.name)
        return write_report(store, where) if paper is None else paper.write_report(store, where)

    def metrics_of(self, result: CellResult) -> list[str]:
        """Return the names of the metrics that a cell's table shows."""
        return self.study.all_sweeps()[result.cell.sweep].metrics or self.study.metrics

    def _row(self, result: CellResult, metric: str, axes: dict[str, None]) -> dict[str, Any]:
        cell, values, interval = result.cell, result.cell.values, result.interval(metric)
        return {
            "cell": cell.name,
            "sweep": cell.sweep,
            **{axis: str(values[axis]) if axis in values else None for axis in axes},
            "metric": metric,
            "unit": self.study.metric(metric).unit,
            **{
                name: getattr(interval, name)
                for name in ("estimate", "low", "high", "n", "repetitions", "effective")
            },
            "interval_unit": interval.unit or None,
        }


def load_study(directory: str | Path) -> StudyResults:
    """Return what is known of a study, finished or not; Refusal when the directory holds none that can be read."""
    return _read(Store.open(Path(directory)))


def run_study(
    study: str | Path,
    output: str | Path | None = None,
    *,
    quick: bool = False,
    until_width: str | None = None,
    quiet: bool = True,
) -> StudyResults:
    """Run a study, write its report and return its results; a cell that fails is in them, with its reason.

    Args:
        study: the name of one that comes with the project (`ivsim study list`), or the path of a study.toml.
        output: directory of the results, new or empty; the default is `results/studies/STUDY` below the current one.
        quick: small samples and one repetition: to see that it works.
        until_width: run blocks, 4 to 12, until the interval of each difference that the headline compares is that wide at
            most: in the metric's unit, or of the first figure ("10%").
        quiet: no progress on standard error.

    Raises:
        Refusal: the study cannot be run, here or anywhere; nothing was started.
        StudyStopped: a signal stopped it; what is finished is kept.
    """
    where = None if output is None else Path(output)
    store = begun(str(study), where, quick=quick, until_width=until_width)
    return _in_a_thread_without_loop(store, to_nobody if quiet else to_terminal, again=False)


def resume_study(directory: str | Path, *, failed: bool = False, quiet: bool = True) -> StudyResults:
    """Go on with a study that was stopped, and as `run_study` then; nothing that is finished runs again.

    Args:
        directory: of its results.
        failed: run the cells that failed once more, too.
        quiet: no progress on standard error.
    """
    store = Store.open(Path(directory))
    store.check_versions()
    return _in_a_thread_without_loop(store, to_nobody if quiet else to_terminal, again=failed)


def begun(study: str, output: Path | None, *, quick: bool, until_width: str | None = None) -> Store:
    """Return the new directory of a study's results, nothing in it measured yet; Refusal for an impossible study."""
    asked, path = study_named(study)
    name = name_of(path)
    cells = cells_of(asked, str(path), quick=quick)
    if until_width is not None:
        check_rule(asked, cells, str(path), width=until_width, quick=quick)
    check_there(asked.measured_by, cells)
    where = output or default_output(name, quick=quick)
    until = None if until_width is None else new_rule(until_width)
    return Store.create(where, name, asked, quick=quick, until=until)


def begun_twice(
    study: str, output: Path | None, *, cell: str | None, repetitions: int | None, quick: bool
) -> Store:
    """Return the new directory of one cell of a study that is to be measured twice; Refusal for an impossible one."""
    if quick and repetitions is not None:
        raise Refusal(f"--repetitions {repetitions}: has no effect with --quick, which runs one block")
    whole, path = study_named(study)
    name = name_of(path)
    cells = cells_of(whole, str(path), quick=quick)
    asked, chosen = twice.asked(whole, cells, cell, repetitions)
    check_there(asked.measured_by, [one for one in cells if one.name == chosen])
    beside = default_output(name, quick=quick)
    there = (beside / "study.json").is_file()
    where = output or (beside / twice.FOLDER if there else default_output(f"{name}-aa", quick=quick))
    return Store.create(where, f"{name}-aa", asked, quick=quick, twice=chosen)


def measured(
    store: Store, tell: Tell, *, again: bool, stopped: Callable[[], None] = lambda: None
) -> StudyResults:
    """Run what is open and write the report; Interrupted when a signal, or `stopped`, ends it before.

    Args:
        store: the results.
        tell: says how far it is.
        again: run what failed once more, too.
        stopped: is called between two measurements.
    """
    run_cells(store, store.cells(), tell=tell, again=again, stopped=stopped)
    found = _read(store)
    found.write_report()
    return found


def _in_a_thread_without_loop(store: Store, tell: Tell, *, again: bool) -> StudyResults:
    thread = OwnThread()
    try:
        return thread.call(lambda: measured(store, tell, again=again, stopped=thread.check))
    except Interrupted as interrupted:
        raise StudyStopped(_read(store), interrupted.number) from None
    finally:
        thread.close()


def _read(store: Store) -> StudyResults:
    return StudyResults(store.path, store.name, store.study, store.quick, results(store))
