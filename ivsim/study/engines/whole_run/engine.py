"""The whole-run engine: each cell is a run with gateways, ledger and page of its own, one after another on one testbed.

The testbed (`ivsim.runs.testbed.Testbed`) is opened with the first cell and closed when the study's execution ends,
however it does. There is no cell that it could not serve: where a cell asks for another Spark master or the other kind of
compilation (`jit`, by its load), it starts a new session; for another TCP or more vehicles, a new link; with TLS, a broker
with the cell's own keys; and a Kafka that the cell names gets topics of the cell alone.

A testbed in which a run has failed, or has left a part of its ledger out, is not used again: which of its parts is to blame is
not always known. The next cell opens a new one. A cell that a signal ends stays open in the store.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from gateways.protocols import PROTOCOLS
from ivsim.options import OPTIONS, RunOptions
from ivsim.report.drawing import Charts
from ivsim.report.style import mode_style
from ivsim.runs.directory import RunDirectory
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import Outcome as RunOutcome
from ivsim.runs.testbed import Testbed
from ivsim.runs.validity import EXIT_INVALID
from ivsim.study import charts
from ivsim.study.cells import Cell, Kept, Session
from ivsim.study.engines import run_axes
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.whole_run import link_checks
from ivsim.study.engines.whole_run.age_of_information import AGE_METRICS, OF_OUTAGES, age_figures, mean_age
from ivsim.study.engines.whole_run.observations import LedgerObservations
from ivsim.study.engines.whole_run.platform_metrics import PLATFORM_METRICS, platform_metrics
from ivsim.study.engines.whole_run.security_metrics import (
    HANDSHAKING,
    OF_HANDSHAKES,
    SECURITY_METRICS,
    security_metrics,
)
from ivsim.study.engines.whole_run.timely import TIMELY_METRICS, timely_figures
from ivsim.study.results import CellResult, done_of
from ivsim.topologies import TOPOLOGIES
from ledger.metrics import METRICS, Metric
from schemas.errors import Refusal
from twin.queries.answers import QUERY_METRICS

# Beyond its duration a run on a kept testbed took 6.5 s, the one that begins it 25 s (30 vehicles for 8 s, two cores); TLS, drains
# and slower machines take more. What a study needs is corrected by how long its cells take.
OVERHEAD_S: Final = 8.0
# The echo topology has an engine of its own, and `message_bytes` is of it alone; cells are named by the study, and follow each
# other on a testbed, where no run has a probe.
_FIELDS: Final = tuple(field for field in OPTIONS if field not in {"message_bytes", "name", "probe", "tags"})
# What gateways take in.
_TOPOLOGIES: Final = tuple(topology.name for topology in TOPOLOGIES.values() if topology.bridged)
OF_TWINS: Final = ("processing_delay_", "twin_updates", "rejected_records")
_TOPOLOGY: Final = {"topology": Axis("topology", "text", ", ".join(_TOPOLOGIES))}


class WholeRun(Engine):
    """Cells that `ivsim run` would run; see the module."""

    name: ClassVar[str] = "whole_run"
    summary: ClassVar[str] = "whole runs from vehicle to twin, one after another, on one Kafka and Spark"
    series_axis: ClassVar[str] = run_axes.MODE
    metrics: Mapping[str, Metric] = {
        **METRICS,
        **AGE_METRICS,
        **SECURITY_METRICS,
        **PLATFORM_METRICS,
        **QUERY_METRICS,
        **TIMELY_METRICS,
    }

    def axes(self) -> Mapping[str, Axis]:
        return {**run_axes.axes_of(_FIELDS), **_TOPOLOGY}

    def fields(self) -> Mapping[str, Axis]:
        return {**run_axes.fields_of(_FIELDS), **_TOPOLOGY}

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        topology = {**fixed, **values}.get("topology", _TOPOLOGIES[0])
        if topology not in _TOPOLOGIES:
            raise Refusal(f"topology {topology!r}: the engine {self.name} has {', '.join(_TOPOLOGIES)}")
        return run_axes.checked(fixed, values)

    def unmeasurable(self, cell: Cell, metric: str) -> str | None:
        options = run_axes.options_of(cell)
        twins = TOPOLOGIES[options.topology].twins
        mode = PROTOCOLS[options.protocol].modes[options.mode]
        lacking = (
            (metric in OF_OUTAGES and not options.outage, "needs an outage"),
            (
                metric in OF_HANDSHAKES and options.security not in HANDSHAKING,
                f"needs security {' or '.join(HANDSHAKING)}",
            ),
            (metric in PLATFORM_METRICS and twins, "needs topology ingest"),
            (metric.startswith(OF_TWINS) and not twins, "needs twins, which topology ingest has not"),
            (metric in QUERY_METRICS and options.query == "none", "needs a query"),
            (
                metric in TIMELY_METRICS and options.batching == "none",
                "needs batching, whose limit it is about",
            ),
            (
                metric.startswith("acknowledgement_time_") and not mode.acknowledged,
                "needs a mode that is acknowledged",
            ),
        )
        return next((words for lacks, words in lacking if lacks), None)

    def seconds(self, session: Session) -> float:
        return _seconds(run_axes.options_of(session.cells[0]))

    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> OpenWholeRun:
        del results, sessions
        return OpenWholeRun(work)

    def observations(self, cell: Cell, done: Sequence[Kept]) -> LedgerObservations:
        del cell
        return LedgerObservations([one.directory for one in done])

    def series(self, cell: Cell) -> str:
        return run_axes.mode_of(cell)

    def charts(self, results: Sequence[CellResult]) -> Charts:
        return _age_chart(done_of(results)) | run_axes.trace_chart(results)

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        del directory
        return link_checks.sections(results)

    def caveats(self, results: Sequence[CellResult]) -> list[str]:
        return run_axes.caveats(results)


class OpenWholeRun:
    """The runs of all sessions on one testbed; a context manager that closes it.

    Args:
        work: where the testbed keeps its files; made when it is opened.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._testbed: Testbed | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Run the one task of a session; its run keeps its directory, report and all.

        Interrupted when a signal has ended the run: how far it came is no result of the cell.
        """
        (task,) = session.tasks
        options = run_axes.options_of(task.cell)
        directory = results.begin(task)
        end_s = time.monotonic() + _seconds(options)
        testbed = self._open()
        try:
            outcome = testbed.run(
                options, directory, disturb=lambda _run: tick(max(0.0, end_s - time.monotonic()))
            )
        except Refusal as refusal:
            self._give_up(testbed, directory)
            yield Outcome(task, {}, str(refusal))
            return
        if outcome.signal is not None:
            raise Interrupted(outcome.signal)
        if outcome.error is not None or outcome.metrics.get("partial"):
            self._give_up(testbed, directory)
        if outcome.exit_code:
            yield Outcome(task, {}, _why(outcome), invalid=outcome.exit_code == EXIT_INVALID)
        else:
            yield Outcome(task, outcome.metrics | _figures(directory, options, outcome.metrics))

    def _open(self) -> Testbed:
        if self._testbed is None:
            self._work.mkdir(parents=True, exist_ok=True)
            self._testbed = Testbed(self._work.absolute()).open()
        return self._testbed

    def _give_up(self, testbed: Testbed, directory: Path) -> None:
        """Close the testbed; what its parts have said stays with the cell that they failed."""
        testbed.copy_logs(RunDirectory(directory).logs)
        self._close()

    def _close(self) -> None:
        testbed, self._testbed = self._testbed, None
        if testbed is not None:
            testbed.close()


def _seconds(options: RunOptions) -> float:
    return OVERHEAD_S + options.duration_s


def _figures(directory: Path, options: RunOptions, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a study says of a run beside the run's own figures."""
    found = age_figures(directory, options.outage) | security_metrics(metrics) | platform_metrics(metrics)
    query = metrics.get("query") or {}
    found |= {name: query[name] for name in QUERY_METRICS if name in query}
    if options.batching != "none":
        found |= timely_figures(directory, metrics, options.batch_limit_ms)
    return found


