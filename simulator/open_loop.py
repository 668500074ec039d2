"""Offers each message to its vehicle when it is due, whatever became of the last.

The schedule comes from the seed, and nothing that happens to a message may move another. Payloads take time to make,
some milliseconds for a block of 128, so messages are prepared ahead, up to five seconds or 20,000 of them, and only while
nothing is due before that is done. The alarm is a timer of the kernel on the wall clock (`wakeup`), since the event loop
rounds to milliseconds.
"""

from __future__ import annotations

import asyncio
import time
import typing
from collections import deque
from collections.abc import Iterator, Mapping

from simulator.fleet import Emission
from simulator.wakeup import Wakeup

_MILLISECOND_NS = 1_000_000
_AHEAD_NS = 5_000 * _MILLISECOND_NS
_AHEAD_MESSAGES = 20_000
# None is prepared when the next one is due this soon, or sooner than the longest of the last preparations took: most take
# some microseconds, one in a hundred makes a block of payloads. What took longer than this was held up by others.
_QUIET_NS = 2 * _MILLISECOND_NS
_LONGEST_NS = 20 * _MILLISECOND_NS
_SLICE_NS = _MILLISECOND_NS
# What is sent in one go when much is overdue. After it the loop reads what peers have answered: a sender that only sends
# leaves acknowledgements unread, and with them the places in the receive window that it waits for.
_AT_ONCE = 64
_NOTHING_DUE_NS = 1_000 * _MILLISECOND_NS


class Taker(typing.Protocol):
    """A vehicle, as the schedule sees it."""

    def offer(self, emission: Emission) -> None:
        """Take the vehicle's next message, which is due."""


class OpenLoop:
    """The schedule of some vehicles: what is due next, and what is prepared after it.

    Args:
        takers: who takes a vehicle's messages, by its number.
    """

    def __init__(self, takers: Mapping[int, Taker]) -> None:
        self._takers = takers
        self._prepared: deque[Emission] = deque()
        self._coming: Iterator[Emission] = iter(())
        self._exhausted = False
        self._refilling = False
        self._longest_ns = _QUIET_NS
        self._start_at_ns = 0
        self.sent_all = asyncio.Event()
        self._wakeup = Wakeup(self._ring)

    def start(self, coming: Iterator[Emission], at_ns: int) -> None:
        """Begin with what is coming; its offset 0 is `at_ns` on the wall clock."""
        self._start_at_ns = at_ns
        self._coming = coming
        self._refill()

    def close(self) -> None:
        """Offer nothing any more."""
        self._wakeup.close()

    def quiet_ns(self) -> int:
        """Return how long nothing is due from now on."""
        if not self._prepared:
            return _NOTHING_DUE_NS
        return self._start_at_ns + self._prepared[0].due_offset_ns - time.time_ns()

    def _ring(self) -> None:
        """Offer what is due, at most `_AT_ONCE` in one go; nothing else happens here, since each microsecond is lag."""
        prepared = self._prepared
        start_at_ns = self._start_at_ns
        for _ in range(_AT_ONCE):
            if not prepared or start_at_ns + prepared[0].due_offset_ns > time.time_ns():
                break
            emission = prepared.popleft()
            self._takers[emission.vehicle].offer(emission)
        self._arm()
        if not self._refilling and not self._exhausted:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _arm(self) -> None:
        if self._prepared:
            self._wakeup.arm(self._start_at_ns + self._prepared[0].due_offset_ns)
        elif self._exhausted:
            self.sent_all.set()

    def _refill(self) -> None:
        """Prepare payloads ahead, in slices, while nothing is due soon."""
        self._refilling = False
        begun_at_ns = now_ns = time.time_ns()
        was_empty = not self._prepared
        while now_ns - begun_at_ns < _SLICE_NS or not self._prepared:
            if self._full(now_ns):
                break
            emission = next(self._coming, None)
            if emission is None:
                self._exhausted = True
                break
            self._prepared.append(emission)
            before_ns, now_ns = now_ns, time.time_ns()
            took_ns = min(now_ns - before_ns, _LONGEST_NS)
            self._longest_ns = max(took_ns, self._longest_ns - self._longest_ns // 1_024)
        if was_empty:
            self._arm()
        if not self._exhausted and not self._refilling and len(self._prepared) < _AHEAD_MESSAGES:
            self._refill_later(now_ns)

    def _full(self, now_ns: int) -> bool:
        """Say whether enough is prepared, or the next message is too close to begin another.

        What is overdue all the same is prepared together for a slice, and then sent: one at a time would cost the loop's
        own round each.
        """
        if not self._prepared:
            return False
        first_ns = self._start_at_ns + self._prepared[0].due_offset_ns - now_ns
        last_ns = self._start_at_ns + self._prepared[-1].due_offset_ns - now_ns
        if first_ns <= 0:
            return last_ns > 0
        return (
            first_ns < max(_QUIET_NS, self._longest_ns)
            or last_ns > _AHEAD_NS
            or len(self._prepared) >= _AHEAD_MESSAGES
        )

    def _refill_later(self, now_ns: int) -> None:
        """Go on at once while there is too little; `_ring` calls again otherwise."""
        if not self._full(now_ns):
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)
