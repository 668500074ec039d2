"""The claims decided twice, and the report: as published, and with every record on the disk before it is acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.papers.base import Paper
from ivsim.papers.ingestion_platforms.cells import CACHE, LABELS, SYNCED, Cells
from ivsim.papers.ingestion_platforms.claims import CLAIMS
from ivsim.report.style import number
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.claims_report import answer, claims_section, evidence_section
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.markdown import table
from ivsim.study.report import results, sections
from ivsim.study.results import CellResult
from ivsim.study.store import Store

STUDY: Final = "ingestion-platforms"
NOTE: Final = "ratios are of cells of one repetition; K is Kafka, P Pulsar, R Redis Streams"
LEDGER: Final = ("produced", "acknowledged", "consumed", "duplicates", "acknowledged_lost")
COSTS: Final = ("records_per_s", "platform_cpu_us", "client_cpu_us", "platform_peak_mib", "stored_bytes")


class IngestionPlatforms(Paper):
    """Tallberg, "A Comparison of Data Ingestion Platforms in Real-Time Stream Processing Pipelines", 2020."""

    studies: ClassVar[tuple[str | Path, ...]] = (STUDY,)

    def decided(self, store: Store) -> list[Decided]:
        return decided_claims(results(store), CACHE)

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        found = results(store)
        head, *others = sections(store, found)
        synced = decided_claims(found, SYNCED)
        return [
            f"{head}\n\n**As published: {answer(decided)}**\n\n**Synced: {answer(synced)}**",
            claims_section(decided, NOTE),
            claims_section(synced, NOTE, title="Claims, every record on the disk"),
            evidence_section(decided),
            evidence_section(synced, title="Evidence, every record on the disk"),
            promises(),
            costs(found),
            kills(found),
            *others,
        ]


def decided_claims(found: Sequence[CellResult], durability: str) -> list[Decided]:
    """Return the twenty claims in their order, from the cells of one durability."""
    return judged_together(decide(CLAIMS, Cells(found, durability)))


def promises() -> str:
    """Return what each platform is told for each durability."""
    rows = [
        [
            name,
            *(platform_named(name).durability[mode] for mode in (CACHE, SYNCED)),
            platform_named(name).summary,
        ]
        for name in LABELS
    ]
    return (
        "## What an acknowledgement means\n\n"
        "*cache*: the operating system has the record, and a power cut may lose it. *synced*: the disk has it.\n\n"
        + table(["platform", CACHE, SYNCED, "as it runs here"], rows)
    )


def kills(found: Sequence[CellResult]) -> str:
    """Return the ledgers over a kill of the platform, repetitions added up, and how long it took until all went on."""
    rows = []
    for one in found:
        if one.cell.sweep != "kills" or not one.done:
            continue
        sums = [number(_sum(one, name)) for name in LEDGER]
        waits = [number(one.interval(name).estimate) for name in ("recovery_s", "outage_s")]
        values = one.cell.values
        rows.append([str(values["platform"]), str(values["durability"]), *sums, *waits])
    head = [
        "platform",
        "durability",
        "due",
        "acknowledged",
        "present",
        "duplicates",
        "acknowledged, then lost",
        "recovery, s",
        "outage, s",
    ]
    return (
        "## A kill of the platform\n\nSIGKILL while records are due, and a start at once; counts are sums over"
        " repetitions. *Recovery* is from the kill to the first acknowledgement of a record sent after it, *outage* until"
        " the platform answers. What had no answer is sent again, and may be there twice.\n\n"
        + table(head, rows)
    )


def _sum(one: CellResult, name: str) -> float | None:
    """Return the sum over repetitions; None where one of them does not know."""
    each = [kept.figures.get(name) for kept in one.done]
    known = [value for value in each if value is not None]
    return sum(known) if len(known) == len(each) else None


def costs(found: Sequence[CellResult]) -> str:
    """Return what a record costs at full speed."""
    rows = []
    for one in found:
        if one.cell.sweep != "capacity" or not one.done:
            continue
        values = one.cell.values
        figures = [number(one.interval(name).estimate) for name in COSTS]
        rows.append([*(str(values[name]) for name in ("record", "platform", "durability")), *figures])
    head = [
        "record",
        "platform",
        "durability",
        "records/s",
        "platform, µs CPU",
        "clients, µs CPU",
        "MiB",
        "B on disk",
    ]
    return "## What a record costs at full speed\n\nMeans over repetitions, a consumer attached.\n\n" + table(
        head, rows
    )
