"""The messages of a cell by name, and the differences between those that two cells of one seed have in common.

Runs of one seed emit the same messages over the same seconds of the trace. What the link did to a message is in both runs and
drops out of its difference; what is left is what the cells differ in, and what runs differ in by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ivsim.study.clusters import Clusters, batches
from ivsim.study.statistics import Comparison
from ledger.metrics import QUANTILES

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_REPETITION_BIT: Final = 50
_VEHICLE_BIT: Final = 30
_VEHICLES: Final = (1 << (_REPETITION_BIT - _VEHICLE_BIT)) - 1
# With a smaller share of common messages, of the cell that has more, cells are compared as independent samples.
PAIRED_SHARE: Final = 0.9
MEDIAN: Final = QUANTILES["p50"]


def keys_of(repetition: int | Integers, vehicle: Integers, due_ms: Integers) -> Integers:
    """Return the names of messages: equal ones, in cells of one seed, are alike in content and stretch of trace.

    Args:
        repetition: from 0.
        vehicle: of each message, below 2**20.
        due_ms: when each message was due, since a moment that is the same in all runs of a seed; below 2**30 ms. The nth message of
            a vehicle is no name: where it sends more often, that is another second of the trace.
    """
    return (repetition << _REPETITION_BIT) | (vehicle << _VEHICLE_BIT) | due_ms


@dataclass(frozen=True, eq=False)
class Messages:
    """One value for each message of a cell.

    Attributes:
        values: NaN where a message has none, such as the latency of one that was never received.
        keys: the message's name, see `keys_of`.
        repetitions: of the cell.
        vehicles: of each repetition.
    """

    values: Floats
    keys: Integers
    repetitions: int
    vehicles: int

    def clusters(self) -> Clusters:
        """Return the values that are known, by vehicle; those of one vehicle in batches of messages in a row."""
        known = np.isfinite(self.values)
        values, keys = self.values[known], self.keys[known]
        repetition = keys >> _REPETITION_BIT
        if self.vehicles == 1:
            order = np.argsort(keys, kind="stable")
            return batches(values[order], repetition[order], self.repetitions)
        return Clusters(
            values, repetition, (keys >> _VEHICLE_BIT) & _VEHICLES, self.repetitions, self.vehicles
        )


def in_common(first: Messages, second: Messages) -> tuple[Messages, Messages] | None:
    """Return the messages that have a value in both cells, as each has them, in one order.

    None where PAIRED_SHARE of their names are not in common, or fewer than two have both.
    """
    common, here, there = np.intersect1d(first.keys, second.keys, return_indices=True)
    a, b = first.values[here], second.values[there]
    known = np.isfinite(a) & np.isfinite(b)
    if common.size < PAIRED_SHARE * max(first.keys.size, second.keys.size) or known.sum() < 2:
        return None
    shape = max(first.repetitions, second.repetitions), max(first.vehicles, second.vehicles)
    return Messages(a[known], common[known], *shape), Messages(b[known], common[known], *shape)


def paired(first: Messages, second: Messages) -> Clusters | None:
    """Return second minus first of each message that has both; None where `in_common` is."""
    found = in_common(first, second)
    return None if found is None else replace(found[0], values=found[1].values - found[0].values).clusters()


class HasMessages(Protocol):
    """What knows the messages behind a metric, as `CellObservations` does."""

    def messages(self, metric: str) -> Messages | None: ...


def by_message(metric: str, first: HasMessages, second: HasMessages) -> Comparison | None:
    """Return the mean of the messages' differences, second minus first; their median where the metric is a median.

    None where the metric is neither, or there is no interval. The median of differences is no difference of medians: it says
    what one message gains.
    """
    quantile = quantile_of(metric)
    if quantile is not None and quantile[1] != MEDIAN:
        return None
    one, two = first.messages(metric), second.messages(metric)
    apart = None if one is None or two is None else paired(one, two)
    if apart is None:
        return None
    return apart.mean_comparison() if quantile is None else apart.median_comparison()


def quantile_of(metric: str) -> tuple[str, float] | None:
    """Return the latency and the share of a metric that is a quantile; None for another, and for a maximum.

    The largest value of a sample has no interval.
    """
    for quantile, share in QUANTILES.items():
        if quantile != "max" and metric.endswith(ending := f"_{quantile}_ms"):
            return metric.removesuffix(ending), share
    return None
