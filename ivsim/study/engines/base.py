"""What a measuring engine is: its axes and metrics, how it checks, plans and measures cells, and shows them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from ivsim.report.drawing import Charts
from ivsim.report.style import mode_style
from ivsim.study.cells import Cell, Kept, Session, Task
from ivsim.study.engines import ENGINES
from ivsim.study.results import CellObservations, CellResult
from ledger.metrics import Metric
from schemas.errors import Refusal

# Called now and then while a session runs, with the seconds that it still takes.
Tick = Callable[[float], None]


class Axis(NamedTuple):
    """One thing that a study may vary, or fix for all cells: its type and what is allowed, in words."""

    name: str
    type: str
    allowed: str


class Checked(NamedTuple):
    """A cell that can be measured.

    Attributes:
        options: of the engine's own model.
        idle: fields of the scenario that do nothing in this cell, with the refusal that says why. A scenario is
            shared by all cells: what does nothing in one may be meant for another, but not for none.
    """

    options: Any
    idle: Mapping[str, str] = {}


class Outcome(NamedTuple):
    """What a task came to: its figures, or why it failed.

    Attributes:
        invalid: it was measured, and its figures are invalid: that is why it failed.
    """

    task: Task
    figures: dict[str, Any]
    failure: str | None = None
    invalid: bool = False


class Results(Protocol):
    """Where an engine puts its files."""

    @property
    def path(self) -> Path:
        """The directory of the whole study."""

    def begin(self, task: Task) -> Path:
        """Return the task's directory, empty."""

    def begin_session(self) -> tuple[int, Path]:
        """Return the number and the new directory of a session, for what is of no cell alone."""


class OpenEngine(Protocol):
    """An engine with everything open that its cells need."""

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Measure the tasks of a session; each comes out once, in any order."""


class Engine(ABC):
    """One way to measure the cells of a study.

    Attributes:
        name: what `engine` is in study.toml.
        summary: one line of what it measures.
        series_axis: the axis whose values charts show as series.
        metrics: what it measures, by name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    series_axis: ClassVar[str]
    metrics: Mapping[str, Metric]

    def missing(self) -> str | None:
        """Return what this machine lacks to measure any cell, and how to get it; None where nothing is known to."""
        return None

    def missing_for(self, cells: Sequence[Cell]) -> str | None:
        """Return what this machine lacks to measure these cells, and how to get it."""
        del cells
        return self.missing()

    @abstractmethod
    def axes(self) -> Mapping[str, Axis]:
        """Return what a study may vary."""

    @abstractmethod
    def fields(self) -> Mapping[str, Axis]:
        """Return what `[scenario]` may hold."""

    @abstractmethod
    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        """Return a cell checked as a whole; Refusal names axis or field and what is allowed.

        Args:
            fixed: fields of the scenario that cells share, and the study's seed.
            values: axis to value, which go before them.
        """

    def sessions(self, cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
        """Return which cells are measured at the same time; here each alone.

        Args:
            cells: all cells of one repetition.
            apart: axes whose values are never measured at the same time.
        """
        del apart
        return [[cell] for cell in cells]

    def stands_on(self, session: Session) -> Hashable:
        """Return what a session needs that takes long to start, so that those with the same one follow one another."""
        del session
        return None

    @abstractmethod
    def seconds(self, session: Session) -> float:
        """Return how long a session should take."""

    @abstractmethod
    def open(
        self, work: Path, results: Results, sessions: Sequence[Session]
    ) -> AbstractContextManager[OpenEngine]:
        """Open what the sessions need, and keep it open over them.

        Args:
            work: a scratch directory, removed by the caller in the end.
            results: where files go.
            sessions: all that are to be measured, in their order.
        """

    def unmeasurable(self, cell: Cell, metric: str) -> str | None:
        """Return what a cell lacks for the metric to have a value in it; None where it can have one."""
        del cell, metric
        return None

    def observations(self, cell: Cell, done: Sequence[Kept]) -> CellObservations:
        """Return what was kept of a cell's finished repetitions."""
        del cell, done
        return CellObservations()

    def series(self, cell: Cell) -> str:
        """Return the series of the charts that a cell belongs to, such as "mqtt qos1"."""
        return str(cell.values[self.series_axis])

    def series_style(self, series: str) -> dict[str, Any]:
        """Return colour, marker, line style and label of a series."""
        return mode_style(series)

    def charts(self, results: Sequence[CellResult]) -> Charts:
        """Return the engine's own charts beside the bars of every metric."""
        del results
        return {}

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        """Return the engine's own sections of the report, as Markdown, each with its heading."""
        del directory, results
        return []

    def caveats(self, results: Sequence[CellResult]) -> list[str]:
        """Return caveats that the results give rise to."""
        del results
        return []


def engine_named(name: str) -> Engine:
    """Return an engine of the table; Refusal lists the names for an unknown one."""
    if name not in ENGINES:
        raise Refusal(f"engine {name!r}: allowed are {', '.join(ENGINES)}")
    return ENGINES[name]
