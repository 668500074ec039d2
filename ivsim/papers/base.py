"""What a repeated paper is: the studies that it needs, and its claims decided from their results."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.report.drawing import Charts
from ivsim.study.claims import Decided
from ivsim.study.claims_report import answer, claims_section, evidence_section
from ivsim.study.report import results, sections, write
from ivsim.study.selected_charts import selected_charts
from ivsim.study.store import Store
from schemas.errors import Refusal
from schemas.json_files import write_json


class Paper(ABC):
    """One published work.

    Attributes:
        studies: names of bundled studies or files; the first is the main one. The results of the others lie
            within those of the main one, in directories of their names. One that this machine cannot measure is left
            out, unless it is the main one.
    """

    studies: ClassVar[tuple[str | Path, ...]]

    @abstractmethod
    def decided(self, store: Store) -> list[Decided]:
        """Return every claim with its verdict, from the results of the main study and those within it."""

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        """Return the parts of the report as Markdown; here those of the main study, with the claims before them."""
        head, *others = sections(store, results(store))
        return [
            f"{head}\n\n**{answer(decided)}**",
            claims_section(decided),
            evidence_section(decided),
            *others,
        ]

    def report_charts(self, store: Store) -> Charts:
        """Return the charts."""
        return selected_charts(store.study, results(store))

    def write_report(self, store: Store, directory: Path, decided: Sequence[Decided] | None = None) -> Path:
        """Write report.md, its charts and report.html; return the path of report.md.

        Args:
            store: of the main study.
            directory: where to.
            decided: the claims, where the caller has decided them already.
        """
        parts = self.report_parts(store, self.decided(store) if decided is None else decided)
        return write(directory, parts, self.report_charts(store))


def within(store: Store, study: str) -> Store | None:
    """Return the results of a further study of a paper; None where it has not been run."""
    path = store.path / study
    return Store.open(path) if (path / "study.json").is_file() else None


LEFT_OUT: Final = "left-out.json"


def leave_out(store: Store, studies: Mapping[str, str]) -> None:
    """Note which studies of a paper this machine cannot measure, and why."""
    write_json(store.path / LEFT_OUT, dict(studies))


def left_out(store: Store) -> dict[str, str]:
    """Return the studies that were left out, and why; none where nothing was noted."""
    path = store.path / LEFT_OUT
    if not path.is_file():
        return {}
    try:
        found: dict[str, str] = json.loads(path.read_text())
    except ValueError as error:
        raise Refusal(f"{path}: no JSON: {error}") from None
    return found
