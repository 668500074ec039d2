"""What every importer is and what a user may choose; reads nothing itself."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from schemas.errors import Refusal
from simulator.traces.model import COLUMNS, RATE_MEANINGS, Trace
from simulator.traces.source import lines_of

DIRECTIONS = {"uplink": "uplink_kbps", "downlink": "downlink_kbps"}
DUPLICATES = ("average", "first", "last", "refuse")
GAPS = ("refuse", "hold", "zero", "cut", "longest")
CLOCK_BACK = ("refuse", "drop")
_CHOICES: Mapping[str, Sequence[str]] = {
    "columns": COLUMNS,
    "direction": tuple(DIRECTIONS),
    "duplicates": DUPLICATES,
    "gaps": GAPS,
    "clock_back": CLOCK_BACK,
    "rate_meaning": RATE_MEANINGS,
}


@dataclass(frozen=True)
class Options:
    """The stated policies of one import; None means: not given, the importer's documented default holds.

    Attributes:
        columns: which of the schema's columns to take.
        direction: what a rate without a direction is.
        network_modes: keep rows of these modes only ("LTE", ...); the others become gaps.
        states: keep rows of these logger states only ("D", "I").
        duplicates: several rows in one step: `average`, keep the `first` or `last`, or `refuse`.
        hold_s: rows at most this far apart are no gap, the earlier one holds (2 s).
        gaps: longer ones: `refuse`, `hold` the last value, `zero` (an outage; RTT and loss hold), `cut` them
            out, or keep the `longest` piece without one.
        clock_back: a row older than one before it: `refuse`, or `drop` rows until the clock has caught up.
        step_s: length of the steps of the result (1 s).
        period_s: time between rows of a log without a usable clock.
        skip_s: leave out this much of the beginning (a radio waking up, a first row that is backlog).
        rate_meaning: `capacity` or `as_logged`, where the importer cannot know.
        time: column of a generic CSV with the time, NAME[:UNIT].
        mapping: columns of a generic CSV, TARGET=NAME[:UNIT or :@UNIT_COLUMN].
        delimiter: the generic CSV's delimiter.
    """

    columns: tuple[str, ...] | None = None
    direction: str | None = None
    network_modes: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    duplicates: str | None = None
    hold_s: float | None = None
    gaps: str | None = None
    clock_back: str | None = None
    step_s: float | None = None
    period_s: float | None = None
    skip_s: float | None = None
    rate_meaning: str | None = None
    time: str | None = None
    mapping: tuple[str, ...] | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            given = getattr(self, name)
            for value in given if isinstance(given, tuple) else (given,):
                if value is not None and value not in allowed:
                    raise Refusal(f"{option(name)} {value!r}: must be one of {', '.join(allowed)}")
        for name in ("hold_s", "step_s", "period_s", "skip_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e6:
                raise Refusal(f"{option(name)} {value:g}: must be above 0 s")

    def given(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]


OPTION_NAMES = {
    "columns": "--column",
    "network_modes": "--network-mode",
    "states": "--state",
    "hold_s": "--hold",
    "step_s": "--step",
    "period_s": "--period",
    "skip_s": "--skip",
    "mapping": "--map",
}


def option(name: str) -> str:
    """The command line's word for an attribute of `Options`."""
    return OPTION_NAMES.get(name, "--" + name.replace("_", "-"))


GRID_OPTIONS = frozenset({"duplicates", "hold_s", "gaps", "clock_back", "step_s"})


# Four months of seconds: a longer drive is a broken clock, and its steps would not fit into memory.
MOST_STEPS = 10_000_000


@dataclass(frozen=True)
class Source:
    """One file on its way in: where it is (for refusals) and its text."""

    path: Path
    text: str

    def refusal(self, line: int, reason: str) -> Refusal:
        return Refusal(f"{self.path}:{line}: {reason}")

    def cells(self, delimiter: str = ",") -> list[list[str]]:
        """The fields of each line of a delimited file; a quote does not reach over a line's end."""
        rows = []
        for line, text in enumerate(lines_of(self.text), 1):
            try:
                rows.append(next(csv.reader([text], delimiter=delimiter), []))
            except csv.Error as error:
                raise self.refusal(line, f"not a line of a delimited file: {error}") from error
        return rows

    def checked_steps(self, line: int, steps: float) -> int:
        """The number of steps, refused where only a broken clock can have counted them."""
        if not 0 <= steps <= MOST_STEPS:
            raise self.refusal(
                line, f"the clock spans {steps:.0f} steps, at most {MOST_STEPS} can be: is it broken?"
            )
        return int(steps)

    def header(self, importer: str, policy: str, **more: str) -> dict[str, str]:
        """Header of the result: the file's name and digest, never its folder."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return {
            "origin": f"imported from {self.path.name} ({importer})",
            "licence": "not stated: ask its publisher before passing it on",
            "source_sha256": digest,
            "policy": policy,
            **more,
        }


def skipped(options: Options) -> str:
    """The words of a policy for a beginning left out."""
    return f"; first {options.skip_s:g} s left out" if options.skip_s else ""


@dataclass(frozen=True)
class Importer:
    """One foreign format.

    Attributes:
        name: the word for `--from`.
        about: one line for people.
        options: the attributes of `Options` it understands; others are refused.
        recognises: whether the first lines look like this format (pure, cheap).
        read: the trace, or a Refusal that names file and line.
    """

    name: str
    about: str
    options: frozenset[str]
    recognises: Callable[[list[str]], bool]
    read: Callable[[Source, Options], Trace]
