"""The measured messages of a study's echo cells, read back from disk; repetitions are pooled. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ivsim.study.cells import Cell, Kept
from ivsim.study.clusters import Clusters, difference_of_means, ratio_of_means
from ivsim.study.engines.echo.metrics import EchoCell, WireCell, measured, wire_of
from ivsim.study.engines.run_axes import mode_of
from ivsim.study.messages import Messages, by_message, in_common, keys_of, quantile_of
from ivsim.study.results import CellObservations
from ivsim.study.sealed import read_sealed, read_table, whole
from ivsim.study.statistics import Comparison, Interval
from schemas.errors import Refusal

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass
class EchoObservations(CellObservations):
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
        """Name each message by repetition, vehicle and when it was due: equal names are alike in content and trace."""
        parts = [keys_of(r, m.vehicle, m.due_ms) for r, (m, _) in enumerate(self._read)]
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

    def _of_due(self, values: Floats, keys: Integers | None = None) -> Messages:
        """Return values of messages due, one a message; of `keys`, or all."""
        keys = self.keys if keys is None else keys
        return Messages(values, keys, len(self.repetitions), self.cell.options.vehicles)

    def _fields(self, name: str) -> npt.NDArray[Any]:
        return _join([getattr(messages, name) for messages, _ in self._read])

    @property
    def latency_messages(self) -> Messages:
        """Return the latency of every message due; NaN for one never received."""
        return self._of_due(self.latency_ms)

    @property
    def latencies(self) -> Clusters:
        """Return the latencies of the messages received, by vehicle."""
        return self.latency_messages.clusters()

    @property
    def delays(self) -> Clusters:
        """Return received minus emitted of the messages received, by vehicle."""
        return self._of_due(self.delay_ms).clusters()

    @property
    def losses(self) -> Clusters:
        """Return 1 for a message due that was never received, else 0, by vehicle."""
        return self._of_due(np.isnan(self.latency_ms).astype(np.float64)).clusters()

    @property
    def overheads(self) -> Clusters:
        """Return the overhead per crossing of the messages published, by vehicle."""
        keys = [
            keys_of(r, wire.vehicle, np.zeros_like(wire.vehicle)) for r, (_, wire) in enumerate(self._read)
        ]
        return self._of_due(self.overhead_bytes, _join(keys)).clusters()

    def latency(self) -> Interval:
        return self.latencies.mean()

    def unsuccessful(self) -> Interval:
        return self.losses.share()

    def overhead(self) -> Interval:
        return self.overheads.mean()

    def clusters(self, metric: str) -> Clusters | None:
        if metric == "latency_mean_ms":
            return self.latencies
        if metric == "crossing_overhead_bytes":
            return self.overheads
        if metric == "message_overhead_bytes":
            return replace(self.overheads, values=self.overhead_bytes * 2)
        if metric == "payload_bytes_mean":
            sizes = np.where(self._fields("emitted"), self._fields("payload_bytes"), np.nan)
            return self._of_due(sizes).clusters()
        return None

    def messages(self, metric: str) -> Messages | None:
        if metric == "latency_mean_ms":
            return self.latency_messages
        found = quantile_of(metric)
        return None if found is None else self._times(found[0])

    def _shares(self, metric: str) -> Clusters | None:
        if metric == "unsuccessful_ratio":
            return self.losses
        return (
            self._of_due(self._fields("delivered").astype(np.float64)).clusters()
            if metric == "delivery_ratio"
            else None
        )

    def _times(self, name: str) -> Messages | None:
        if name == "latency":
            return self.latency_messages
        if name == "one_way_delay":
            return self._of_due(np.where(self._fields("delivered"), self._fields("delay_ms"), np.nan))
        if name == "acknowledgement_time":
            return self._of_due(self._fields("acknowledged_ms"))
        return None

    def interval(self, metric: str) -> Interval | None:
        if (means := self.clusters(metric)) is not None:
            return means.mean()
        if (shares := self._shares(metric)) is not None:
            return shares.share()
        found = quantile_of(metric)
        times = None if found is None else self._times(found[0])
        return None if found is None or times is None else times.clusters().quantile(found[1])


def _join(parts: Sequence[Any]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0)


def _read(cell: Cell, directory: Path) -> tuple[EchoCell, WireCell]:
    stamps = [(directory / name).stat().st_mtime_ns for name in _FILES if (directory / name).exists()]
    return _measured(directory, cell.options.vehicles, cell.options.loss_timeout_s, tuple(stamps))


_FILES: Final = ("run.json", "emissions.parquet", "wire_messages.parquet")


# A report asks for the same messages several times: from sent, from due, without pure acknowledgements.
@lru_cache(maxsize=2_048)
def _measured(
    directory: Path, vehicles: int, loss_timeout_s: float, _stamps: tuple[int, ...]
) -> tuple[EchoCell, WireCell]:
    run, emissions, wire = (directory / name for name in _FILES)
    about = read_sealed(run)
    try:
        first, to_ns = int(about["first_vehicle"]), int(about["end_at_ns"])
        from_ns = int(about["start_at_ns"]) + round(about["warmup_s"] * 1e9)
    except (KeyError, TypeError, ValueError) as error:
        raise Refusal(f"{run}: {error}: not as this ivsim wrote it") from None
    with whole(emissions):
        messages = measured(read_table(emissions), first, from_ns, to_ns, loss_timeout_s)
    with whole(wire):
        window = (from_ns, to_ns)
        return messages, wire_of(read_table(wire), range(first, first + vehicles), window, messages)


def compare_latency(first: EchoObservations, second: EchoObservations) -> Comparison | None:
    """Return second minus first, paired by message where both received it, the vehicle being the unit; else unpaired.

    Messages of a vehicle still depend on each other.
    """
    found = by_message("latency_mean_ms", first, second)
    return difference_of_means(first.latencies, second.latencies) if found is None else found


def compare_overhead(first: EchoObservations, second: EchoObservations) -> Comparison | None:
    """Return second minus first, vehicle j of one cell against vehicle j of the other."""
    return difference_of_means(first.overheads, second.overheads, same_units=True)


def latency_ratio(above: EchoObservations, below: EchoObservations) -> Interval:
    """Return the ratio of two mean latencies, of the messages that both received; else of all, by vehicle.

    What is lost is no longer in one mean alone, and the trace's slow seconds are in both.
    """
    every = above.latency_messages, below.latency_messages
    upper, lower = in_common(*every) or every
    return ratio_of_means(upper.clusters(), lower.clusters(), same_units=True)


def overhead_ratio(above: EchoObservations, below: EchoObservations) -> Interval:
    """Return the ratio of two mean overheads, likewise."""
    return ratio_of_means(above.overheads, below.overheads, same_units=True)


class Observations:
    """All measured cells of one study, found by sweep, mode and the other axes; and the pings of its links."""

    def __init__(self, cells: Sequence[EchoObservations], ping_ms: Sequence[float] = ()) -> None:
        self.ping_ms = ping_ms
        self._cells = {(c.cell.sweep, c.mode, self._others(c.cell)): c for c in cells}

    @staticmethod
    def _others(cell: Cell) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((axis, str(value)) for axis, value in cell.values.items() if axis != "mode"))

    def get(self, sweep: str, mode: str, **values: Any) -> EchoObservations | None:
        """Return the cell, None where it was not measured."""
        wanted = tuple(sorted((axis, str(value)) for axis, value in values.items()))
        return self._cells.get((sweep, mode, wanted))
