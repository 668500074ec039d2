"""What became of every record that was produced, and how it came: pure, from what producers and consumers wrote.

Each record has exactly one fate, in this order: *consumed* (a consumer was given it), *refused* (library or platform
said no), *lost* (all partitions were read to their ends, and it was in none), *unknown* (they were not, or its
producer was still waiting for an answer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
CONSUMED, REFUSED, LOST, UNKNOWN = "consumed", "refused", "lost", "unknown"
FATES: Final = (CONSUMED, REFUSED, LOST, UNKNOWN)


@dataclass(frozen=True)
class Produced:
    """What producers wrote, a record each, ordered by number; 0 for a stamp that is not there."""

    number: Integers
    due_at_ns: Integers
    emitted_at_ns: Integers
    acknowledged_at_ns: Integers
    payload_bytes: Integers
    refused: Integers


@dataclass(frozen=True)
class Arrived:
    """What consumers wrote, an arrival each; those of one partition in their order."""

    number: Integers
    partition: Integers
    offset: Integers
    received_at_ns: Integers


@dataclass(frozen=True)
class Ledger:
    """One row a record, and the counts that go beside.

    Attributes:
        fate: index into FATES, of each record produced.
        received_at_ns: of its first arrival; 0 where there is none.
        partition: of its first arrival; -1 where there is none.
        duplicates: arrivals of a record after its first, by partition.
        reordered: first arrivals after one of the same producer with a greater number, by partition.
        foreign: arrivals of numbers that nobody produced.
    """

    produced: Produced
    fate: Integers
    received_at_ns: Integers
    partition: Integers
    arrivals: dict[int, int]
    duplicates: dict[int, int]
    reordered: dict[int, int]
    foreign: int

    def count(self, fate: str) -> int:
        return int((self.fate == FATES.index(fate)).sum())


def close(produced: Produced, arrived: Arrived, *, producers: int, complete: bool, answered: bool) -> Ledger:
    """Return the ledger.

    Args:
        produced: by all producers.
        arrived: at all consumers.
        producers: how many shared the numbers out.
        complete: whether consumers have read every partition to its end.
        answered: whether every record had an answer, or needed none, before those ends were asked for.
    """
    place = np.searchsorted(produced.number, arrived.number)
    inside = np.minimum(place, max(produced.number.size - 1, 0))
    known = (
        produced.number[inside] == arrived.number if produced.number.size else np.zeros(place.size, np.bool_)
    )
    place, partition, received = inside[known], arrived.partition[known], arrived.received_at_ns[known]
    # The first arrival counts; where two consumers got the same number, that is by their clock.
    order = np.lexsort((np.arange(place.size), received))
    _, firsts = np.unique(place[order], return_index=True)
    first = np.zeros(place.size, np.bool_)
    first[order[firsts]] = True
    received_at_ns = np.zeros(produced.number.size, np.int64)
    found_in = np.full(produced.number.size, -1, np.int64)
    received_at_ns[place[first]] = received[first]
    found_in[place[first]] = partition[first]
    consumed = found_in >= 0
    # An answer that is missing may stand for a record that the platform appended after its ends were asked for.
    waiting = (produced.acknowledged_at_ns == 0) & (produced.refused == 0)
    open_end = np.full(consumed.shape, not complete) | (waiting & (not answered))
    fate = np.select(
        [consumed, produced.refused > 0, open_end],
        [FATES.index(CONSUMED), FATES.index(REFUSED), FATES.index(UNKNOWN)],
        FATES.index(LOST),
    ).astype(np.int64)
    partitions = [int(one) for one in np.unique(partition)]
    return Ledger(
        produced,
        fate,
        received_at_ns,
        found_in,
        {one: int((partition == one).sum()) for one in partitions},
        {one: int(((partition == one) & ~first).sum()) for one in partitions},
        {
            one: _reordered(produced.number[place[first & (partition == one)]], producers)
            for one in partitions
        },
        int((~known).sum()),
    )


def _reordered(numbers: Integers, producers: int) -> int:
    """Count numbers that come after a greater one of their producer."""
    count = 0
    for producer in range(producers):
        own = numbers[(numbers - 1) % producers == producer]
        if own.size:
            count += int((own < np.maximum.accumulate(own)).sum())
    return count
