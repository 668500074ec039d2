"""The one definition of a quantile: the nearest rank (type 1 of Hyndman and Fan 1996), so a value that was measured."""

from __future__ import annotations

import math
from typing import Any, Protocol


class Ordered(Protocol):
    """Sorted whole numbers: a list, or an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def rank_index(count: int, share: float) -> int:
    """Return where, among `count` sorted values, the smallest stands with at least `share` of all at or below it."""
    return max(0, math.ceil(share * count) - 1)


def nearest_rank_ms(ordered_ns: Ordered, share: float) -> float | None:
    """Return that value of sorted ns, in ms; None without values.

    None, too, for a value below 0: two clocks are further apart than the time was long, which is then not known.
    """
    if not len(ordered_ns):
        return None
    value_ns = int(ordered_ns[rank_index(len(ordered_ns), share)])
    return value_ns / 1e6 if value_ns >= 0 else None
