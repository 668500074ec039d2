"""A vehicle's bounded buffer for messages that cannot go now; it sends nothing and knows no protocol."""

from __future__ import annotations

from collections import deque
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Policy = Literal["drop_oldest", "drop_newest", "block"]


class Outbox(Generic[T]):
    """First in, first out, at most `limit` messages.

    With `block` the vehicle waits instead of dropping: what is due later stands behind a full buffer, so
    nothing is refused here and the wait shows as emission lag.
    """

    def __init__(self, limit: int, policy: Policy) -> None:
        if limit < 0:
            raise ValueError(f"outbox limit {limit}: allowed 0 and more")
        self._limit = limit
        self._policy = policy
        self._items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> T | None:
        """Take one message; return the one that had to go for it, which may be itself, or None."""
        if self._policy != "block" and len(self._items) >= self._limit:
            if self._policy == "drop_newest" or not self._items:
                return item
            oldest = self._items.popleft()
            self._items.append(item)
            return oldest
        self._items.append(item)
        return None

    def get(self) -> T:
        """Return the oldest message and forget it; IndexError when there is none."""
        return self._items.popleft()

    def clear(self) -> list[T]:
        """Return everything, oldest first, and forget it."""
        items = list(self._items)
        self._items.clear()
        return items
