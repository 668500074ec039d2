"""Ctrl-C and SIGTERM: the first one stops a run in order, further ones wait until everything is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """A signal asked the run to stop; whatever was opened is closed on the way up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread at the first signal; ignore the rest, so that all is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if not seen:
            seen = True
            raise Interrupted(number)

    before = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
