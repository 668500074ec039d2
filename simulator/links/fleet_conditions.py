"""Conditions of many vehicles in columns: a large fleet's second is a few arrays, and not a dict of thousands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.links.base import Conditions, Pair


class FleetConditions(Mapping[int, Pair]):
    """Conditions of a fleet in columns: vehicles of the same conditions share a pair.

    Args:
        vehicles: their numbers, int64, each once.
        places: of each vehicle the place of its pair in `pairs`, int64.
        pairs: conditions of uplink and downlink; some may be nobody's.
    """

    def __init__(
        self, vehicles: npt.NDArray[np.int64], places: npt.NDArray[np.int64], pairs: Sequence[Pair]
    ) -> None:
        self.vehicles, self.places, self.pairs = vehicles, places, pairs

    @classmethod
    def of(cls, conditions: Conditions) -> FleetConditions:
        """Return conditions in columns, themselves where they are."""
        if isinstance(conditions, cls):
            return conditions
        places = np.arange(len(conditions), dtype=np.int64)
        return cls(np.fromiter(conditions, np.int64, len(conditions)), places, list(conditions.values()))

    @cached_property
    def used(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The places that somebody has; of each the first row that has it; of each row the index of its own."""
        return np.unique(self.places, return_index=True, return_inverse=True)

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {vehicle: row for row, vehicle in enumerate(self.vehicles.tolist())}

    def __getitem__(self, vehicle: int) -> Pair:
        return self.pairs[int(self.places[self._rows[vehicle]])]

    def __iter__(self) -> Iterator[int]:
        return iter(self.vehicles.tolist())

    def __len__(self) -> int:
        return len(self.vehicles)
