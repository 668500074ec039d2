"""What senders and receivers of several libraries have in common: turns, room, answers by futures, calls that wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateways.sinks.arguments import ProducerSettings
from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full, Refused, Report

# A queue that is full slows a producer down; it holds what the library has and has no answer for.
QUEUE_MESSAGES: Final = 100_000
QUEUE_BYTES: Final = 64 << 20
# `max.request.size` of all these libraries where nothing is said; a larger record is refused by their reports alone.
LARGEST_BYTES: Final = 1_048_576


def library_settings(settings: Mapping[str, Any]) -> ProducerSettings:
    """Return a producer's settings as each library has names for them."""
    return ProducerSettings(
        settings["acks"],
        settings["idempotence"],
        settings["linger_ms"],
        settings["batch_bytes"],
        LARGEST_BYTES,
    )


class Turns:
    """The partition of the next record: in turn where the settings spread, else the library's own choice (None)."""

    def __init__(self, settings: Mapping[str, Any], index: int, partitions: int) -> None:
        self._spread = settings["partitioner"] == "spread"
        self._partitions = partitions
        self._next = index % partitions

    def take(self) -> int | None:
        """Return it."""
        if not self._spread:
            return None
        partition = self._next
        self._next = partition + 1 if partition + 1 < self._partitions else 0
        return partition


def checked_size(key: bytes | None, value: bytes) -> int:
    """Return the bytes of a record; Refused where no request is large enough for it."""
    size = len(value) + (0 if key is None else len(key))
    if size > LARGEST_BYTES:
        raise Refused(f"{size} B: more than a request takes")
    return size


class Answers:
    """Records that a library has, in the order of sending, each with the future that it gave for it.

    Args:
        report: gets each answer.
        most: records; more are not taken.
        done: whether a future has its answer.
        problem: why the record of one that is done is not there; None: it is.
    """

    def __init__(
        self,
        report: Report,
        most: int,
        done: Callable[[Any], bool],
        problem: Callable[[Any], str | None],
    ) -> None:
        self._report, self._most, self._done, self._problem = report, most, done, problem
        self._waiting: deque[tuple[int, int, Any]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def check_room(self, more: int = 0) -> None:
        """Raise Full when nothing is to be taken; `more` are taken and not in the library yet."""
        if len(self._waiting) + more >= self._most or self._bytes >= QUEUE_BYTES:
            raise Full

    def add(self, number: int, size: int, future: Any) -> None:
        """Note what the library was given."""
        self._waiting.append((number, size, future))
        self._bytes += size

    @property
    def first(self) -> Any:
        """Return the future that has waited longest; None where nothing waits."""
        return self._waiting[0][2] if self._waiting else None

    def hand_over(self) -> None:
        """Report all that are done before the first that is not."""
        waiting, done, problem, report = self._waiting, self._done, self._problem, self._report
        while waiting and done(waiting[0][2]):
            number, size, future = waiting.popleft()
            self._bytes -= size
            report(number, problem(future))


class Calls:
    """What one call of a receiver gives: at most so many records; the first that are there, or a full number.

    Args:
        fetch: returns records that come within so many seconds, and may return more than are asked for.
    """

    def __init__(self, settings: Mapping[str, Any], fetch: Callable[[float], Arrivals]) -> None:
        self._most: int = settings["take_records"]
        self._full = settings["take"] == "full"
        self._wait_s: float = settings["take_ms"] / 1_000
        self._fetch = fetch
        self._left = NONE

    def take(self) -> Arrivals:
        """Return the records of a call."""
        found, self._left = self._left, NONE
        if not found.number:
            found = self._fetch(self._wait_s)
        if self._full:
            until_s = time.monotonic() + self._wait_s
            while len(found.number) < self._most and (left_s := until_s - time.monotonic()) > 0:
                found = _joined(found, self._fetch(left_s))
        if len(found.number) > self._most:
            found, self._left = _cut(found, 0, self._most), _cut(found, self._most, len(found.number))
        return found


def _joined(one: Arrivals, other: Arrivals) -> Arrivals:
    return Arrivals(
        [*one.number, *other.number],
        [*one.partition, *other.partition],
        [*one.offset, *other.offset],
        [*one.value, *other.value],
    )


def _cut(found: Arrivals, begin: int, end: int) -> Arrivals:
    part = slice(begin, end)
    return Arrivals(found.number[part], found.partition[part], found.offset[part], found.value[part])
