"""A study as it stands in `study.toml`, checked as a whole before anything starts."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gateways.protocols import PROTOCOLS
from ivsim.options import RunOptions, run_options
from ivsim.study.figures_of_cells import STUDY_METRICS
from schemas.errors import Refusal

SCHEMA = 1
# word of an axis -> the fields of RunOptions that one of its values sets
AXES: dict[str, tuple[str, ...]] = {
    "mode": ("protocol", "mode"),
    "format": ("format",),
    "message_bytes": ("message_bytes",),
    "loss": ("loss_ratio",),
    "loss_direction": ("loss_direction",),
    "shaping": ("shaping",),
    "trace": ("trace",),
    "rate_factor": ("rate_factor",),
    "rtt": ("rtt",),
    "vehicles": ("vehicles",),
    "interval_s": ("interval_s",),
    "topology": ("topology",),
    "trigger": ("trigger",),
    "link": ("link",),
    "early_ack": ("early_ack",),
    "security": ("security",),
}
_LEVEL = re.compile(r"(<|<=|>|>=)\s*(-?\d+(?:\.\d+)?)")
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}
ENTRIES = ("ivsim.serialisation:run",)


class Cell(NamedTuple):
    """One combination of the axes' values.

    Attributes:
        name: stable and readable, from part and values alone; names its results.
        part: the part of the study it belongs to, "" where there are none.
        values: axis to value, in the order of the study's axes.
        options: what is run.
    """

    name: str
    part: str
    values: dict[str, Any]
    options: RunOptions


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Strict):
    """One sweep of a study with several: its own axes, and what differs from the study's scenario."""

    axes: dict[str, list[Any]]
    scenario: dict[str, Any] = {}
    leave_out: list[dict[str, Any]] = []

    @field_validator("axes")
    @classmethod
    def _axes(cls, axes: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in axes.items():
            if name not in AXES:
                raise ValueError(f"{name}: no such axis; axes are {', '.join(AXES)}")
            if not values or len({str(v) for v in values}) != len(values):
                raise ValueError(f"{name}: a list of different values, at least one")
        return axes


class Study(Strict):
    """One `study.toml`; unknown keys are refused.

    It has either `axes`, or `parts` with axes each, or an `entry` that measures in its own way.

    Attributes:
        scenario: fields of a run that all cells share; `quick` replaces some of them for a quick look.
        apart: axes whose values are never measured at the same time (as each needs the machine's CPU alone).
        repetitions: of every cell, each with the same seed; `quick` runs one.
    """

    schema_version: Literal[1] = 1
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    entry: str | None = None
    scenario: dict[str, Any] = {}
    quick: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    leave_out: list[dict[str, Any]] = []
    parts: dict[str, Part] = {}
    apart: list[str] = []
    repetitions: int = Field(default=1, ge=1, le=1_000)
    seed: int = Field(default=1, ge=0)
    metrics: list[str] = []
    service_levels: dict[str, str] = {}
    caveats: list[str] = []

    @model_validator(mode="after")
    def _one_kind(self) -> Study:
        if sum(bool(kind) for kind in (self.entry, self.axes, self.parts)) != 1:
            raise ValueError("one of axes, parts and entry must be there, and one alone")
        if self.entry is not None and self.entry not in ENTRIES:
            raise ValueError(f"entry {self.entry!r}: allowed are {', '.join(ENTRIES)}")
        if self.entry is None and not self.metrics:
            raise ValueError("metrics: name at least one; `ivsim study metrics` lists them")
        for name in self.apart:
            if name not in AXES:
                raise ValueError(f"apart: {name}: no such axis; axes are {', '.join(AXES)}")
        return self

    @field_validator("axes")
    @classmethod
    def _axes(cls, axes: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return Part._axes(axes)  # noqa: SLF001 - one rule for both

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, names: list[str]) -> list[str]:
        for name in names:
            _known_metric(name)
        return names

    @field_validator("service_levels")
    @classmethod
    def _levels(cls, levels: dict[str, str]) -> dict[str, str]:
        for name, level in levels.items():
            _known_metric(name)
            if not _LEVEL.fullmatch(level):
                raise ValueError(f'{name} {level!r}: write a comparison, such as "< 250"')
        return levels

    def sweeps(self) -> dict[str, Part]:
        """Return the parts by name; a study without has one that is called ""."""
        return self.parts or {"": Part(axes=self.axes, leave_out=self.leave_out)}


def _known_metric(name: str) -> None:
    if name not in STUDY_METRICS:
        raise ValueError(f"{name}: no such metric; `ivsim study metrics` lists them")


def holds(level: str, value: float | None) -> bool:
    """Return whether a figure meets a service level; an undefined figure meets none."""
    match = _LEVEL.fullmatch(level)
    assert match is not None
    return value is not None and COMPARE[match[1]](value, float(match[2]))


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


def cells_of(study: Study, where: str, *, quick: bool = False) -> list[Cell]:
    """Return every combination of the axes that is not left out, each checked as a run would be.

    Refusal, with `where` in front, for an impossible combination or a key no run has.
    """
    cells = []
    for part, sweep in study.sweeps().items():
        fixed = {"seed": study.seed, **study.scenario, **(study.quick if quick else {}), **sweep.scenario}
        # In the table's order, not the file's: a cell's name must not depend on how the axes were written down.
        axes = {name: sweep.axes[name] for name in AXES if name in sweep.axes}
        for combination in itertools.product(*axes.values()):
            values = dict(zip(axes, combination, strict=True))
            if not any(rule.items() <= values.items() for rule in sweep.leave_out):
                cells.append(_cell(part, fixed, values, where))
    if not cells:
        raise Refusal(f"{where}: leave_out leaves no cell")
    return cells


def _cell(part: str, fixed: dict[str, Any], values: dict[str, Any], where: str) -> Cell:
    fields = dict(fixed)
    for axis, value in values.items():
        fields |= _fields_of(axis, value, where)
    name = "_".join([*([part] if part else []), *(f"{axis}={value}" for axis, value in values.items())])
    name = re.sub(r"[^A-Za-z0-9_.=-]", "-", name)
    try:
        return Cell(name, part, values, run_options(**fields))
    except Refusal as refusal:
        raise Refusal(f"{where}: cell {name}: {refusal}") from None


def _fields_of(axis: str, value: Any, where: str) -> dict[str, Any]:
    if axis != "mode":
        return {AXES[axis][0]: value}
    protocol, _, mode = str(value).partition(" ")
    if protocol not in PROTOCOLS or mode not in PROTOCOLS[protocol].modes:
        allowed = ", ".join(f"{p.name} {m}" for p in PROTOCOLS.values() for m in p.modes)
        raise Refusal(f"{where}: axes.mode {value!r}: allowed are {allowed}")
    return {"protocol": protocol, "mode": mode}


def mode_of(cell: Cell) -> str:
    """Return the mode as axes and figures write it, such as "mqtt qos1"."""
    return f"{cell.options.protocol} {cell.options.mode}"
