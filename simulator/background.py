"""Tasks beside the main one: a failure in them is heard, and waiting for the first of several leaves none behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def in_background(what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task whose failure ends the process as an error that nobody expected."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": f"{what} failed", "exception": error}
            task.get_loop().call_exception_handler(context)

    task = asyncio.ensure_future(work)
    task.add_done_callback(ended)
    return task


async def first_of(*waits: Any) -> None:
    """Wait for the first of several to end; the rest are given up."""
    pending = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
