"""The lines of JSON by which a run and its child processes talk; it holds no state of a run.

The end of standard input tells a child that its owner is gone. That holds for what an owner can keep open: a pipe, a
socket, a terminal. A service manager gives /dev/null, which is at its end from the beginning and says nothing of any
owner: such a process runs until it gets a signal.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from typing import Any


def emit(event: str, **fields: Any) -> None:
    """Print one event for the owner; a closed pipe means the owner is gone and is no error here."""
    try:
        print(json.dumps({"event": event, **fields}, separators=(",", ":")), flush=True)
    except BrokenPipeError:
        # The owner died; end of file on standard input ends this process in order.
        sys.stderr.write(f"owner gone, event not delivered: {event}\n")


def has_owner() -> bool:
    """Say whether standard input is something that an owner holds open: a pipe, a socket or a terminal."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):  # closed before this process began, or since
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def failure_line(context: dict[str, Any]) -> str:
    """Return in one line what an event loop's exception handler is given."""
    error = context.get("exception")
    return str(context["message"]) if error is None else f"{context['message']}: {error!r}"


def commands() -> Iterator[dict[str, Any]]:
    """Yield the owner's commands, blocking; ends when the owner closes the pipe or dies, never without an owner."""
    if not has_owner():
        threading.Event().wait()
    for line in sys.stdin:
        if line.strip():
            yield parse(line)


class Commands:
    """The owner's commands for a process with an event loop."""

    def __init__(self, reader: asyncio.StreamReader | None) -> None:
        self._reader = reader

    @classmethod
    async def open(cls) -> Commands:
        """Attach to standard input of this process, if it has an owner."""
        if not has_owner():
            return cls(None)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    async def next(self) -> dict[str, Any] | None:
        """Return the next command, or None once the owner has closed the pipe or died; without owner, never."""
        if self._reader is None:
            forever: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
            return await forever
        line = await self._reader.readline()
        return parse(line) if line else None


def parse(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object in `line`; ValueError when it is none."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise TypeError(f"control line is no object: {line[:80]!r}")
    return value