def _why(outcome: RunOutcome) -> str:
    """Return in one line why a run came to nothing."""
    causes = (outcome.metrics.get("validity") or {}).get("causes", [])
    words = "; ".join(cause["words"] for cause in causes)
    return (outcome.error or words or f"exit code {outcome.exit_code}").partition("\n")[0]


def _age_chart(done: Sequence[CellResult]) -> Charts:
    """Return the age of information over time where runs had an outage."""
    out = [result for result in done if run_axes.options_of(result.cell).outage]
    if not out:
        return {}

    cells = Counter(run_axes.mode_of(result.cell) for result in out)

    def draw(axes: Any) -> None:
        named: set[str] = set()
        for result in out:
            seconds, ages = mean_age(result.done[0].directory)
            mode = run_axes.mode_of(result.cell)
            style = mode_style(mode)
            # A name once: the cells of a mode look alike.
            label = style["label"] + (f" ({cells[mode]} cells)" if cells[mode] > 1 else "")
            axes.plot(
                seconds,
                ages,
                color=style["color"],
                linestyle=style["linestyle"],
                linewidth=1.1,
                label="_" if mode in named else label,
            )
            named.add(mode)
        for start, length in run_axes.options_of(out[0].cell).outage:
            axes.axvspan(start, start + length, color="#999999", alpha=0.2, label="no link")
        axes.set(xlabel="time since the start, s", ylabel="age of information, s", ylim=(0, None))
        charts.legend(axes)

    return {"age.svg": (charts.drawn(draw), "Age of information, mean over the vehicles")}
