"""Python's cyclic garbage collector, kept to moments when no message is due."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# New objects that outlived their function. Below this a collection finds next to nothing; above the upper bound it
# runs whatever is due, since memory without bound is worse than some milliseconds of emission lag, which are measured.
WORTH_IT: Final = 10_000
AT_MOST: Final = 100_000
# A collection may begin when nothing is due within this many times what the longest of the last ones took.
_MARGIN: Final = 2


@contextmanager
def spared() -> Iterator[Callable[[], None]]:
    """Spare what lives now from the collections within the block, which go on; yield what spares the new, too.

    For a process that has a thread with due times and much that stays: Python goes through all of it once what is new has
    grown to a quarter of it, and no thread runs meanwhile. Where more and more stays, call what is yielded every second or
    so: it collects what is new, which is little by then, and spares the rest.
    """
    gc.freeze()
    try:
        yield _spare_new
    finally:
        gc.unfreeze()


def _spare_new() -> None:
    gc.collect()
    gc.freeze()


class QuietCollector:
    """Runs the collector when told that there is time.

    By itself it runs whenever enough objects were made, which is often in the middle of a burst: a full collection then
    delays every message due. Switched off for good, each cycle that a client library leaves behind (pika: some 5 kB for a
    refused connection) stays until the end.

    Args:
        worth_it: with so many new objects it collects where there is time.
        at_most: with so many it collects in any case.
    """

    def __init__(self, worth_it: int = WORTH_IT, at_most: int = AT_MOST) -> None:
        self._worth_it, self._at_most = worth_it, at_most
        self._cost_ns = 0
        self._began = False
        self.collections = 0

    def begin(self) -> None:
        """Collect once, spare what lives now from every later collection, and take over from Python's own schedule."""
        gc.collect()
        gc.freeze()
        gc.disable()
        self._began = True

    def end(self) -> None:
        """Give the schedule back; idempotent."""
        if self._began:
            gc.unfreeze()
            gc.enable()
            self._began = False

    def offer(self, quiet_ns: int) -> None:
        """Collect if it is worth it and over before the next message is due, `quiet_ns` from now."""
        if not self._began:
            return
        new = gc.get_count()[0]
        if new < self._worth_it or (new < self._at_most and quiet_ns < _MARGIN * self._cost_ns):
            return
        begun_at_ns = time.perf_counter_ns()
        gc.collect()
        took_ns = time.perf_counter_ns() - begun_at_ns
        self._cost_ns = max(took_ns, self._cost_ns * 7 // 8)
        self.collections += 1
