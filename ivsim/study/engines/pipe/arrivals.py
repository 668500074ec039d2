"""When the records of one producer are due, as offsets from the start; pure, and the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# Place of a record -> nanoseconds after the start at which it is due.
Due = Callable[[int], float]


def due_of(settings: dict[str, Any], index: int) -> Due:
    """Return when the records of a producer are due, of a measurement with a rate.

    All producers together keep the rate. Even ones take turns; those of a Poisson process have a stream each.
    """
    producers, rate = settings["producers"], settings["rate"]
    if settings["arrivals"] == "poisson":
        return _poisson(settings, index).item
    # An offset that is not whole is a float, which is exact.
    first_ns, interval_ns = 1e9 * index / rate, 1e9 * producers / rate
    return lambda place: first_ns + place * interval_ns


def most_due(settings: dict[str, Any], index: int) -> int:
    """Return how many records a producer has at most."""
    if settings["arrivals"] == "poisson":
        return int(_poisson(settings, index).size)
    due: float = settings["rate"] * settings["duration_s"]
    producers: int = settings["producers"]
    return math.ceil(due / producers) + 2


def _poisson(settings: dict[str, Any], index: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return offsets in ns, the last of them beyond the end."""
    rng = np.random.default_rng([settings["seed"], index, 2])
    mean_ns = 1e9 * settings["producers"] / settings["rate"]
    end_ns = settings["duration_s"] * 1e9
    found = np.cumsum(rng.exponential(mean_ns, math.ceil(end_ns / mean_ns * 1.2) + 20))
    while found[-1] < end_ns:
        found = np.concatenate([found, found[-1] + np.cumsum(rng.exponential(mean_ns, found.size))])
    return found[: int(np.searchsorted(found, end_ns)) + 1]
