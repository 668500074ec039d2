"""The codec_cpp engine: what formats cost in C++, by a driver that is built here; sends nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ivsim.study.cells import Cell, Kept, Session
from ivsim.study.corpus import MESSAGES, SIZE, time_metric
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.codec_cpp import build, driver
from ivsim.study.engines.codec_cpp.observations import CppObservations, memory_metric
from ivsim.study.results import CellResult
from ledger.metrics import Metric
from schemas.errors import Refusal
from schemas.json_files import write_json

BUILD_S: Final = 40.0
# For all operations on one message, both formats; for one message of the corpus; for one process: as measured.
CALL_S: Final = 80e-6
MESSAGE_S: Final = 0.006
PROCESS_S: Final = 0.3
VERSIONS: Final = "cpp-versions.json"

CPP_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(SIZE, "B", "messages", "mean payload"),
        *(
            Metric(time_metric(name), "us", "messages", f"mean time {meaning}; stubs left out")
            for name, meaning in driver.OPERATIONS.items()
        ),
        *(
            Metric(
                memory_metric(way),
                "MiB",
                "processes",
                f"peak resident set of a process with that library alone ({way})",
            )
            for way in driver.DIRECTIONS
        ),
    )
}


class CppOptions(BaseModel):
    """One cell: a format, and how much of it.

    Attributes:
        messages: CurrentStatus messages whose sizes are taken, and which the memory's processes work through.
        timed_messages: how many of them, each of another vehicle, are timed.
        samples: how often each operation is timed on each of those.
        calls: calls in a row that one sample is the mean of.
        memory_processes: processes whose peak is taken, in each direction.
        seed: of the corpus.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["protobuf", "flatbuffers"] = "protobuf"
    messages: int = Field(default=MESSAGES, ge=3, le=1_000_000)
    timed_messages: int = Field(default=300, ge=2, le=100_000)
    samples: int = Field(default=100, ge=1, le=100_000)
    calls: int = Field(default=10, ge=1, le=100_000)
    memory_processes: int = Field(default=10, ge=2, le=1_000)
    seed: int = Field(default=1, ge=0)


class CodecCpp(Engine):
    """Cells of formats, both measured in turn so that a slow moment hits both; see the module."""

    name: ClassVar[str] = "codec_cpp"
    summary: ClassVar[str] = "bytes, times and memory of formats in C++; needs a compiler"
    series_axis: ClassVar[str] = "format"
    metrics: Mapping[str, Metric] = CPP_METRICS

    def missing(self) -> str | None:
        lacking = build.missing()
        return f"{', '.join(lacking)} missing; `{build.INSTALL}` installs them" if lacking else None

    def axes(self) -> Mapping[str, Axis]:
        return {"format": self.fields()["format"]}

    def fields(self) -> Mapping[str, Axis]:
        return {
            name: Axis(name, "text", ", ".join(build.FORMATS))
            if name == "format"
            else Axis(name, "integer", "from 1")
            for name in CppOptions.model_fields
        }

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        try:
            return Checked(CppOptions.model_validate({**fixed, **values}))
        except ValidationError as error:
            first = error.errors()[0]
            raise Refusal(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def sessions(self, cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
        """Return both formats of equal amounts together; a format that comes again is measured again."""
        del apart
        alike: dict[tuple[CppOptions, int], list[Cell]] = {}
        before = Counter[CppOptions]()
        for cell in cells:
            options = _options(cell)
            alike.setdefault((options.model_copy(update={"format": "protobuf"}), before[options]), []).append(
                cell
            )
            before[options] += 1
        return list(alike.values())

    def seconds(self, session: Session) -> float:
        o = _options(session.cells[0])
        timed = min(o.timed_messages, o.messages) * o.samples * o.calls * CALL_S
        return BUILD_S + o.messages * MESSAGE_S + timed + 4 * o.memory_processes * PROCESS_S

    @contextmanager
    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> Iterator[OpenCpp]:
        del sessions
        programs = build.build(work / "cpp")
        write_json(results.path / VERSIONS, build.versions())
        yield OpenCpp(work / "cpp", programs)

    def observations(self, cell: Cell, done: Sequence[Kept]) -> CppObservations:
        return CppObservations(cell, [one.directory for one in done])

    def series(self, cell: Cell) -> str:
        return _options(cell).format

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        del results
        path = directory / VERSIONS
        if not path.is_file():
            return []
        lines = [f"- {name}: {said}" for name, said in json.loads(path.read_text()).items()]
        return ["## Compilers\n\n" + "\n".join(lines)]


def _options(cell: Cell) -> CppOptions:
    assert isinstance(cell.options, CppOptions)
    return cell.options


class OpenCpp:
    """The built driver, and where its files lie."""

    def __init__(self, folder: Path, programs: build.Programs) -> None:
        self._folder = folder
        self._programs = programs

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Measure both formats on the corpus of a session."""
        del tick
        options = _options(session.cells[0])
        try:
            records = driver.write_records(
                self._folder, options.messages, options.timed_messages, options.seed
            )
            found = driver.sizes_and_times(
                self._programs, records, options.calls, options.samples, options.seed
            )
            for task in session.tasks:
                name = _options(task.cell).format
                peaks = driver.peaks_kib(self._programs, records, name, options.memory_processes)
                directory = results.begin(task)
                _write(directory, records, found[name], peaks)
                yield Outcome(task, CppObservations(task.cell, [directory]).figures())
        except CalledProcessError as error:
            for task in session.tasks:
                yield Outcome(task, {}, f"the C++ driver: {str(error.stderr).strip()[:200]}")


def _write(
    directory: Path, records: driver.Records, measured: driver.Measured, peaks: Mapping[str, Sequence[int]]
) -> None:
    sizes = {"variant": records.variants, "payload_bytes": pa.array(measured.sizes, pa.int32())}
    pq.write_table(pa.table(sizes), directory / "sizes.parquet")
    rows = [
        (records.variants[message], message, operation, us)
        for operation, times in measured.times.items()
        for message, us in zip(records.timed, times, strict=True)
    ]
    variants, messages, operations, times = zip(*rows, strict=True)
    table = {
        "variant": list(variants),
        "message": pa.array(messages, pa.int32()),
        "operation": list(operations),
        "time_us": pa.array(times, pa.float64()),
    }
    pq.write_table(pa.table(table), directory / "times.parquet")
    each = [(way, kib) for way, found in peaks.items() for kib in found]
    memory = {"direction": [way for way, _ in each], "peak_kib": pa.array([k for _, k in each], pa.int32())}
    pq.write_table(pa.table(memory), directory / "memory.parquet")
