"""One connection of an intake to its broker: bytes to and from the socket, in what state it is; it knows no MQTT."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Protocol

from gateways.protocols.tls import refuses


class Taker(Protocol):
    """Who takes a connection's bytes."""

    def bytes_arrived(self, data: bytes) -> None:
        """Take what the broker has sent."""

    def wire_ended(self, wire: Wire, reason: str) -> None:
        """The connection is gone."""


class Wire(asyncio.Protocol):
    """One connection's bytes.

    Attributes:
        intake: who takes them; None once they are to be read and forgotten.
        ended: why the connection is gone, or None.
        closed_in_order: the broker has closed it, without a reset.
        refused: by an alert of TLS, which comes behind the handshake (RFC 8446, 4.4.2).
        began_s: when it began (time.monotonic).
    """

    def __init__(self, intake: Taker, generation: int) -> None:
        self.intake: Taker | None = intake
        self.generation = generation
        self.ended: str | None = None
        self.closed_in_order = self.refused = False
        self.began_s = time.monotonic()
        self._transport: Any = None
        self._paused = False
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self.intake is not None:
            self.intake.bytes_arrived(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed_in_order = error is None
        self.refused = error is not None and refuses(error)
        if self.ended is None:
            self.ended = "connection closed" if error is None else str(error)
        if not self._gone.done():
            self._gone.set_result(None)
        if self.intake is not None:
            self.intake.wire_ended(self, self.ended)

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self, *, paused: bool) -> None:
        """Leave bytes in the socket, or read them again."""
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def abort(self) -> None:
        self._transport.abort()

    async def read_to_end(self, timeout_s: float) -> None:
        """Keep the connection until the broker has read everything and closes it, then release it.

        The broker answers each PUBREC. Its first answer to a closed socket would bring a reset, and the
        acknowledgements behind it would be lost: their messages would come again to the next gateway.
        """
        self.pause(paused=False)
        # A broker that does not close: whatever it has not read by now comes again, as after a kill.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._gone), timeout_s)
        self._transport.abort()
        await asyncio.wait((self._gone,), timeout=timeout_s)
