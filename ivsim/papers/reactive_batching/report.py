"""The claims decided, and the report: what decides them, how well each is predicted, and what a controller gains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.papers.base import Paper, within
from ivsim.papers.reactive_batching import control_sections, sections
from ivsim.papers.reactive_batching.accuracy import accuracy
from ivsim.papers.reactive_batching.cells import Cells
from ivsim.papers.reactive_batching.charts import paper_charts
from ivsim.papers.reactive_batching.claims import CLAIMS
from ivsim.papers.reactive_batching.reasons import CAUSES_IN_SHORT, reasons
from ivsim.report.drawing import Charts
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.claims_report import answer, borne_out, claims_section, evidence_section
from ivsim.study.report import results
from ivsim.study.report import sections as study_sections
from ivsim.study.results import CellResult
from ivsim.study.store import Store

STUDY: Final = "reactive-batching"
CONTROL: Final = "reactive-batching-control"
NOTE: Final = (
    "L is the latency from due to the consumer, l1 until the record is in its partition, l2 from there; times are a tenth of"
    " the paper's"
)


class ReactiveBatching(Paper):
    """Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka", IEEE ISSRE 2020."""

    studies: ClassVar[tuple[str | Path, ...]] = (STUDY, CONTROL)

    def __init__(self) -> None:
        self._last: tuple[Store, Cells] | None = None

    def decided(self, store: Store) -> list[Decided]:
        return judged_together(decide(CLAIMS, self._cells(store)))

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        found = everything(store)
        cells = self._cells(store)
        head, *others = study_sections(store, results(store))
        why = reasons(cells)
        return [
            f"{head}\n\n**{answer(decided)}**",
            claims_section(decided, NOTE, borne_out(why, CAUSES_IN_SHORT)),
            evidence_section(decided, why),
            sections.causes(cells),
            sections.hinge(cells),
            sections.laws(cells),
            sections.losses(cells),
            accuracy(cells),
            control_sections.limits(found),
            control_sections.policies(cells),
            control_sections.drive(cells),
            control_sections.decisions(found),
            *others,
        ]

    def report_charts(self, store: Store) -> Charts:
        return paper_charts(self._cells(store), everything(store))

    def _cells(self, store: Store) -> Cells:
        """Return the cells with what was fitted to them: claims, tables and charts need the same laws."""
        if self._last is None or self._last[0] is not store:
            self._last = (store, Cells(everything(store)))
        return self._last[1]


def everything(store: Store) -> list[CellResult]:
    """Return the cells of the main study and of the controller's."""
    control = within(store, CONTROL)
    return [*results(store), *([] if control is None else results(control))]
