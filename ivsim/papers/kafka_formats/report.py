"""The claims decided, and the report: what the study measured, and what of it the thesis could not see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.papers.base import Paper
from ivsim.papers.kafka_formats.cells import AVRO, LABELS, PROTOBUF, Cells
from ivsim.papers.kafka_formats.claims import CLAIMS, OF_SCHEMAS, OF_TYPES
from ivsim.report.style import number
from ivsim.study.claims import Decided, answer, claims_section, decide
from ivsim.study.engines.pipe.idioms import IDIOMS
from ivsim.study.engines.pipe.metrics import STAGES
from ivsim.study.markdown import table
from ivsim.study.report import results, sections
from ivsim.study.results import CellResult
from ivsim.study.store import Store

STUDY: Final = "kafka-formats"
YEAR_S: Final = 365 * 86_400
# One record of a vehicle each so many seconds, for what a year of it costs.
INTERVAL_S: Final = 10


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
            _stages(found),
            _vehicle_year(found),
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
    return sorted(decided, key=lambda one: one.number)


def _stages(found: Sequence[CellResult]) -> str:
    """Return what every idiom costs, stage by stage."""
    rows = []
    for one in found:
        if one.cell.sweep != "stages" or not one.done:
            continue
        name = str(one.cell.values["format"])
        times = [
            one.interval(f"{stage}_us").estimate for stage in STAGES if stage not in {"produce", "fetch"}
        ]
        sizes = number(one.interval("payload_bytes").estimate)
        rows.append(
            [str(one.cell.values["record"]).upper(), name, IDIOMS[name].summary, sizes, *map(number, times)]
        )
    rows.sort(key=lambda row: row[0])
    head = ["record", "idiom", "", "B", "build", "encode", "decode", "read"]
    return (
        "## What an idiom costs\n\nCPU µs a record, over the null platform; a dash where a stage has nothing to do.\n\n"
        + table(head, rows)
    )


def _vehicle_year(found: Sequence[CellResult]) -> str:
    """Return what a vehicle's records of a year come to."""
    records = YEAR_S // INTERVAL_S
    rows = []
    for one in found:
        if one.cell.sweep != "codecs" or not one.done:
            continue
        stored, client, platform = (
            one.interval(name).estimate for name in ("stored_bytes", "client_cpu_us", "platform_cpu_us")
        )
        rows.append(
            [
                LABELS[str(one.cell.values["format"])],
                str(one.cell.values["codec"]),
                number(None if stored is None else stored * records / 1e6),
                number(None if client is None else client * records / 1e6),
                number(None if platform is None else platform * records / 1e6),
            ]
        )
    order = list(LABELS.values())
    rows.sort(key=lambda row: order.index(row[0]))
    head = ["format", "codec", "on disk, MB", "CPU s of clients", "CPU s of the broker"]
    return (
        f"## A vehicle's year\n\nOne record of S1 each {INTERVAL_S} s, {records:,} a year, at the neutral profile's batches.\n\n"
        + table(head, rows)
    )
