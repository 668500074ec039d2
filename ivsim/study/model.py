"""A study as it stands in `study.toml`, checked as a whole before anything starts."""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ivsim.study.cells import Cell
from ivsim.study.engines.base import Engine, engine_named
from ivsim.study.headline import Headline, headline_of
from ivsim.study.inputs import with_paths
from ledger.metrics import Metric
from schemas.errors import Refusal

# A file system takes 255 bytes; what is made of a name adds to it.
_NAME_CHARACTERS = 180
_LEVEL = re.compile(r"(<|<=|>|>=)\s*(-?[0-9]+(?:\.[0-9]+)?)")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sweep(Strict):
    """One set of axes with what differs from the study's scenario; every combination of values is a cell.

    Attributes:
        quick: replaces some fields of the scenarios and of the study's `quick` for a quick look.
        metrics: what its table shows; the study's where there are none.
        repetitions: of its cells, the study's first ones; all of them where it says none.
    """

    axes: dict[str, list[Any]]
    scenario: dict[str, Any] = {}
    quick: dict[str, Any] = {}
    leave_out: list[dict[str, Any]] = []
    metrics: list[str] = []
    repetitions: int | None = Field(default=None, ge=1)


class Study(Strict):
    """One `study.toml`; unknown keys are refused.

    It has either `axes`, or `sweeps` with axes each.

    Attributes:
        engine: what measures its cells; a row of ENGINES.
        scenario: fields of the engine that all cells share; `quick` replaces some of them for a quick look, and a sweep's
            own.
        apart: axes whose values are never measured at the same time (as each needs the machine's CPU alone).
        adjacent: an axis whose values are compared: within a block, cells that differ in nothing else follow one another, in an
            order of their own, so that a machine that changes its speed changes that of all.
        repetitions: of every cell, each with a seed of its own (`repetition_seed`); `quick` runs one. One repetition of all cells
            is a block.
        headline: how the report's first paragraph is made; see ivsim.study.headline.
    """

    schema_version: Literal[2] = 2
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    engine: str = "whole_run"
    scenario: dict[str, Any] = {}
    quick: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    leave_out: list[dict[str, Any]] = []
    sweeps: dict[str, Sweep] = {}
    apart: list[str] = []
    adjacent: str | None = None
    repetitions: int = Field(default=8, ge=1, le=1_000)
    seed: int = Field(default=1, ge=0)
    metrics: list[str] = Field(min_length=1)
    service_levels: dict[str, str] = {}
    headline: dict[str, Any] = {}
    caveats: list[str] = []

    @field_validator("engine")
    @classmethod
    def _engine(cls, name: str) -> str:
        _asked(lambda: engine_named(name))
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if bool(self.axes) == bool(self.sweeps):
            raise ValueError("one of axes and sweeps must be there, and one alone")
        engine = self.measured_by
        for sweep, found in self.all_sweeps().items():
            where = f"sweeps.{sweep}." if sweep else ""
            _check_axes(engine, found.axes, where)
            _check_fields(engine, found.scenario, f"{where}scenario")
            _check_fields(engine, found.quick, f"{where}quick")
            _check_metrics(engine, found.metrics, f"{where}metrics")
            if found.repetitions is not None and found.repetitions > self.repetitions:
                raise ValueError(
                    f"{where}repetitions {found.repetitions}: at most the study's {self.repetitions}"
                )
        _check_fields(engine, self.scenario, "scenario")
        _check_fields(engine, self.quick, "quick")
        for key, names in (("apart", self.apart), ("adjacent", [self.adjacent] if self.adjacent else [])):
            for name in names:
                if name not in engine.axes():
                    raise ValueError(f"{key}: {_no_axis(engine, name)}")
        _check_metrics(engine, self.metrics, "metrics")
        _check_metrics(engine, self.service_levels, "service_levels")
        for name, level in self.service_levels.items():
            try:
                _parsed(level)
            except ValueError as error:
                raise ValueError(f"service_levels.{name} {error}") from None
        self._check_headline(engine)
        return self

    def _check_headline(self, engine: Engine) -> None:
        _asked(lambda: self.headline_kind.check(engine))
        if (about := self.headline_kind.sweep) is not None and about not in self.sweeps:
            raise ValueError(f"headline.sweep {about!r}: sweeps are {', '.join(self.sweeps)}")
        shown = {
            name for sweep in self.all_sweeps() if about in (None, sweep) for name in self.metrics_of(sweep)
        }
        for name in self.headline_kind.compared if self.headline else []:
            if name not in shown:
                raise ValueError(
                    f"headline: metric {name!r}: the tables that it is about show {', '.join(sorted(shown))}"
                )

    @property
    def measured_by(self) -> Engine:
        return engine_named(self.engine)

    @property
    def headline_kind(self) -> Headline:
        return headline_of(self.headline, self.metrics)

    def metric(self, name: str) -> Metric:
        return self.measured_by.metrics[name]

    def metrics_of(self, sweep: str) -> list[str]:
        """Return the metrics that the table of a sweep shows."""
        return self.all_sweeps()[sweep].metrics or self.metrics

    def repetitions_of(self, cell: Cell, *, quick: bool = False) -> int:
        """Return how often a cell is measured: as often as its sweep says, else as the study; once in a quick look."""
        if quick:
            return 1
        return min(self.all_sweeps()[cell.sweep].repetitions or self.repetitions, self.repetitions)

    def fields(self) -> Iterator[Mapping[str, Any]]:
        """Yield every scenario, quick look and set of axes."""
        yield from (self.scenario, self.quick)
        for sweep in self.all_sweeps().values():
            yield from (sweep.scenario, sweep.quick, sweep.axes)

    def all_sweeps(self) -> dict[str, Sweep]:
        """Return the sweeps by name; a study with axes of its own has one that is called ""."""
        return self.sweeps or {"": Sweep(axes=self.axes, leave_out=self.leave_out)}


