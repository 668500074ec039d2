"""Intervals of a whole run's figures from the ledgers of its repetitions, the vehicle being the unit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivsim.runs.checksums import check
from ivsim.study.clusters import Clusters, batches
from ivsim.study.results import CellObservations
from ivsim.study.sealed import read_table
from ivsim.study.statistics import Interval
from ledger.metrics import LATENCIES, QUANTILES

Integers = npt.NDArray[np.int64]


class LedgerObservations(CellObservations):
    """The rows of the ledgers in some run directories, one a message due."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._ledgers = [directory / "ledger.parquet" for directory in directories]

    @cached_property
    def _units(self) -> tuple[Integers, Integers, int, npt.NDArray[np.bool_]]:
        """Return repetition and vehicle of each row in the window, how many vehicles, and which rows these are."""
        numbers: dict[str, int] = {}
        vehicles, counts, inside = [], [], []
        for path in self._ledgers:
            table = _read(path, ["vehicle_id", "in_window"])
            names = pa.chunked_array(table.column("vehicle_id")).combine_chunks().dictionary_encode()
            of = [numbers.setdefault(name, len(numbers)) for name in names.dictionary.to_pylist()]
            window = np.asarray(table.column("in_window"), np.bool_)
            vehicles.append(np.array(of, np.int64)[np.asarray(names.indices)][window])
            counts.append(int(window.sum()))
            inside.append(window)
        repetition = np.repeat(np.arange(len(self._ledgers)), counts)
        return repetition, np.concatenate(vehicles), len(numbers), np.concatenate(inside)

    def _column(self, name: str) -> Any:
        """Return a column of the rows in the window; missing values of a number are NaN."""
        parts = [_read(path, [name]).column(name).to_numpy() for path in self._ledgers]
        return np.concatenate(parts)[self._units[3]]

    def _clusters(self, values: npt.NDArray[np.float64]) -> Clusters:
        """Return the values that are known, by vehicle; of one vehicle, in batches along time."""
        known = np.isfinite(values)
        repetition, vehicle, vehicles, _ = self._units
        if vehicles == 1:
            order = np.lexsort((self._column("due_at_ns"), repetition))
            kept = order[known[order]]
            return batches(values[kept], repetition[kept], len(self._ledgers))
        return Clusters(values[known], repetition[known], vehicle[known], len(self._ledgers), vehicles)

    def interval(self, metric: str) -> Interval | None:
        if not self._ledgers or not any(path.exists() for path in self._ledgers):
            return None
        if metric == "delivery_ratio":
            return self._clusters((self._column("fate") == "delivered").astype(np.float64)).share()
        for name, (column, _, _) in LATENCIES.items():
            for quantile, share in QUANTILES.items():
                # The largest of a sample has no interval worth the name.
                if metric == f"{name}_{quantile}_ms" and quantile != "max":
                    return self._clusters(self._column(column).astype(np.float64) / 1e6).quantile(share)
        return None


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    """Return columns of a ledger; Refusal where it is not as its run wrote it."""
    if path.is_file():
        check(path.parent, [path.name])
    return read_table(path, columns)
