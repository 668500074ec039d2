"""An alarm on the wall clock's nanoseconds for the event loop, which itself rounds to milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable

_CLOCK_REALTIME = 0
_TFD_TIMER_ABSTIME = 1
_TFD_NONBLOCK, _TFD_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_NANOSECONDS = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Wakeup:
    """Calls `ring` on the running loop when the armed time has come (timerfd_create(2)); once per `arm`."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(_CLOCK_REALTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._fired)

    def arm(self, at_ns: int) -> None:
        """Ring at `at_ns` (time.time_ns), at once when that is past; an earlier alarm is forgotten."""
        seconds, nanoseconds = divmod(max(at_ns, 1), _NANOSECONDS)
        value = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if self._libc.timerfd_settime(self._file, _TFD_TIMER_ABSTIME, ctypes.byref(value), None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Forget the alarm; idempotent."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _fired(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 8)
        self._ring()
