"""Which column of a log is which signal: a TOML file, checked as a whole before a row is read."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from schemas.config import Strict
from schemas.errors import Refusal
from simulator.logs.signals import SIGNALS, Signal

_FACTORS_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?")
_TRUTH: Final = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Times(Strict):
    """When a row is: by a column, from any origin, of which only differences count; or each so long after the last."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    column: Name | None = None
    unit: Literal["s", "ms", "us", "ns", "iso8601"] | None = None
    every_s: Annotated[float, Field(ge=1e-6, le=86_400)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Times:
        by_column = self.column is not None and self.unit is not None
        if by_column == (self.every_s is not None) or (self.column is None) != (self.unit is None):
            raise ValueError("column and unit, or every_s where rows have no time")
        return self


class SignalColumn(Strict):
    """The column of a signal: in a unit that the signal knows, or by a factor and an offset of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    column: Name
    unit: str | None = None
    scale: float | None = None
    offset: float | None = None

    @model_validator(mode="after")
    def _one_way(self) -> SignalColumn:
        if self.unit is not None and (self.scale is not None or self.offset is not None):
            raise ValueError("unit, or scale and offset, not both")
        return self


class Mapping(Strict):
    """A mapping file.

    Attributes:
        vehicle: the column with a vehicle's name; None: the file is one vehicle's.
        time: when rows are.
        signals: path of a signal -> its column.
    """

    vehicle: Name | None = None
    time: Times
    signals: Annotated[dict[str, SignalColumn], Field(min_length=1)]

    @model_validator(mode="after")
    def _known(self) -> Mapping:
        for path, column in self.signals.items():
            if path not in SIGNALS:
                like = get_close_matches(path, SIGNALS, n=3)
                hint = f"; like it: {', '.join(like)}" if like else "; docs/current-status.md has them"
                raise ValueError(f"signals.{path}: no signal of CurrentStatus{hint}")
            signal = SIGNALS[path]
            if column.unit is not None and column.unit not in signal.units:
                raise ValueError(f"signals.{path}.unit: {column.unit!r}: allowed are {_units(signal)}")
            if signal.is_flag and (column.scale, column.offset) != (None, None):
                raise ValueError(f"signals.{path}: a flag has no scale")
        named = {path for path in self.signals if path.startswith("position.")}
        if named and not {"position.latitude_deg", "position.longitude_deg"} <= named:
            raise ValueError("signals: a position needs position.latitude_deg and position.longitude_deg")
        return self

    @property
    def columns(self) -> list[str]:
        """Return every column that a log must have, each once."""
        found = [self.vehicle, self.time.column, *(one.column for one in self.signals.values())]
        return list(dict.fromkeys(name for name in found if name is not None))

    def time_ns(self, cells: dict[str, str], rows: int) -> int:
        """Return the time of a row behind so many of its vehicle; ValueError where its cell has none."""
        if self.time.column is None or self.time.unit is None:
            return rows * round((self.time.every_s or 0.0) * 1e9)
        text = cells[self.time.column]
        if self.time.unit == "iso8601":
            return iso_ns(text)
        return _whole_ns(text, _FACTORS_NS[self.time.unit])

    def value(self, path: str, text: str) -> float:
        """Return the signal in a cell that is not empty, in its own unit; ValueError where it is none."""
        signal, column = SIGNALS[path], self.signals[path]
        if signal.is_flag:
            if text.strip().lower() not in _TRUTH:
                raise ValueError(f"{text[:40]!r}: a flag is true or false, 1 or 0")
            return _TRUTH[text.strip().lower()]
        if not _NUMBER.fullmatch(text.strip()):
            raise ValueError(f"{text[:40]!r}: no number")
        factor, offset = _conversion(signal, column)
        return float(text) * factor + offset


def _conversion(signal: Signal, column: SignalColumn) -> tuple[float, float]:
    if column.unit is not None:
        return signal.units[column.unit]
    return (1.0 if column.scale is None else column.scale), (column.offset or 0.0)


def _units(signal: Signal) -> str:
    return ", ".join(signal.units) or "none, as it has a number of its own"


def iso_ns(text: str) -> int:
    """Return an ISO 8601 instant in nanoseconds since 1970; one without an offset counts as UTC. ValueError for others."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:40]!r}: no ISO 8601 instant") from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def seconds_ns(text: str) -> int:
    """Return seconds as whole nanoseconds; ValueError where the text is no number."""
    return _whole_ns(text, 10**9)


def _whole_ns(text: str, factor: int) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r}: no time")
    try:
        # A double has not enough digits for seconds since 1970 in nanoseconds.
        return int(Decimal(text.strip()) * factor)
    except (InvalidOperation, OverflowError):
        raise ValueError(f"{text[:40]!r}: no time") from None


def read_mapping(path: Path) -> Mapping:
    """Return the mapping in a TOML file; Refusal names file and key."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: {error}") from None
    try:
        return Mapping.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Refusal(
            f"{path}: {where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from None
