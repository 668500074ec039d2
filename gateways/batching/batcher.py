"""Batches per partition, closed by count or by the age of their oldest item; has no clock and does no I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class BatchSetting:
    """When a batch is closed: at whichever of the two comes first. ValueError for values that close none.

    Attributes:
        messages: its count, from 1 (B_S).
        wait_ms: the age of its oldest message, from 0 (B_T).
    """

    messages: int
    wait_ms: float

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise ValueError(f"{self.messages} messages: a batch has 1 at least")
        if not 0 <= self.wait_ms < math.inf:
            raise ValueError(f"{self.wait_ms} ms: a batch waits from 0 ms on, and not without end")


class Batcher(Generic[Item]):
    """Gathers items of each partition into batches; what is closed is the caller's, in the order in which it came.

    Times are seconds of a clock of the caller's that never goes back.
    """

    def __init__(self, setting: BatchSetting) -> None:
        self._setting = setting
        self._messages = setting.messages
        self._wait_s = setting.wait_ms / 1e3
        # All wait equally long: the first one here was begun first and is due first.
        self._open: dict[int, tuple[float, list[Item]]] = {}

    @property
    def setting(self) -> BatchSetting:
        return self._setting

    @property
    def deadline_s(self) -> float | None:
        """When the next batch must be closed for its age; None while none is open."""
        for begun_s, _items in self._open.values():
            return begun_s + self._wait_s
        return None

    def add(self, partition: int, item: Item, now_s: float) -> list[Item] | None:
        """Take an item; return the batch that it closes, by its count or since it finds it over its age."""
        batch = self._open.get(partition)
        if batch is None:
            if self._messages == 1:
                return [item]
            self._open[partition] = (now_s, [item])
            return None
        begun_s, items = batch
        items.append(item)
        if len(items) < self._messages and now_s < begun_s + self._wait_s:
            return None
        del self._open[partition]
        return items

    def due(self, now_s: float) -> list[list[Item]]:
        """Close and return the batches whose oldest item has waited long enough."""
        due = []
        for partition, (begun_s, _items) in self._open.items():
            if now_s < begun_s + self._wait_s:
                break
            due.append(partition)
        return [self._open.pop(partition)[1] for partition in due]

    def change(self, setting: BatchSetting, now_s: float) -> list[list[Item]]:
        """Obey another setting from now on; return what it closes of the open batches, in pieces within its count."""
        self._setting = setting
        self._messages = setting.messages
        self._wait_s = setting.wait_ms / 1e3
        full = [p for p, (_begun_s, items) in self._open.items() if len(items) >= setting.messages]
        closed = []
        for partition in full:
            _begun_s, items = self._open.pop(partition)
            closed += [items[at : at + setting.messages] for at in range(0, len(items), setting.messages)]
        return closed + self.due(now_s)

    def close(self) -> list[list[Item]]:
        """Close and return every open batch, the oldest first."""
        closed = [items for _begun_s, items in self._open.values()]
        self._open.clear()
        return closed
