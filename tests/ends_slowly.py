"""A process that is told to end, and takes its leave for as long as the process that started it lives."""

from __future__ import annotations

import asyncio
import os

from schemas.control import emit
from schemas.loop_commands import stop_on_signal

POLL_S = 0.01  # nobody tells a process that it has another parent


async def main() -> None:
    owner, stop = os.getppid(), asyncio.Event()
    stop_on_signal(stop)
    emit("ready")
    await stop.wait()
    emit("stopping")
    while os.getppid() == owner:
        await asyncio.sleep(POLL_S)
    emit("done", ended="in order")


if __name__ == "__main__":
    asyncio.run(main())
