"""The measured messages of a study's echo cells, read back from disk; repetitions are pooled. It judges nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ivsim.study.figures_of_cells import EchoCell, WireCell, measured, wire_of
from ivsim.study.model import Cell, mode_of
from ivsim.study.statistics import (
    Comparison,
    Interval,
    compare_means,
    compare_pairs,
    mean_interval,
    ratio_interval,
)
from ivsim.study.store import DONE, Kept

Floats = npt.NDArray[np.float64]
# Below this share of common messages two cells are compared as independent samples.
PAIRED_SHARE: Final = 0.5


@dataclass
class Measured:
    """One cell with all its repetitions that were finished.

    Attributes:
        bare: leave TCP segments that only acknowledge out of the overhead.
        since_sent: count latency from when the client library got the message, not from when it was due.
    """

    cell: Cell
    repetitions: list[Kept] = field(default_factory=list)
    bare: bool = False
    since_sent: bool = False

    @property
    def mode(self) -> str:
        return mode_of(self.cell)

    @cached_property
    def _read(self) -> list[tuple[EchoCell, WireCell]]:
        return [_read(self.cell, kept.directory) for kept in self.repetitions]

    @cached_property
    def keys(self) -> npt.NDArray[np.int64]:
        """Name each message by repetition, vehicle and sequence: equal names are alike in content and road."""
        parts = [(r << 50) | (m.vehicle << 30) | m.sequence for r, (m, _) in enumerate(self._read)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @cached_property
    def latency_ms(self) -> Floats:
        """Received minus due (or sent), of every message due; NaN for one never received."""
        return _join([m.delay_ms if self.since_sent else m.latency_ms for m, _ in self._read])

    @cached_property
    def delay_ms(self) -> Floats:
        """Received minus emitted, likewise."""
        return _join([m.delay_ms for m, _ in self._read])

    @cached_property
    def overhead_bytes(self) -> Floats:
        """Overhead of every message per crossing of the link."""
        whole = _join([wire.overhead_bytes for _, wire in self._read])
        return (whole - _join([wire.pure_bytes for _, wire in self._read]) if self.bare else whole) / 2

    @property
    def received_ms(self) -> Floats:
        return self.latency_ms[np.isfinite(self.latency_ms)]

    def received_of(self, vehicles: int) -> Floats:
        """Return the latencies of the first so many vehicles: the same roads in every cell of a study."""
        values = self.latency_ms[((self.keys >> 30) & 0xFFFFF) < vehicles]
        return values[np.isfinite(values)]

    @property
    def due(self) -> int:
        return int(self.latency_ms.size)

    @property
    def missing(self) -> int:
        """Return how many messages were never received."""
        return int(np.isnan(self.latency_ms).sum())

    @property
    def overtaken(self) -> int:
        """Return how many messages never received were followed by a later one of their vehicle that was.

        On TCP, which keeps the order, the others may still be on their way when the measurement ends.
        """
        count = 0
        for messages, _ in self._read:
            last = np.zeros(messages.vehicle.max(initial=0) + 1, np.int64)
            np.maximum.at(last, messages.vehicle[messages.received], messages.sequence[messages.received])
            count += int((~messages.received & (messages.sequence < last[messages.vehicle])).sum())
        return count

    def latency(self) -> Interval:
        return mean_interval(self.received_ms)

    def unsuccessful(self) -> Interval:
        return ratio_interval(self.missing, self.due)

    def overhead(self) -> Interval:
        return mean_interval(self.overhead_bytes)


def _join(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)


def _read(cell: Cell, directory: Path) -> tuple[EchoCell, WireCell]:
    run = json.loads((directory / "run.json").read_text())
    options, first = cell.options, run["first_vehicle"]
    from_ns = run["start_at_ns"] + round(run["warmup_s"] * 1e9)
    messages = measured(pq.read_table(directory / "emissions.parquet"), first, from_ns, run["end_at_ns"])
    table = pq.read_table(directory / "wire_messages.parquet")
    vehicles = range(first, first + options.vehicles)
    return messages, wire_of(table, vehicles, (from_ns, run["end_at_ns"]), messages)


def measured_cells(kept: Sequence[Kept]) -> list[Measured]:
    """Return the echo cells of which at least one repetition is done, in the study's order."""
    found: dict[str, Measured] = {}
    for one in kept:
        if one.state == DONE and one.task.cell.options.topology == "echo":
            cell = one.task.cell
            found.setdefault(cell.name, Measured(cell)).repetitions.append(one)
    return list(found.values())


def compare_latency(first: Measured, second: Measured) -> Comparison | None:
    """Return second minus first by Student's paired test over messages both received, else by Welch's.

    Cells of one study send the same messages at the same offsets over the same seconds of the same road, so
    what the road did to a message is in both and drops out.
    """
    common, here, there = np.intersect1d(first.keys, second.keys, return_indices=True)
    a, b = first.latency_ms[here], second.latency_ms[there]
    both = np.isfinite(a) & np.isfinite(b)
    if common.size < PAIRED_SHARE * min(first.due, second.due) or both.sum() < 2:
        return compare_means(first.received_ms, second.received_ms)
    return compare_pairs(a[both], b[both])


def compare_overhead(first: Measured, second: Measured) -> Comparison | None:
    """Return second minus first by Welch's test."""
    return compare_means(first.overhead_bytes, second.overhead_bytes)


class Evidence:
    """All measured cells of one study, found by part, mode and the other axes; and the pings of its links."""

    def __init__(self, cells: Sequence[Measured], ping_ms: Sequence[float] = ()) -> None:
        self.ping_ms = ping_ms
        self._cells = {(c.cell.part, c.mode, self._others(c.cell)): c for c in cells}

    @staticmethod
    def _others(cell: Cell) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((axis, str(value)) for axis, value in cell.values.items() if axis != "mode"))

    def get(self, part: str, mode: str, **values: Any) -> Measured | None:
        """Return the cell, None where it was not measured."""
        wanted = tuple(sorted((axis, str(value)) for axis, value in values.items()))
        return self._cells.get((part, mode, wanted))
