"""Writes lines to whoever listens at a descriptor, and never waits for one who does not read; it knows no event.

A pipe that nobody reads fills up, and a plain write to it stands still, with everything behind it. Two facts of POSIX
prevent that: `poll` calls a pipe writable while it takes PIPE_BUF bytes, and a write of so many then returns at once
(pipe(7), PIPE_BUF). So a line leaves in pieces of that size, each behind a look; who has no time to lose looks once.

A terminal is called writable with room for less than a piece. So it is opened anew for each line, by a description that
does not wait; whoever shares it keeps theirs. What no write can tell (a full disk, no reader any more) is not told.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

# How long a line that may not be dropped waits for its reader; the next one does not wait until that one has been read.
PATIENCE_S: Final = 5.0
_PIECE_BYTES: Final = select.PIPE_BUF


class Outlet:
    """Standard output or standard error, as the process has it at the moment of writing."""

    def __init__(self, name: str) -> None:
        self._name = name
        # A signal's handler may break into a write of its own thread.
        self._lock = threading.RLock()
        # The end of a line whose beginning has been written.
        self._rest = b""
        self._deaf = False

    def write(self, line: str, wait_s: float = PATIENCE_S) -> bool:
        """Write a line with its end of line; return whether the reader could take it within `wait_s`."""
        stream: TextIO = getattr(sys, self._name)
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # a test's own, or closed
            if stream is not None and not stream.closed:
                stream.write(line)
            return True
        with self._lock, _not_to_wait(descriptor) as descriptor:
            wait_s = 0.0 if self._deaf else wait_s
            if self._rest:
                self._rest = self._sent(descriptor, self._rest, wait_s)
            if self._rest:
                return False
            data = line.encode("utf-8", "replace")
            left = self._sent(descriptor, data, wait_s)
            self._rest = left if len(left) < len(data) else b""
            return not left

    def _sent(self, descriptor: int, data: bytes, wait_s: float) -> bytes:
        """Write as much as is taken; return what is left."""
        look = select.poll()
        look.register(descriptor, select.POLLOUT)
        end_s = time.monotonic() + wait_s
        with contextlib.suppress(OSError):
            while data and look.poll(max(0.0, end_s - time.monotonic()) * 1_000):
                data = data[os.write(descriptor, data[:_PIECE_BYTES]) :]
        # One who has not been waited for may be slow.
        self._deaf = bool(data) and (self._deaf or wait_s > 0)
        return data


@contextmanager
def _not_to_wait(descriptor: int) -> Iterator[int]:
    """Yield a terminal opened anew, which does not wait; the descriptor itself where it is none or cannot be opened."""
    opened = None
    with contextlib.suppress(OSError):
        if os.isatty(descriptor):
            opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        yield descriptor if opened is None else opened
    finally:
        if opened is not None:
            os.close(opened)


OUT: Final = Outlet("stdout")
ERR: Final = Outlet("stderr")


class _Handler(logging.Handler):
    """Writes the log to standard error; a line that nobody reads is dropped."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            ERR.write(self.format(record) + "\n", 0.0)
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)


def log_to_stderr(form: str, level: int = logging.WARNING) -> None:
    """Have the process's log written to standard error, in the format `form` of `logging`, from `level` on."""
    logging.basicConfig(handlers=[_Handler()], format=form, level=level)
