"""What every importer is; reads nothing itself."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import Refusal
from simulator.traces.importers.options import Options
from simulator.traces.model import Trace
from simulator.traces.source import lines_of

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
