"""What a process with an event loop is told: the owner's commands (schemas.control), and signals."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any

from schemas.control import MAX_COMMAND_BYTES, OWNER_DIED, command, has_owner, heeded, refuse_command


def stop_on_signal(stop: asyncio.Event) -> None:
    """Let the first SIGTERM or SIGINT set `stop`; the second finds no handler any more, and ends the process at once.

    The owner's death sets it, too, however often it is told. A SIGINT that is ignored stays so.
    """
    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, *heeded(signal.SIGINT))

    def once() -> None:
        stop.set()
        for number in ending:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in ending:
        loop.add_signal_handler(number, once)
    loop.add_signal_handler(OWNER_DIED, stop.set)


class Commands:
    """The owner's commands for a process with an event loop."""

    def __init__(self, reader: asyncio.StreamReader | None, allowed: Sequence[str]) -> None:
        self._reader, self._allowed = reader, allowed

    @classmethod
    async def open(cls, *allowed: str) -> Commands:
        """Attach to standard input of this process, if it has an owner; commands have one of these names."""
        if not has_owner():
            return cls(None, allowed)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(MAX_COMMAND_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader, allowed)

    async def next(self) -> dict[str, Any] | None:
        """Return the next command, or None once the owner has closed the pipe or died; without owner, never."""
        if self._reader is None:
            forever: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
            return await forever
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # longer than the limit; the reader has left out what there was of it
                refuse_command(f"longer than {MAX_COMMAND_BYTES} bytes")
                continue
            if not line:
                return None
            if (found := command(line, self._allowed)) is not None:
                return found
