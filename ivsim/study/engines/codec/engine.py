"""The codec engine: what formats cost in bytes, time and memory, in this process and its children; sends nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ivsim.report.drawing import Charts
from ivsim.study.cells import Cell, Kept, Session, Task
from ivsim.study.corpus import MESSAGES, PER_VEHICLE, corpus
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.codec import memory, report, thesis_records, timing
from ivsim.study.engines.codec.metrics import CODEC_METRICS, figures_of
from ivsim.study.engines.codec.observations import CodecObservations
from ivsim.study.results import CellResult
from ledger.metrics import Metric
from schemas.errors import Refusal
from schemas.formats import FORMATS

SESSION_S: Final = 20.0
RECORDS: Final = ("current_status", *(f"groups_{groups}" for groups in thesis_records.SIZES))


class CodecOptions(BaseModel):
    """One cell: a format, what is encoded, and how much of it.

    Attributes:
        record: CurrentStatus of living vehicles, or the serialisation thesis' records of 1, 4 or 8 groups.
        messages: CurrentStatus messages whose sizes are taken.
        timed_repetitions: how often each operation is timed on each message.
        vehicles_per_variant: vehicles of each variant that are timed, each with a message of its own.
        memory_messages: messages that a process of its own keeps while its memory is measured.
        seed: of the corpus.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = "protobuf"
    record: Literal["current_status", "groups_1", "groups_4", "groups_8"] = "current_status"
    messages: int = Field(default=MESSAGES, ge=1, le=1_000_000)
    timed_repetitions: int = Field(default=1_000, ge=2, le=1_000_000)
    vehicles_per_variant: int = Field(default=3, ge=1, le=1_000)
    memory_messages: int = Field(default=500, ge=1, le=100_000)
    seed: int = Field(default=1, ge=0)

    @field_validator("format")
    @classmethod
    def _format(cls, value: str) -> str:
        if value not in timing.STUDIED:
            raise ValueError(f"{value!r}: allowed are {', '.join(timing.STUDIED)}")
        return value


