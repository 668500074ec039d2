"""A share of a fleet: the vehicles that one of several runs sends for, each on a machine of its own.

What a vehicle sends, and when, depends on the seed and its own number alone, so runs that know nothing of one another send
together what one run would. They are dealt out in turn, so that stages and traces, which follow the numbers, are mixed alike
in each.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from ivsim.option import shown

MAX_SHARES: Final = 1_000
_FORM: Final = re.compile(r"(?P<number>[0-9]{1,5})/(?P<count>[0-9]{1,5})")


class FleetShare(NamedTuple):
    """Share `number` (from 1) of `total`."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def vehicles(self, fleet: int) -> range:
        """Return the numbers of its vehicles, of a fleet of so many."""
        return range(self.number, fleet + 1, self.total)


def share_of(text: str, most: int = MAX_SHARES) -> FleetShare:
    """Return the share that is written as K/N; ValueError says what it has to be."""
    found = _FORM.fullmatch(text)
    if found is None or not 1 <= int(found["number"]) <= int(found["count"]) <= most:
        raise ValueError(f"{shown(text)}: write K/N with K from 1 to N, and N up to {most}")
    return FleetShare(int(found["number"]), int(found["count"]))


def instant_ns(text: str) -> int:
    """Return a date and time with its offset from UTC (ISO 8601) as Unix time; ValueError says what it has to be."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{shown(text)}: write date, time and offset from UTC, such as 2026-11-30T09:00:00Z")
    return int(found.replace(microsecond=0).timestamp()) * 1_000_000_000 + found.microsecond * 1_000
