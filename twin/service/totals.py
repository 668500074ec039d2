"""Sums and ages over the fleet, kept up with each change: nobody has to walk the fleet to know them."""

from __future__ import annotations

from typing import NamedTuple

from sortedcontainers import SortedList

from schemas.quantiles import rank_index
from twin.service.record import State


class FleetFigures(NamedTuple):
    """The fleet at one instant; ages in ns by nearest rank, None of no vehicle."""

    vehicles: int
    stale_vehicles: int
    ages_ns: dict[str, int | None]
    messages: int
    duplicates: int
    gaps: int
    given_up: int


class Totals:
    """Of the states that were put in and not taken out again; a change costs the same in any fleet.

    Ages move with the clock, the stamps that they are counted from do not. So the stamps are kept in order: the age
    of rank k belongs to the stamp of rank n - k, and all stale twins stand before one place.
    """

    def __init__(self) -> None:
        self._fresh_at_ns: SortedList = SortedList()
        self._messages = self._duplicates = self._gaps = self._given_up = 0

    def replace(self, old: State | None, new: State | None) -> None:
        """Take `old` out and put `new` in; None for a vehicle that comes or goes."""
        for state, sign in ((old, -1), (new, 1)):
            if state is not None:
                self._messages += sign * state.messages
                self._duplicates += sign * state.duplicates
                self._gaps += sign * state.gaps
                self._given_up += sign * state.given_up
        gone = None if old is None else old.fresh_at_ns
        come = None if new is None else new.fresh_at_ns
        if gone == come:
            return
        if gone is not None:
            self._fresh_at_ns.remove(gone)
        if come is not None:
            self._fresh_at_ns.add(come)

    def at(self, now_ns: int, stale_after_ns: int) -> FleetFigures:
        """Return the figures of this instant."""
        fresh = self._fresh_at_ns
        ages = {
            name: _age(fresh, now_ns, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        }
        stale = fresh.bisect_left(now_ns - stale_after_ns)
        return FleetFigures(
            len(fresh), stale, ages, self._messages, self._duplicates, self._gaps, self._given_up
        )


def _age(fresh: SortedList, now_ns: int, share: float) -> int | None:
    """Return a quantile of the ages by nearest rank; the oldest stamp is the first."""
    if not fresh:
        return None
    return max(0, now_ns - int(fresh[-1 - rank_index(len(fresh), share)]))
