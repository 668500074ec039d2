"""Lets a signal wait for the import that it interrupts.

A Python handler that raises inside an import leaves a module half made: an extension then says "initialization failed",
the interpreter may abort at its exit, and what is raised inside importlib's own callbacks is printed and lost. An
import ends by itself within a second, so its signal is looked at anew every 20 ms until none goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

_IMPORTLIB = frozenset({"<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>"})
_AGAIN_S = 0.02

Handler = Callable[[int, FrameType | None], None]


def imports_at(frame: FrameType | None) -> int:
    """Return how many of importlib's frames stand below `frame`: 0 where nothing is imported."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename in _IMPORTLIB
        frame = frame.f_back
    return count


def postponed(handler: Handler, number: int, frame: FrameType | None, *, outer: int = 0) -> bool:
    """Return whether an import goes on at `frame`; then `handler` is called again soon, by SIGALRM.

    Args:
        handler: called with the same number, and the frame of then.
        number: of the signal.
        frame: that it interrupts.
        outer: `imports_at` where the handler was set: a script that is itself imported may be interrupted.
    """
    if imports_at(frame) <= outer:
        return False
    signal.signal(signal.SIGALRM, lambda _, later: handler(number, later))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    return True


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt as Python's own handler does, once no import goes on."""
    if not postponed(interrupt, number, frame):
        signal.default_int_handler(number, frame)
