"""The sizes and times behind a codec cell's figures, read back from disk; repetitions are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivsim.study.cells import Cell
from ivsim.study.clusters import BATCH, MIN_BATCH, MOST_BATCHES, REPETITION, VEHICLE, Clusters
from ivsim.study.corpus import SIZE, STUB, time_metric
from ivsim.study.results import CellObservations
from ivsim.study.sealed import read_table
from ivsim.study.statistics import Interval

Floats = npt.NDArray[np.float64]


class CodecObservations(CellObservations):
    """Sizes and times of one cell, by variant of the vehicle.

    The unit is the vehicle within its variant and repetition, as variants differ by design. Where a variant has one
    vehicle, or none (a record of the thesis), it is a batch of measurements in a row.
    """

    def __init__(self, cell: Cell, directories: Sequence[Path]) -> None:
        self.cell = cell
        self._directories = list(directories)

    def _read(self, name: str, column: str) -> list[pa.Table]:
        """Return the tables of the repetitions, in their order."""
        return [read_table(d / name, ["variant", "vehicle", column]) for d in self._directories]

    @cached_property
    def _sizes(self) -> list[pa.Table]:
        return self._read("sizes.parquet", "payload_bytes")

    @cached_property
    def _times(self) -> list[pa.Table]:
        tables = self._read("times.parquet", "time_us")
        found = []
        for directory, table in zip(self._directories, tables, strict=True):
            operations = read_table(directory / "times.parquet", ["operation"]).column("operation")
            found.append(table.append_column("operation", operations.cast(pa.string())))
        return found

    @cached_property
    def sizes(self) -> dict[str, Floats]:
        """Return payload lengths in bytes by variant."""
        return _split(pa.concat_tables(self._sizes), "payload_bytes") if self._sizes else {}

    @cached_property
    def times(self) -> dict[tuple[str, str], Floats]:
        """Return times in microseconds by variant and operation."""
        found = {}
        for operation in self._operations:
            for variant, values in _split(pa.concat_tables(self._of(operation)), "time_us").items():
                found[variant, operation] = values
        return found

    @cached_property
    def _operations(self) -> list[str]:
        return list(
            dict.fromkeys(str(o) for t in self._times for o in t.column("operation").unique().to_pylist())
        )

    def _of(self, operation: str) -> list[pa.Table]:
        return [table.filter(pc.equal(table.column("operation"), operation)) for table in self._times]

    def interval(self, metric: str) -> Interval | None:
        found = self.clusters(metric)
        return None if found is None else found.mean()

    def clusters(self, metric: str) -> Clusters | None:
        if metric == SIZE:
            return clustered(self._sizes, "payload_bytes") if self._sizes else None
        for operation in self._operations:
            if time_metric(operation) == metric:
                moving = [t.filter(pc.not_equal(_texts(t), STUB)) for t in self._of(operation)]
                return clustered(moving, "time_us") if all(t.num_rows for t in moving) else None
        return None

    def times_of(self, variant: str, operation: str) -> Clusters:
        """Return the times of one variant."""
        tables = [t.filter(pc.equal(_texts(t), variant)) for t in self._of(operation)]
        return clustered(tables, "time_us")


def _texts(table: pa.Table) -> pa.ChunkedArray:
    return table.column("variant").cast(pa.string())


def clustered(tables: Sequence[pa.Table], column: str) -> Clusters:
    """Return the values of a column, one table a repetition, each in the order of measuring, with their units."""
    values = [np.asarray(table.column(column)).astype(np.float64) for table in tables]
    variants = [np.asarray(_texts(table)) for table in tables]
    vehicles = [np.asarray(table.column("vehicle")).astype(np.int64) for table in tables]
    kinds = list(dict.fromkeys(str(v) for found in variants for v in np.unique(found)))
    # Vehicles of a variant in a repetition: as many in each, but for what a corpus draws.
    each = [
        [np.unique(vehicle[variant == kind], return_inverse=True) for kind in kinds]
        for variant, vehicle in zip(variants, vehicles, strict=True)
    ]
    alone = min(names.size for found in each for names, _ in found) < 2
    length = min(int((variant == kind).sum()) for variant in variants for kind in kinds)
    batch = max(1, min(MOST_BATCHES, length // MIN_BATCH))
    most = batch if alone else max(names.size for found in each for names, _ in found)
    unit = [np.empty(found.size, np.int64) for found in values]
    for r, found in enumerate(each):
        for k, (_, place) in enumerate(found):
            here = variants[r] == kinds[k]
            order = np.arange(here.sum()) * batch // max(1, int(here.sum()))
            unit[r][here] = k * most + (order if alone else place)
    strata = np.broadcast_to(np.arange(len(kinds) * most) // most, (len(tables), len(kinds) * most))
    kind = VEHICLE if not alone else BATCH if batch > 1 else REPETITION
    return Clusters(
        np.concatenate(values),
        np.repeat(np.arange(len(tables)), [found.size for found in values]),
        np.concatenate(unit),
        len(tables),
        len(kinds) * most,
        kind,
        strata,
    )


def _split(table: pa.Table, column: str) -> dict[str, Floats]:
    keys = np.asarray(_texts(table))
    values = np.asarray(table.column(column)).astype(np.float64)
    return {str(name): values[keys == name] for name in dict.fromkeys(keys)}
