"""Calls in a thread without an event loop, for callers whose own runs one: a notebook's kernel does all the time.

pyroute2 runs a loop of its own to ask the kernel, and a thread has room for one. The thread lives until it is closed: the
kernel ends processes together with the thread that has started them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ivsim.runs.interrupt import Interrupted
from ivsim.runs.started import StartedRun

T = TypeVar("T")


def loop_is_running() -> bool:
    """Return whether the calling thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class OwnThread:
    """Calls functions one after the other: directly, or in a thread of its own where the caller runs an event loop."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._stop = threading.Event()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what the function returns; Ctrl-C stops a run in it through `disturb`, and its end is waited for."""
        if self._pool is None and not loop_is_running():
            return function(*arguments)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="testbed")
        self._stop.clear()
        future = self._pool.submit(function, *arguments)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.stop()
            return future.result()

    def stop(self) -> None:
        """Ask a run that goes on in the thread to end, through `disturb`."""
        self._stop.set()

    def check(self) -> None:
        """Raise Interrupted once `stop` has been called."""
        if self._stop.is_set():
            raise Interrupted(signal.SIGINT)

    def disturb(self, then: Callable[[StartedRun], None] | None) -> Callable[[StartedRun], None]:
        """Return what a run calls again and again: it ends the run after Ctrl-C, and calls `then` otherwise."""

        def tick(run: StartedRun) -> None:
            self.check()
            if then is not None:
                then(run)

        return tick

    def close(self) -> None:
        """End the thread; idempotent."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
