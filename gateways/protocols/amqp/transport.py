"""One connection's bytes on asyncio's own transports: a chosen source address, one segment per publish.

It knows no AMQP. pika's own adapters read 4 KiB at a time, write one publish as three segments, and cannot bind a
source address (docs/decisions/amqp-and-coap.md).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

from gateways.protocols.names import address_of
from gateways.protocols.tcp import unacknowledged_bytes
from gateways.protocols.tls import TlsClient

# Past this, waiting for the end of the loop's turn saves nothing.
_COALESCE_BYTES: Final = 65_536


class Stream(asyncio.Protocol):
    """What is read goes to `receive`; what is written in one turn of the loop leaves together.

    Args:
        receive: called with the bytes read; what it raises of `noise` ends the stream for that reason.
        ended: called once, with the reason, or None for an end by `abort`.
        noise: exceptions that mean that the peer's bytes make no sense.

    Attributes:
        congested: the system has not taken all that was written.
        tls: whose connection it is until the peer's first word; None from then on, and without TLS.
        on_drained: called when everything written has been taken by the system.
    """

    def __init__(
        self,
        receive: Callable[[bytes], None],
        ended: Callable[[Exception | None], None],
        noise: tuple[type[Exception], ...],
    ) -> None:
        self._receive = receive
        self._ended = ended
        self._noise = noise
        self._transport: Any = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._reason: Exception = ConnectionResetError("the stream has ended")
        self.congested = False
        self.tls: TlsClient | None = None
        self.on_drained: Callable[[], None] | None = None

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        # Any byte left over counts as congestion: asyncio's sockets pause above the mark, its TLS at the mark.
        transport.set_write_buffer_limits(high=0 if transport.get_extra_info("sslcontext") is None else 1)

    def data_received(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.settled()
            self.tls = None
        try:
            self._receive(data)
        except self._noise as error:
            # What follows cannot be told from noise: end it, and the owner connects anew.
            self.lose(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._pending.clear()
        if self.tls is not None:
            error = self.tls.last_words() or error
        self._ended(None if self._left else error or self._reason)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        if self.on_drained is not None:
            self.on_drained()

    # the owner's

    def write(self, data: bytes) -> None:
        """Collect what one turn of the loop writes: method, header and body of a publish in one segment."""
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _COALESCE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand the collected bytes to the system now."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending and not self._transport.is_closing():
            # TLS may call `resume_writing` from within: what is written then belongs to the next turn.
            self._transport.write(b"".join(pending))

    def abort(self) -> None:
        """End the stream because its owner is done with it."""
        self._left = True
        self.flush()
        self._transport.abort()

    def lose(self, reason: Exception) -> None:
        """End the stream because of what the peer did, or to stand for a network that failed."""
        self._reason = reason
        self._transport.abort()

    def unwritten(self) -> bool:
        """Say whether bytes wait here or in the socket, not yet acknowledged by the peer's TCP."""
        if self._pending_bytes or self._transport.get_write_buffer_size() > 0:
            return True
        sock = self._transport.get_extra_info("socket")
        return not self._transport.is_closing() and sock is not None and unacknowledged_bytes(sock) > 0

    def set_reading(self, *, reading: bool) -> None:
        """Leave what comes in the socket, or read it again; either may be said twice."""
        if self._transport.is_closing():
            return
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


async def connect_stream(
    make: Callable[[], Stream],
    host: str,
    port: int,
    *,
    source_address: str | None,
    tls: TlsClient | None,
) -> Stream:
    """Connect TCP, and TLS for a client that has it; return the stream. Raises OSError and leaves nothing open.

    The caller limits the wait.
    """
    family, kind, protocol, _name, address = await address_of(host, port, socket.SOCK_STREAM)
    loop = asyncio.get_running_loop()

    def made() -> Stream:
        stream = make()
        stream.tls = tls
        return stream

    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source_address is not None:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((source_address, 0))
        await loop.sock_connect(sock, address)
        if tls is None:
            _transport, stream = await loop.create_connection(make, sock=sock)
        else:
            tls.watch(sock)
            with tls.resuming() as context:
                _transport, stream = await loop.create_connection(
                    made, sock=sock, ssl=context, server_hostname=tls.name_of(host)
                )
    except BaseException:
        sock.close()
        if tls is not None:
            tls.settled()
        raise
    return stream
