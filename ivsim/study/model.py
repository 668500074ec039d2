"""A study as it stands in `study.toml`, checked as a whole before anything starts."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gateways.protocols import PROTOCOLS
from ivsim.options import RunOptions, run_options
from schemas.errors import Refusal
from twin.metrics import METRICS

SCHEMA = 1
# word of an axis -> the fields of RunOptions that one of its values sets
AXES: dict[str, tuple[str, ...]] = {
    "mode": ("protocol", "mode"),
    "format": ("format",),
    "message_bytes": ("message_bytes",),
    "loss": ("loss_ratio",),
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
COMPARE = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
}


class Cell(NamedTuple):
    """One combination of the axes' values.

    Attributes:
        name: stable and readable, from the values alone; names its results.
        values: axis to value, in the order of the study's axes.
        options: what is run.
    """

    name: str
    values: dict[str, Any]
    options: RunOptions


class Study(BaseModel):
    """One `study.toml`; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    scenario: dict[str, Any] = {}
    axes: dict[str, list[Any]]
    leave_out: list[dict[str, Any]] = []
    repetitions: int = Field(default=1, ge=1, le=1_000)
    seed: int = Field(default=1, ge=0)
    metrics: list[str] = Field(min_length=1)
    service_levels: dict[str, str] = {}
    caveats: list[str] = []

    @field_validator("axes")
    @classmethod
    def _axes(cls, axes: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in axes.items():
            if name not in AXES:
                raise ValueError(f"{name}: no such axis; axes are {', '.join(AXES)}")
            if not values or len({str(v) for v in values}) != len(values):
                raise ValueError(f"{name}: a list of different values, at least one")
        return axes

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in METRICS:
                raise ValueError(f"{name}: no such metric; `ivsim study metrics` lists them")
        return names

    @field_validator("service_levels")
    @classmethod
    def _levels(cls, levels: dict[str, str]) -> dict[str, str]:
        for name, level in levels.items():
            if name not in METRICS:
                raise ValueError(f"{name}: no such metric; `ivsim study metrics` lists them")
            if not _LEVEL.fullmatch(level):
                raise ValueError(f'{name} {level!r}: write a comparison, such as "< 250"')
        return levels


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
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        allowed = f"; keys are {', '.join(Study.model_fields)}" if first["type"] == "extra_forbidden" else ""
        raise Refusal(f"{path}: {key}: {first['msg'].removeprefix('Value error, ')}{allowed}") from None


def cells_of(study: Study, where: str) -> list[Cell]:
    """Return every combination of the axes that is not left out, each checked as a run would be.

    Refusal, with `where` in front, for an impossible combination or a key no run has.
    """
    cells = []
    for combination in itertools.product(*study.axes.values()):
        values = dict(zip(study.axes, combination, strict=True))
        if not any(rule.items() <= values.items() for rule in study.leave_out):
            cells.append(_cell(study, values, where))
    if not cells:
        raise Refusal(f"{where}: leave_out leaves no cell")
    return cells


def _cell(study: Study, values: dict[str, Any], where: str) -> Cell:
    fields: dict[str, Any] = {"seed": study.seed, **study.scenario}
    for axis, value in values.items():
        fields |= _fields_of(axis, value, where)
    name = "_".join(f"{axis}={value}" for axis, value in values.items())
    try:
        return Cell(re.sub(r"[^A-Za-z0-9_.=-]", "-", name), values, run_options(**fields))
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
