"""Intervals of a whole run's figures from the ledgers of its repetitions, the vehicle being the unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivsim.runs.checksums import check
from ivsim.study.messages import Messages, keys_of, quantile_of
from ivsim.study.results import CellObservations
from ivsim.study.sealed import read_table
from ivsim.study.statistics import Interval
from ledger.metrics import LATENCIES

Integers = npt.NDArray[np.int64]


class LedgerObservations(CellObservations):
    """The rows of the ledgers in some run directories, one a message due."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._ledgers = [directory / "ledger.parquet" for directory in directories]

    @cached_property
    def _window(self) -> npt.NDArray[np.bool_]:
        return np.concatenate(
            [np.asarray(_read(path, ["in_window"])["in_window"], np.bool_) for path in self._ledgers]
        )

    @cached_property
    def _named(self) -> tuple[Integers, int]:
        """Return the keys of the rows in the window, and how many vehicles there are.

        A message is named by when it was due since the first one of its run: it is the same in all runs of a seed.
        """
        tables = [_read(path, ["vehicle_id", "due_at_ns"]) for path in self._ledgers]
        names = np.concatenate([np.asarray(table["vehicle_id"]).astype(str) for table in tables])
        vehicles, vehicle = np.unique(names, return_inverse=True)
        of = np.split(vehicle.astype(np.int64), np.cumsum([table.num_rows for table in tables])[:-1])
        due = [np.asarray(table["due_at_ns"]).astype(np.int64) for table in tables]
        keys = [
            keys_of(
                number, one, np.rint((at - at.min(initial=at[0] if at.size else 0)) / 1e6).astype(np.int64)
            )
            for number, (one, at) in enumerate(zip(of, due, strict=True))
        ]
        return np.concatenate(keys)[self._window], vehicles.size

    def _messages(self, column: str, of: Callable[[Any], Any]) -> Messages:
        """Return what `of` makes of a column of the rows in the window; missing values of a number are NaN."""
        parts = [_read(path, [column]).column(column).to_numpy() for path in self._ledgers]
        keys, vehicles = self._named
        return Messages(of(np.concatenate(parts)[self._window]), keys, len(self._ledgers), vehicles)

    def messages(self, metric: str) -> Messages | None:
        found = quantile_of(metric)
        if found is None or found[0] not in LATENCIES or not any(path.exists() for path in self._ledgers):
            return None
        return self._messages(LATENCIES[found[0]][0], lambda column: column.astype(np.float64) / 1e6)

    def interval(self, metric: str) -> Interval | None:
        if metric == "delivery_ratio" and any(path.exists() for path in self._ledgers):
            fates = self._messages("fate", lambda column: (column == "delivered").astype(np.float64))
            return fates.clusters().share()
        found, times = quantile_of(metric), self.messages(metric)
        return None if found is None or times is None else times.clusters().quantile(found[1])


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    """Return columns of a ledger; Refusal where it is not as its run wrote it."""
    if path.is_file():
        check(path.parent, [path.name])
    return read_table(path, columns)