def _asked(ask: Callable[[], Any]) -> None:
    """Let a refusal stand among the errors of the file, which is named there."""
    try:
        ask()
    except Refusal as refusal:
        raise ValueError(str(refusal)) from None


def _no_axis(engine: Engine, name: str) -> str:
    return f"{name}: no such axis; axes of the engine {engine.name} are {', '.join(engine.axes())}"


def _check_axes(engine: Engine, axes: dict[str, list[Any]], where: str) -> None:
    for name, values in axes.items():
        if name not in engine.axes():
            raise ValueError(f"{where}axes.{_no_axis(engine, name)}")
        if not values or len({str(v) for v in values}) != len(values):
            raise ValueError(f"{where}axes.{name}: a list of different values, at least one")


def _check_fields(engine: Engine, fields: dict[str, Any], where: str) -> None:
    """Refuse what the engine would not read: a field that does nothing is a mistake."""
    for name in fields:
        if name not in engine.fields():
            allowed = ", ".join(engine.fields())
            raise ValueError(
                f"{where}.{name}: the engine {engine.name} has no such field; fields are {allowed}"
            )


def _check_metrics(engine: Engine, names: list[str] | dict[str, str], where: str) -> None:
    for name in names:
        if name not in engine.metrics:
            raise ValueError(
                f"{where}: {name}: the engine {engine.name} has no such metric; `ivsim study metrics` lists them"
            )


def holds(level: str, value: float | None) -> bool:
    """Return whether a figure meets a service level; an undefined figure meets none."""
    compare, limit = _parsed(level)
    return value is not None and compare(value, limit)


def _parsed(level: str) -> tuple[Callable[[float, float], bool], float]:
    """Return a service level's comparison and limit; ValueError for what is none."""
    match = _LEVEL.fullmatch(level)
    if match is None:
        raise ValueError(f'{level!r}: write a comparison, such as "< 250"')
    return _COMPARISONS[match[1]], float(match[2])


def read_study(path: Path) -> Study:
    """Return the checked study in `path`; Refusal names the file, the key and what is allowed."""
    try:
        return Study.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: {error}") from None
    except ValidationError as error:
        # A key that is mistyped is also a key that is missing: the one that is there says more.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        key = ".".join(str(part) for part in first["loc"])
        allowed = f"; keys are {', '.join(Study.model_fields)}" if first["type"] == "extra_forbidden" else ""
        message = first["msg"].removeprefix("Value error, ")
        raise Refusal(f"{path}: {key + ': ' if key else ''}{message}{allowed}") from None


