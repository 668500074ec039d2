"""pika's I/O services on asyncio's own transports: a chosen source address, one segment per publish.

pika's asyncio adapter reads 4 KiB at a time and writes a publish as three segments; it cannot bind a source
address either. Everything here is pika's public interface for adapters.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from pika.adapters.utils import nbio_interface

from gateways.protocols.amqp_wire import FrameError
from gateways.protocols.tcp import unacknowledged_bytes

# Past this, waiting for the end of the loop's turn saves nothing.
_COALESCE_BYTES: Final = 65_536
# Bounds the copying in pika's frame buffer, which cuts its head off once per frame.
_PIECE_BYTES: Final = 8_192


class Stream(asyncio.Protocol, nbio_interface.AbstractStreamTransport):  # type: ignore[misc]
    """One connection's bytes, between asyncio's transport and pika's protocol object.

    `tap` takes the bytes read and returns those that are left for pika.

    Attributes:
        congested: the system has not taken all that was written.
        on_drained: called when everything written has been taken by the system.
    """

    def __init__(self, factory: Callable[[], Any], tap: Callable[[bytes], bytes] | None) -> None:
        self._factory = factory
        self._tap = tap
        self._protocol: Any = None
        self._transport: Any = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._reason: Exception = ConnectionResetError("the stream has ended")
        self.congested = False
        self.on_drained: Callable[[], None] | None = None

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=0)  # any byte left over counts as congestion
        self._protocol = self._factory()
        self._protocol.connection_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            left = data if self._tap is None else self._tap(data)
        except (FrameError, IndexError) as error:
            # What follows cannot be told from noise: end it, and the owner connects anew.
            self.lose(error)
            return
        for start in range(0, len(left), _PIECE_BYTES):
            self._protocol.data_received(left[start : start + _PIECE_BYTES])

    def eof_received(self) -> bool | None:
        return bool(self._protocol.eof_received())

    def connection_lost(self, error: Exception | None) -> None:
        self._pending.clear()
        # pika takes "no error" for an end that it asked for itself.
        if error is None and not self._left:
            error = self._reason
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        if self.on_drained is not None:
            self.on_drained()

    # pika's transport

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
        if self._pending and not self._transport.is_closing():
            self._transport.write(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0

    def abort(self) -> None:
        self._left = True
        self.flush()
        self._transport.abort()

    def lose(self, reason: Exception) -> None:
        """End the stream because of what the peer did, or to stand for a network that failed."""
        self._reason = reason
        self._transport.abort()

    def get_protocol(self) -> Any:
        return self._protocol

    def get_write_buffer_size(self) -> int:
        return self._pending_bytes + int(self._transport.get_write_buffer_size())

    def unwritten(self) -> bool:
        """Say whether bytes wait here or in the socket, not yet acknowledged by the peer's TCP."""
        if self.get_write_buffer_size() > 0:
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


class Services(nbio_interface.AbstractIOServices):  # type: ignore[misc]
    """What pika asks of an event loop; the loop itself belongs to the caller and is never closed here.

    Attributes:
        stream: the newest connection's stream, once there is one.
    """

    def __init__(self, source_address: str | None, tap: Callable[[bytes], bytes] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._source_address = source_address
        self._tap = tap
        self.stream: Stream | None = None

    def get_native_ioloop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def close(self) -> None:
        """The loop is not ours."""

    def run(self) -> None:
        """The loop runs already."""

    def stop(self) -> None:
        """The loop is not ours."""

    def add_callback_threadsafe(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay, callback)

    def getaddrinfo(  # noqa: PLR0917 - pika calls it by position
        self,
        host: str,
        port: int,
        on_done: Callable[[Any], None],
        family: int = 0,
        socktype: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Reference:
        """Resolve at once: our addresses are literals, and a thread would be one per vehicle."""
        try:
            result: Any = socket.getaddrinfo(host, port, family, socktype, proto, flags)
        except OSError as error:
            result = error
        return Reference(self._loop.call_soon(on_done, result))

    def connect_socket(
        self, sock: socket.socket, resolved_addr: tuple[str, int], on_done: Callable[[Any], None]
    ) -> Reference:
        return self._run(self._connect(sock, resolved_addr), on_done)

    async def _connect(self, sock: socket.socket, address: tuple[str, int]) -> None:
        if self._source_address is not None:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((self._source_address, 0))
        await self._loop.sock_connect(sock, address)

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: Callable[[Any], None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> Reference:
        return self._run(self._stream(protocol_factory, sock, ssl_context, server_hostname), on_done)

    async def _stream(
        self,
        factory: Callable[[], Any],
        sock: socket.socket,
        context: ssl.SSLContext | None,
        server_hostname: str | None,
    ) -> tuple[Stream, Any]:
        try:
            _transport, stream = await self._loop.create_connection(
                lambda: Stream(factory, self._tap), sock=sock, ssl=context, server_hostname=server_hostname
            )
        except BaseException:
            sock.close()
            raise
        self.stream = stream
        return stream, stream.get_protocol()

    def _run(self, coroutine: Any, on_done: Callable[[Any], None]) -> Reference:
        task = self._loop.create_task(coroutine)

        def report(done: asyncio.Task[Any]) -> None:
            if not done.cancelled():
                on_done(done.exception() or done.result())

        task.add_done_callback(report)
        return Reference(task)


class Reference(nbio_interface.AbstractIOReference):  # type: ignore[misc]
    """Something under way that pika may cancel."""

    def __init__(self, subject: asyncio.Handle | asyncio.Task[Any]) -> None:
        self._subject = subject

    def cancel(self) -> bool:
        self._subject.cancel()
        return True
