"""When the twin first contained a message: pure, one vehicle at a time; it reads no clock and no Kafka.

A state of the twin stands for every message up to its newest, and states are written by micro-batch, so that most
messages have no state of their own. A message is applied by the first state, in Kafka's time, that is at least as new
and not older than the message's own record. "At least as new" alone would be wrong: after a restart the query writes the
states of its unfinished batch again, and a state may be appended before a late message that it does not contain.
Where states of newer messages were appended later, as without a restart, two binary searches find it. Else messages are
visited from newest to oldest, and each state's stamp is put into a sorted list once: n log n.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledger.sources import KEY

Order = tuple[int, int]  # (epoch, sequence)
Integers = npt.NDArray[np.int64]
_COLUMNS: Final = ("epoch", "sequence", "appended_at_ns")


def first_containing(
    messages: Sequence[tuple[Order, int]], states: Sequence[tuple[Order, int]]
) -> list[int | None]:
    """Return for each message the append stamp of the first state that contains it, None when none does.

    A message and a state are ((epoch, sequence), appended_at_ns). A state contains a message when it was
    appended at or after the message and its (epoch, sequence) is at least the message's. States may go
    backwards: a restarted query writes the updates of its unfinished batch again.
    """
    found: list[int | None] = [None] * len(messages)
    newest_first = sorted(range(len(messages)), key=lambda i: messages[i][0], reverse=True)
    pending = sorted(states, reverse=True)
    stamps = _Stamps()
    at = 0
    for order, group in groupby(newest_first, key=lambda i: messages[i][0]):
        while at < len(pending) and pending[at][0] >= order:
            stamps.add(pending[at][1])
            at += 1
        for i in group:
            found[i] = stamps.at_or_after(messages[i][1])
    return found


class _Stamps:
    """A sorted list that mostly grows at its front, kept as negated values that grow at the end."""

    def __init__(self) -> None:
        self._negated: list[int] = []

    def add(self, stamp: int) -> None:
        value = -stamp
        if not self._negated or value >= self._negated[-1]:
            self._negated.append(value)
        else:
            self._negated.insert(bisect_left(self._negated, value), value)

    def at_or_after(self, stamp: int) -> int | None:
        # The first stamp >= `stamp` is the last negated value <= -stamp.
        index = bisect_left(self._negated, -stamp + 1) - 1
        return -self._negated[index] if index >= 0 else None


def applied_to_all(messages: pa.Table, states: pa.Table) -> pa.Table:
    """Return vehicle_id, epoch, sequence and applied_at_ns of each message; both tables sorted by vehicle."""
    ranges = dict(_ranges(states))
    found = [
        _applied(_arrays(messages.slice(*place)), _arrays(states.slice(*ranges.get(vehicle, (0, 0)))))
        for vehicle, place in _ranges(messages)
    ]
    column = pa.chunked_array(found, pa.int64())
    return messages.select(list(KEY)).append_column("applied_at_ns", column)


def _ranges(table: pa.Table) -> Iterator[tuple[str, tuple[int, int]]]:
    """Return each vehicle with the first of its rows and their number."""
    names = table["vehicle_id"].combine_chunks().dictionary_encode()
    codes = np.asarray(names.indices)
    borders = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for begin, end in pairwise(borders):
        yield names.dictionary[int(codes[begin])].as_py(), (begin, end - begin)


def _arrays(table: pa.Table) -> list[Integers]:
    return [table[name].to_numpy().astype(np.int64, copy=False) for name in _COLUMNS]


def _applied(messages: list[Integers], states: list[Integers]) -> pa.Array:
    """Return the stamps of `first_containing` for messages and states of one vehicle: epochs, sequences, stamps of each."""
    states = [one[np.lexsort((states[2], states[1], states[0]))] for one in states]
    stamps = states[2]
    if np.any(np.diff(stamps) < 0):
        found = first_containing(_pairs(messages), _pairs(states))
        return pa.array(found, pa.int64())
    # The first state at least as new, and the first not older; the later one of the two is both.
    newer = _states_below(messages, states)
    place = np.maximum(newer, np.searchsorted(stamps, messages[2]))
    none = place == len(stamps)
    return pa.array(np.append(stamps, 0)[place], pa.int64(), mask=none)


def _states_below(messages: list[Integers], states: list[Integers]) -> Integers:
    """Return for each message how many states there are of older ones; the states are sorted."""
    epochs, sequences = (np.concatenate([messages[i], states[i]]) for i in (0, 1))
    is_state = np.repeat([0, 1], [len(messages[0]), len(states[0])])
    order = np.lexsort((is_state, sequences, epochs))  # a message comes before the states of its own
    below = np.empty(len(order), np.int64)
    below[order] = np.cumsum(is_state[order])
    return below[: len(messages[0])]


def _pairs(columns: list[Integers]) -> list[tuple[Order, int]]:
    epochs, sequences, stamps = (column.tolist() for column in columns)
    return [((e, s), stamp) for e, s, stamp in zip(epochs, sequences, stamps, strict=True)]
