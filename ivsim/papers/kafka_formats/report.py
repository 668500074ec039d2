"""The claims decided, and the report: what the study measured, and what of it the thesis could not see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.papers.base import Paper
from ivsim.papers.kafka_formats import tables
from ivsim.papers.kafka_formats.cells import AVRO, PROTOBUF, Cells
from ivsim.papers.kafka_formats.claims import CLAIMS, OF_SCHEMAS, OF_TYPES
from ivsim.papers.kafka_formats.mended import mended_section
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.claims_report import answer, claims_section, evidence_section
from ivsim.study.report import results, sections
from ivsim.study.results import CellResult
from ivsim.study.store import Store

STUDY: Final = "kafka-formats"


class KafkaFormats(Paper):
    """Myastovskiy, "Evaluating the Performance of Serialization Protocols in Apache Kafka", 2024."""

    studies: ClassVar[tuple[str | Path, ...]] = (STUDY,)

    def decided(self, store: Store) -> list[Decided]:
        return decided_claims(results(store))

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        found = results(store)
        head, *others = sections(store, found)
        return [
            f"{head}\n\n**{answer(decided)}**",
            claims_section(decided, "ratios are of two formats of one repetition"),
            evidence_section(decided),
            mended_section(decided, found),
            *beyond(found, store.head["machine"]["cores"]),
            *others,
        ]


def decided_claims(found: Sequence[CellResult]) -> list[Decided]:
    """Return the twenty claims in their order; those whose setting the thesis leaves open, in both settings."""
    cells = Cells(found)
    types = {"float": cells, "double": Cells(found, {PROTOBUF: "protobuf-double"})}
    schemas = {"nullable Avro": cells, "plain Avro": Cells(found, {AVRO: "avro-plain"})}
    open_claims = (*OF_TYPES, *OF_SCHEMAS)
    decided = decide([one for one in CLAIMS if one.number not in open_claims], cells)
    decided += decide([one for one in CLAIMS if one.number in OF_TYPES], cells, types)
    decided += decide([one for one in CLAIMS if one.number in OF_SCHEMAS], cells, schemas)
    return judged_together(decided)


def beyond(found: Sequence[CellResult], cores: int) -> list[str]:
    """Return what the study measured beyond the thesis, a section each."""
    cells = Cells(found)
    return [
        tables.costs(found),
        tables.causes(cells),
        tables.idioms(found),
        tables.fastest(cells),
        tables.codecs(cells),
        tables.settings(cells),
        tables.million(found),
        tables.year(found),
        tables.load(found, cores),
    ]
