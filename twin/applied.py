"""When the twin first contained a message: pure, one vehicle at a time; it reads no clock and no Kafka.

A state of the twin stands for every message up to its newest, and states are written by micro-batch, so that most
messages have no state of their own. A message is applied by the first state, in Kafka's time, that is at least as new
and not older than the message's own record. "At least as new" alone would be wrong: after a restart the query writes the
states of its unfinished batch again, and a state may be appended before a late message that it does not contain.
Messages are visited from newest to oldest, and each state's stamp is put into a sorted list once: n log n.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

import pyarrow as pa

Order = tuple[int, int]  # (epoch, sequence)


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


def applied_in_arrow(messages: pa.Table, states: pa.Table) -> pa.Table:
    """Return vehicle_id, epoch, sequence and applied_at_ns of one vehicle's messages."""
    found = first_containing(_ordered(messages), _ordered(states))
    keys = messages.select(["vehicle_id", "epoch", "sequence"])
    return keys.append_column("applied_at_ns", pa.array(found, pa.int64()))


def _ordered(table: pa.Table) -> list[tuple[Order, int]]:
    epochs, sequences, stamps = (table.column(n).to_pylist() for n in ("epoch", "sequence", "appended_at_ns"))
    return [((e, s), stamp) for e, s, stamp in zip(epochs, sequences, stamps, strict=True)]