class Codec(Engine):
    """Cells of formats, all measured in turn so that a slow moment hits all; see the module."""

    name: ClassVar[str] = "codec"
    summary: ClassVar[str] = "bytes, times and memory of formats; nothing is sent"
    series_axis: ClassVar[str] = "format"
    metrics: Mapping[str, Metric] = CODEC_METRICS

    def axes(self) -> Mapping[str, Axis]:
        return {name: axis for name, axis in self.fields().items() if name in ("format", "record")}

    def fields(self) -> Mapping[str, Axis]:
        allowed = {"format": ", ".join(timing.STUDIED), "record": ", ".join(RECORDS)}
        return {
            name: Axis(name, "text" if name in allowed else "integer", allowed.get(name, "from 1"))
            for name in CodecOptions.model_fields
        }

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        try:
            return Checked(CodecOptions.model_validate({**fixed, **values}))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise Refusal(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None

    def sessions(self, cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
        """Return all formats of equal amounts of the same record together; a format that comes again is measured again."""
        del apart
        alike: dict[tuple[CodecOptions, int], list[Cell]] = {}
        before = Counter[CodecOptions]()
        for cell in cells:
            options = _options(cell)
            alike.setdefault((options.model_copy(update={"format": ""}), before[options]), []).append(cell)
            before[options] += 1
        return list(alike.values())

    def seconds(self, session: Session) -> float:
        options = _options(session.cells[0])
        # About 2.5 ms for all operations on one message of one format, as measured on a 2020 server core.
        messages = len(timing.VARIANTS) * options.vehicles_per_variant
        timed = 0.0025 * messages if options.record == "current_status" else 0.001
        return SESSION_S + timed * options.timed_repetitions * len(session.cells)

    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> nullcontext[OpenCodec]:
        del work, results, sessions
        return nullcontext(OpenCodec())

    def observations(self, cell: Cell, done: Sequence[Kept]) -> CodecObservations:
        return CodecObservations(cell, [one.directory for one in done])

    def series(self, cell: Cell) -> str:
        return _options(cell).format

    def charts(self, results: Sequence[CellResult]) -> Charts:
        return report.charts_of(results)

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        del directory
        return report.sections(results)


def _options(cell: Cell) -> CodecOptions:
    assert isinstance(cell.options, CodecOptions)
    return cell.options


class OpenCodec:
    """Nothing needs to be kept open."""

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Measure all cells of a session, formats in turn within every repetition."""
        del tick
        options = _options(session.cells[0])
        tasks = {_options(task.cell).format: task for task in session.tasks}
        if options.record == "current_status":
            yield from _current_status(options, tasks, results)
        else:
            yield from _thesis(options, tasks, results)


def _current_status(options: CodecOptions, tasks: Mapping[str, Task], results: Results) -> Iterator[Outcome]:
    lengths = sizes(tuple(tasks), options.messages, options.seed)
    times = timing.measure(
        tuple(tasks), options.timed_repetitions, options.vehicles_per_variant, options.seed
    )
    for name, task in tasks.items():
        directory = results.begin(task)
        pq.write_table(_table(lengths[name], "payload_bytes"), directory / "sizes.parquet")
        # Each operation has its times vehicle by vehicle.
        each = options.timed_repetitions
        own = [
            (v, k // each, o, us)
            for (n, v, o), found in times.items()
            if n == name
            for k, us in enumerate(found)
        ]
        pq.write_table(_times_table(own), directory / "times.parquet", compression="zstd")
        peaks = [memory.peak(name, way, options.memory_messages, options.seed) for way in memory.DIRECTIONS]
        yield Outcome(task, figures_of(CodecObservations(task.cell, [directory]), peaks))


def _thesis(options: CodecOptions, tasks: Mapping[str, Task], results: Results) -> Iterator[Outcome]:
    groups = int(options.record.removeprefix("groups_"))
    for row in thesis_records.measure(groups, tuple(tasks), options.timed_repetitions):
        task = tasks[row.format]
        directory = results.begin(task)
        pq.write_table(
            _table([(options.record, 0, row.size_bytes)], "payload_bytes"), directory / "sizes.parquet"
        )
        own = [(options.record, 0, "build_encode", us) for us in row.encode_us]
        own += [(options.record, 0, "decode", us) for us in row.decode_us]
        pq.write_table(_times_table(own), directory / "times.parquet", compression="zstd")
        yield Outcome(task, figures_of(CodecObservations(task.cell, [directory]), []))


def sizes(formats: Sequence[str], messages: int, seed: int) -> dict[str, list[tuple[str, int, int]]]:
    """Return payload lengths of the corpus: format -> (variant, vehicle, bytes) of each message."""
    lengths: dict[str, list[tuple[str, int, int]]] = {name: [] for name in formats}
    for k, (variant, status) in enumerate(corpus(messages, seed)):
        for name, found in lengths.items():
            found.append((variant, k // PER_VEHICLE, len(FORMATS[name].encode(status))))
    return lengths


def _table(rows: Sequence[tuple[str, int, int]], column: str) -> pa.Table:
    variants, vehicles, values = zip(*rows, strict=True)
    return pa.table(
        {
            "variant": list(variants),
            "vehicle": pa.array(vehicles, pa.int32()),
            column: pa.array(values, pa.int32()),
        }
    )


def _times_table(rows: Sequence[tuple[str, int, str, float]]) -> pa.Table:
    variants, vehicles, operations, times = zip(*rows, strict=True)
    return pa.table(
        {
            "variant": pa.array(variants).dictionary_encode(),
            "vehicle": pa.array(vehicles, pa.int32()),
            "operation": pa.array(operations).dictionary_encode(),
            "time_us": pa.array(times, pa.float32()),
        }
    )
