"""The lines of JSON by which a run and its child processes talk; it holds no state of a run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any


def emit(event: str, **fields: Any) -> None:
    """Print one event for the owner; a closed pipe means the owner is gone and is no error here."""
    try:
        print(json.dumps({"event": event, **fields}, separators=(",", ":")), flush=True)
    except BrokenPipeError:
        # The owner died; end of file on standard input ends this process in order.
        sys.stderr.write(f"owner gone, event not delivered: {event}\n")


def commands() -> Iterator[dict[str, Any]]:
    """Yield the owner's commands, blocking; ends when the owner closes the pipe or dies."""
    for line in sys.stdin:
        if line.strip():
            yield parse(line)


class Commands:
    """The owner's commands for a process with an event loop."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def open(cls) -> Commands:
        """Attach to standard input of this process."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    async def next(self) -> dict[str, Any] | None:
        """Return the next command, or None once the owner has closed the pipe or died."""
        line = await self._reader.readline()
        return parse(line) if line else None


def parse(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object in `line`; ValueError when it is none."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise TypeError(f"control line is no object: {line[:80]!r}")
    return value
