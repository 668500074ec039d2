"""The sizes, times and peaks behind a codec_cpp cell's figures, read back from disk; repetitions are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivsim.study.cells import Cell
from ivsim.study.clusters import Clusters
from ivsim.study.corpus import PER_VEHICLE, SIZE, STUB, time_metric
from ivsim.study.engines.codec_cpp.driver import DIRECTIONS, OPERATIONS
from ivsim.study.results import CellObservations
from ivsim.study.sealed import read_table
from ivsim.study.statistics import Interval

Floats = npt.NDArray[np.float64]
PROCESS: Final = "process"


def memory_metric(direction: str) -> str:
    """Return the metric of a direction's memory."""
    return f"{direction}_peak_mib"


class CppObservations(CellObservations):
    """Sizes and times by message, the vehicle being the unit; peaks by process."""

    def __init__(self, cell: Cell, directories: Sequence[Path]) -> None:
        self.cell = cell
        self._directories = list(directories)

    def clusters(self, metric: str) -> Clusters | None:
        if not self._directories:
            return None
        if metric == SIZE:
            tables = self._read("sizes.parquet", "variant", "payload_bytes")
            places = [np.arange(table.num_rows) // PER_VEHICLE for table in tables]
            return clustered([_floats(table, "payload_bytes") for table in tables], places)
        for operation in OPERATIONS:
            if metric == time_metric(operation):
                tables = [
                    table.filter(
                        pc.and_(
                            pc.equal(table.column("operation"), operation),
                            pc.not_equal(table.column("variant"), STUB),
                        )
                    )
                    for table in self._read("times.parquet", "variant", "operation", "time_us")
                ]
                return clustered([_floats(table, "time_us") for table in tables])
        for direction in DIRECTIONS:
            if metric == memory_metric(direction):
                tables = [
                    table.filter(pc.equal(table.column("direction"), direction))
                    for table in self._read("memory.parquet", "direction", "peak_kib")
                ]
                return clustered([_floats(table, "peak_kib") / 1024 for table in tables], kind=PROCESS)
        return None

    def interval(self, metric: str) -> Interval | None:
        found = self.clusters(metric)
        return None if found is None else found.mean()

    def figures(self) -> dict[str, Any]:
        """Return the figure of every metric."""
        names = (
            SIZE,
            *(time_metric(name) for name in OPERATIONS),
            *(memory_metric(way) for way in DIRECTIONS),
        )
        found = {name: self.interval(name) for name in names}
        return {name: None if interval is None else interval.estimate for name, interval in found.items()}

    def _read(self, name: str, *columns: str) -> list[pa.Table]:
        return [read_table(directory / name, list(columns)) for directory in self._directories]


def _floats(table: pa.Table, column: str) -> Floats:
    return np.asarray(table.column(column)).astype(np.float64)


def clustered(
    values: Sequence[Floats], units: Sequence[npt.NDArray[np.int64]] | None = None, kind: str = "vehicle"
) -> Clusters:
    """Return values, an array a repetition, with their units; without units each value is one of its own."""
    places = [np.arange(found.size) for found in values] if units is None else list(units)
    most = max((int(place.max(initial=-1)) + 1 for place in places), default=0)
    return Clusters(
        np.concatenate(values),
        np.repeat(np.arange(len(values)), [found.size for found in values]),
        np.concatenate(places),
        len(values),
        most,
        kind,
    )