def cells_of(
    study: Study, where: str, *, quick: bool = False, paths: Mapping[str, str] = MappingProxyType({})
) -> list[Cell]:
    """Return every combination of the axes that is not left out, each checked by the study's engine.

    Refusal, with `where` in front, for an impossible combination or a value the engine does not take.

    Args:
        study: whose cells they are.
        where: its file.
        quick: of a quick look.
        paths: where files are that the study names (`ivsim.study.inputs`); without one a name is a path itself.
    """
    engine = study.measured_by
    cells: list[Cell] = []
    # Fields of scenarios that have had no effect so far, with the refusal of the last cell.
    idle: dict[str, str] = {}
    effective: set[str] = set()
    for sweep, found in study.all_sweeps().items():
        look = study.quick | found.quick if quick else {}
        fixed = {"seed": study.seed, **study.scenario, **found.scenario, **look}
        # In the engine's order, not the file's: a cell's name must not depend on how the axes were written down.
        axes = {name: found.axes[name] for name in engine.axes() if name in found.axes}
        left_out = set[int]()
        for combination in itertools.product(*axes.values()):
            values = dict(zip(axes, combination, strict=True))
            if matching := [n for n, rule in enumerate(found.leave_out) if rule.items() <= values.items()]:
                left_out.update(matching)
                continue
            name = _cell_name(sweep, values)
            try:
                checked = engine.checked(with_paths(fixed, paths), with_paths(values, paths))
            except Refusal as refusal:
                raise Refusal(f"{where}: cell {name}: {refusal}") from None
            cells.append(Cell(name, sweep, values, checked.options))
            idle |= checked.idle
            effective |= fixed.keys() - checked.idle.keys()
        for number, rule in enumerate(found.leave_out):
            if number not in left_out:
                raise Refusal(f"{where}: {sweep and f'sweeps.{sweep}.'}leave_out {rule}: matches no cell")
    if not cells:
        raise Refusal(f"{where}: leave_out leaves no cell")
    for field, why in idle.items():
        if field not in effective:
            raise Refusal(f"{where}: in no cell does {field} have an effect: {why}")
    _check_measurable(study, cells, where)
    return _distinct(cells)


def _distinct(cells: list[Cell]) -> list[Cell]:
    """Return the cells with names of their own, each of them a file's name.

    Values that differ in what a file's name cannot have, such as letters beyond ASCII, and names that are too long, get a
    hash of the values.
    """
    often = Counter(cell.name for cell in cells)
    return [
        cell._replace(name=f"{cell.name[:_NAME_CHARACTERS]}-{_hash(cell)}")
        if often[cell.name] > 1 or len(cell.name) > _NAME_CHARACTERS
        else cell
        for cell in cells
    ]


def _hash(cell: Cell) -> str:
    said = repr([cell.sweep, *sorted((axis, repr(value)) for axis, value in cell.values.items())])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _check_measurable(study: Study, cells: list[Cell], where: str) -> None:
    """Refuse a metric that has a value in none of the cells whose table shows it, or that it is to judge."""
    engine = study.measured_by
    for sweep, found in study.all_sweeps().items():
        shown = [cell for cell in cells if cell.sweep == sweep]
        for metric in found.metrics:
            _measurable(engine, shown, metric, f"{where}: sweeps.{sweep}.metrics")
    for metric in study.metrics:
        _measurable(engine, cells, metric, f"{where}: metrics")
    for metric in study.service_levels:
        _measurable(engine, cells, metric, f"{where}: service_levels")


def _measurable(engine: Engine, cells: list[Cell], metric: str, where: str) -> None:
    lacking = [engine.unmeasurable(cell, metric) for cell in cells]
    if lacking and None not in lacking:
        raise Refusal(f"{where}: {metric}: measured in no cell: it {lacking[0]}")


def _cell_name(sweep: str, values: dict[str, Any]) -> str:
    parts = [*([sweep] if sweep else []), *(f"{axis}={value}" for axis, value in values.items())]
    return re.sub(r"[^A-Za-z0-9_.=-]", "-", "_".join(parts))
