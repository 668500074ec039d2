"""What the study's cells are called, and one repetition's latencies as claims need them, from its table of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ivsim.papers import parts
from ivsim.papers.parts import Figures
from ivsim.study.cells import Kept
from ivsim.study.engines.pipe.session import SAMPLES
from ivsim.study.results import CellResult

Floats = npt.NDArray[np.float64]

# Counts of a batch at 100 records/s and partition, by what closes it (the paper's stages), and its age.
COUNTS: Final = (1, 2, 4, 7, 10, 11, 15, 30)
FILLED: Final = (2, 4, 7, 10)
AGED: Final = (11, 15, 30)
WAIT_MS: Final = 100.0
# Records a second of all four gateways -> of one, which has a partition of its own.
GATEWAYS: Final = 4
RATE: Final = 100.0
HINGE_RATES: Final = (50.0, 200.0)
HINGE_COUNTS: Final = (1, 3, 10, 20, 40)
LIMIT_MS: Final = 35.0
FULL_COUNTS: Final = (1, 2, 4, 7, 10, 30, 100)
LOSSES: Final = (0.0, 0.02, 0.05, 0.08, 0.15, 0.25)
LOSS_COUNTS: Final = (1, 3, 10)
UNACKNOWLEDGED: Final = (0.15, 0.25)
POLICIES: Final = ("reactive", "pareto", "deadline", "timely")
FIXED_COUNTS: Final = (1, 3, 10, 30)
MEAN, LOST, SPEED, TIMELY = "latency_mean_ms", "undelivered_ratio", "records_per_s", "timely_per_s"


class Latencies(NamedTuple):
    """One repetition of a cell: what was consumed of the records due after the warm-up, in ms.

    Attributes:
        latency: from due to the return of the consumer's call (L_K).
        to_partition: from due until the record was in its partition (l1), of those that were answered too.
        from_partition: from there to the consumer (l2), of the same ones.
    """

    latency: Floats
    to_partition: Floats
    from_partition: Floats


def latencies_of(kept: Kept) -> Latencies:
    """Read one repetition's records.

    Where a record was in its partition is not stamped: its timestamp carries its number. It was there half a round trip
    before its producer had the answer, by the round trip that the link was asked for.
    """
    options = kept.task.cell.options
    table = pq.read_table(kept.directory / SAMPLES)
    due, answered, received = (
        table[name].fill_null(0).to_numpy() for name in ("due_at_ns", "acknowledged_at_ns", "received_at_ns")
    )
    warm = (due >= due.min() + options.warmup_s * 1e9) & (received > 0)
    both = warm & (answered > 0)
    there = answered - float(options.rtt) / 2 * 1e6
    return Latencies((received - due)[warm] / 1e6, (there - due)[both] / 1e6, (received - there)[both] / 1e6)


class Cells(parts.Cells):
    """The cells of both studies.

    Args:
        found: all of them.
        read: gives the latencies of a repetition.
    """

    def __init__(self, found: Sequence[CellResult], read: Callable[[Kept], Latencies] = latencies_of) -> None:
        super().__init__(found)
        self._read = read
        self._known: dict[tuple[str, int], Latencies] = {}
        self._made: dict[tuple[str, int], Any] = {}

    def runs(self, sweep: str, **values: Any) -> dict[int, Latencies]:
        """Return the latencies of each repetition of a cell that has some."""
        found = self.get(sweep, **values)
        if found is None:
            return {}
        self.looked_at(len(found.valid))
        runs = {kept.task.repetition: self._latencies(kept) for kept in found.valid}
        return {repetition: run for repetition, run in runs.items() if run.latency.size}

    def _latencies(self, kept: Kept) -> Latencies:
        key = (kept.task.cell.name, kept.task.repetition)
        if key not in self._known:
            self._known[key] = self._read(kept)
        return self._known[key]

    def remembered(self, key: tuple[str, int], make: Callable[[], Any]) -> Any:
        """Return what was made under a key before, made now where nothing was: fits that several parts need."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def count_runs(self, count: int) -> dict[int, Latencies]:
        """Return the latencies at a count, at 100 records/s and partition."""
        return self.runs("latency", batch_messages=count)

    def long_runs(self, count: int) -> dict[int, Latencies]:
        """Return the same of runs with many times as many records, which differ less by chance."""
        return self.runs("long", batch_messages=count)

    def sync_runs(self) -> dict[int, Latencies]:
        """Return the latencies of synchronous sending: one record on its way at a time."""
        return self.runs("sync", batch_messages=1, in_flight=1)

    def hinge_means(self, rate: float) -> dict[int, Figures]:
        """Return the mean latency by count, at a rate of a partition."""
        if rate == RATE:
            return {count: self.figures(MEAN, "latency", batch_messages=count) for count in COUNTS}
        asked = rate * GATEWAYS
        return {
            count: self.figures(MEAN, "hinge", rate=asked, batch_messages=count) for count in HINGE_COUNTS
        }

    def lost(self, loss: float, count: int, acks: str = "1") -> Figures:
        """Return the share that no consumer was given, at a loss of the link."""
        if loss == 0:
            return self.figures(LOST, "lossless", batch_messages=count) if acks == "1" else {}
        return self.figures(LOST, "loss", loss=loss, batch_messages=count, acks=acks)

    def speeds(self) -> dict[int, Figures]:
        """Return records/s at full load, by count."""
        return {count: self.figures(SPEED, "throughput", batch_messages=count) for count in FULL_COUNTS}

    def policy(self, metric: str, policy: str) -> Figures:
        """Return a figure of a policy on the changing link."""
        return self.figures(metric, "policies", batching=policy)

    def fixed(self, metric: str, count: int) -> Figures:
        """Return a figure of a fixed count on the changing link."""
        return self.figures(metric, "fixed", batch_messages=count)


def means(runs: Mapping[int, Latencies], of: Callable[[Latencies], Floats]) -> Figures:
    """Return a mean of each repetition that has it."""
    return {repetition: float(of(run).mean()) for repetition, run in runs.items() if of(run).size}


def deviations(runs: Mapping[int, Latencies]) -> Figures:
    """Return the standard deviation of the latency of each repetition."""
    return {repetition: float(run.latency.std()) for repetition, run in runs.items()}


def slopes(by_place: Mapping[float, Figures], scale: Callable[[float], float] = float) -> list[float]:
    """Return the least-squares slope over the scaled places of each repetition that has them all."""
    both = sorted(set.intersection(*(set(one) for one in by_place.values()))) if by_place else []
    places = [scale(place) for place in by_place]
    return [
        float(np.polyfit(places, [one[repetition] for one in by_place.values()], 1)[0]) for repetition in both
    ]
