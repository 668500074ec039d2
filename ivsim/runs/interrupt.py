"""Ctrl-C, SIGTERM and SIGHUP: the first one stops a run in order; further ones wait until everything is closed.

What takes long and can be made later from what is kept heeds one more (`again`).

A SIGINT or SIGHUP that the process was started to ignore (a shell's `&`, `nohup`) is ignored.

Between the runs of a testbed that stays up they end the program, which closes it first.
"""

from __future__ import annotations

import inspect
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ivsim.imports import imports_at, postponed
from schemas.control import heeded

# So soon a signal is the one before once more: `timeout` sends it to the process, and to its group.
TWICE_S = 1.0


class Interrupted(BaseException):
    """A signal asked the run to stop; whatever was opened is closed on the way up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Late:
    """The signal that came while none could be heeded; None where none did."""

    number: int | None = None


class _First:
    """A handler that raises Interrupted once, or tells `late` where somebody has asked it to wait."""

    def __init__(self) -> None:
        self._outer = imports_at(inspect.currentframe())
        self.seen = False
        self.late: Late | None = None
        self._at_s = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.seen or time.monotonic() - self._at_s < TWICE_S:
            return
        if postponed(self, number, frame, outer=self._outer):
            return
        self.seen, self._at_s = True, time.monotonic()
        if self.late is None:
            raise Interrupted(number)
        self.late.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread at the first signal; ignore the rest, so that all is closed.

    Within another one, a signal is the outer one's first too: whoever asks for the outer end closes more than the run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = _First()
    ending = (signal.SIGTERM, *heeded(signal.SIGINT, signal.SIGHUP))
    before = {number: signal.signal(number, stop) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            if isinstance(handler, _First):
                handler.seen = handler.seen or stop.seen
            signal.signal(number, handler)


@contextmanager
def unhurried() -> Iterator[Late]:
    """Let the block come to its end whatever signal arrives, and say which did; within `interruptible`."""
    late = Late()
    waiting = _handler()
    if waiting is not None:
        waiting.late = late
    try:
        yield late
    finally:
        if waiting is not None:
            waiting.late = None


@contextmanager
def again() -> Iterator[None]:
    """Raise Interrupted in the block at a signal though one has come before: who asks twice does not want to wait for it."""
    heeding = _handler()
    before = heeding is not None and heeding.seen
    if heeding is not None:
        heeding.seen = False
    try:
        yield
    finally:
        if heeding is not None:
            heeding.seen = heeding.seen or before


def heard() -> bool:
    """Say whether a signal has come within the innermost `interruptible`; a testbed's runs are stopped by other means, too."""
    handler = _handler()
    return handler is not None and handler.seen


def _handler() -> _First | None:
    """Return the handler of the innermost `interruptible`; None outside of one, and outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, _First) else None


class EndingSignals:
    """Closes something that is open and idle before SIGTERM or SIGHUP ends the process, as either does by default.

    Python runs no `finally` and no exit handler when a signal ends it: namespaces and files would stay. A signal that
    has a handler already is its owner's, and is left alone.

    Attributes:
        close: closes it, calls `release` in the end; idempotent.
        stop_run: asks a run that goes on in another thread to end; False where there is none.
    """

    def __init__(self, close: Callable[[], None], stop_run: Callable[[], bool]) -> None:
        self._close, self._stop_run = close, stop_run
        self._held: list[int] = []
        self._arrived: int | None = None
        self._closing = False

    def hold(self) -> None:
        """Take over the signals that nobody handles; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._handle)
                self._held.append(number)

    def closing(self) -> None:
        """Say that it is being closed: a signal waits for the end of that."""
        self._closing = True

    def release(self) -> None:
        """Hand the signals back; one that has come meanwhile ends the process now."""
        self._closing = False
        if threading.current_thread() is not threading.main_thread():
            return
        held, self._held = self._held, []
        for number in held:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)
        if self._arrived is not None:
            number, self._arrived = self._arrived, None
            os.kill(os.getpid(), number)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._stop_run():
            return
        self._arrived = number
        if not self._closing:
            self._close()
