"""Message IDs of both directions (RFC 7252, 4.4 and 4.5), in bounded memory."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable
from typing import Final

# Of CON, and of NON.
MAX_MESSAGE_IDS: Final = 1_000_000
MAX_PEERS: Final = 200_000


class SeenMessageIds:
    """Message IDs received from each remote during the last `lifetime_s`, with the answer each got.

    A timer per message would be the plain way: at 1,500 requests/s and 247 s these are 370,000 timers. Here
    whole slices of time expire at once, so an entry lives at most one slice longer than it must.

    Args:
        lifetime_s: EXCHANGE_LIFETIME for CON, NON_LIFETIME for NON.
        limit: entries at most; beyond it the oldest slice goes early.
    """

    def __init__(
        self,
        lifetime_s: float,
        slices: int = 8,
        limit: int = MAX_MESSAGE_IDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slice_s = lifetime_s / slices
        self._slices: list[dict[Hashable, dict[int, bytes]]] = [{}]
        self._counts = [0]
        self._kept = slices + 1
        self._limit = limit
        self._clock = clock
        self._turn_at = clock() + self._slice_s

    def __len__(self) -> int:
        return sum(self._counts)

    def find(self, remote: Hashable, message_id: int) -> bytes | None:
        """Return the answer (empty: none yet) to a Message ID seen before; None for a new one."""
        self._turn()
        for part in self._slices:
            answers = part.get(remote)
            if answers is not None and message_id in answers:
                return answers[message_id]
        return None

    def keep(self, remote: Hashable, message_id: int, answer: bytes) -> None:
        """Remember `answer`; with too many entries the oldest slice goes before its time."""
        self._turn()
        if len(self) >= self._limit:
            self._begin_slice()
            if len(self._slices) > 2:
                del self._slices[-1], self._counts[-1]
            else:
                self._slices[1:], self._counts[1:] = [], []
        self._counts[0] += 1
        self._slices[0].setdefault(remote, {})[message_id] = answer

    def answer(self, remote: Hashable, message_id: int, answer: bytes) -> None:
        """Set the answer of a Message ID seen before; nothing for one that is not known."""
        for part in self._slices:
            answers = part.get(remote)
            if answers is not None and message_id in answers:
                answers[message_id] = answer
                return

    def _turn(self) -> None:
        now = self._clock()
        while now >= self._turn_at:
            self._begin_slice()
            # After a long silence one step for each slice is enough.
            self._turn_at = max(self._turn_at + self._slice_s, now - self._kept * self._slice_s)

    def _begin_slice(self) -> None:
        self._slices.insert(0, {})
        self._counts.insert(0, 0)
        del self._slices[self._kept :], self._counts[self._kept :]


class NextMessageIds:
    """The next Message ID for each remote: a random start, then one up (RFC 7252, 4.4).

    Counted for each remote apart, or a server with many clients would come round to the same number within
    one client's EXCHANGE_LIFETIME, and that client would take an answer for a duplicate.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}

    def take(self, remote: Hashable) -> int:
        """Return a Message ID that `remote` has not had for the last 65,536 messages."""
        following = self._next
        message_id = following.get(remote)
        if message_id is None:
            message_id = random.randrange(1 << 16)
            if len(following) >= MAX_PEERS:
                del following[next(iter(following))]
        following[remote] = (message_id + 1) & 0xFFFF
        return message_id
