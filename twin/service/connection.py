"""A connection to the service: bounded in number, and in the time that it may hold its place without a request."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 1_000
# From the connection's beginning, or the first byte behind an answer, to the end of a request's head.
HEAD_S: Final = 10.0
KEEP_ALIVE_S: Final = 30


class Connection(H11Protocol):
    """uvicorn's, which by itself waits without end for a request's head: it limits the time behind an answer alone."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._waiting is None and self.timeout_keep_alive_task is None:
            # What came is the beginning of a head, or a body that nobody wants.
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
