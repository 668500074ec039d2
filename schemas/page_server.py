"""A page on loopback for Prometheus and for probes, which can never end or stop the process whose page it is.

Three bounds, and what is beyond each: a request's header has 8 KiB (431), 32 connections at a time (503, and closed), five
seconds from the first byte to the last (closed). A machine without free descriptors gets its answer later. It accepts by
itself: asyncio's own server tells the event loop's exception handler of a full table of descriptors, and that handler
ends a gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

HOST: Final = "127.0.0.1"
MAX_HEADER_BYTES: Final = 8_192
MAX_CONNECTIONS: Final = 32
ANSWER_S: Final = 5.0
EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
_END: Final = b"\r\n\r\n"
_AGAIN_S: Final = 0.5
_LOG: Final = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What a request gets; `status` with its words, "200 OK"."""

    status: str
    content_type: str
    body: bytes


class PageServer:
    """`async with PageServer(sock, answer)`; the socket is closed at its end.

    Args:
        sock: `listening_socket`.
        answer: takes the target of a GET or HEAD, "/metrics"; what it raises closes the connection, and is in the log.
    """

    def __init__(self, sock: socket.socket, answer: Callable[[str], Answer]) -> None:
        self._socket, self._answer = sock, answer
        self._talks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._accepting = asyncio.get_running_loop().create_task(self._accept())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        tasks = [self._accepting, *self._talks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError:  # no descriptor is free, or the peer has gone again
                await asyncio.sleep(_AGAIN_S)
                continue
            task = loop.create_task(self._talk(connection, busy=len(self._talks) >= MAX_CONNECTIONS))
            self._talks.add(task)
            task.add_done_callback(self._talks.discard)

    async def _talk(self, connection: socket.socket, *, busy: bool) -> None:
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        try:
            with connection, contextlib.suppress(OSError, TimeoutError):
                if busy:
                    # Never waits: what a socket takes at once is enough for it.
                    connection.send(_response(_plain("503 Service Unavailable"), head=False))
                    return
                async with asyncio.timeout(ANSWER_S):
                    await loop.sock_sendall(connection, await self._response(connection))
        except Exception:  # noqa: BLE001 - a task that raises would reach the event loop's exception handler
            _LOG.exception("page")

    async def _response(self, connection: socket.socket) -> bytes:
        loop, asked = asyncio.get_running_loop(), b""
        while (end := asked.find(_END)) < 0 and len(asked) < MAX_HEADER_BYTES:
            data = await loop.sock_recv(connection, MAX_HEADER_BYTES)
            if not data:
                return b""
            asked += data
        if end < 0 or end + len(_END) > MAX_HEADER_BYTES:
            return _response(_plain("431 Request Header Fields Too Large"), head=False)
        method, _, rest = asked.partition(b" ")
        if method not in {b"GET", b"HEAD"}:
            return _response(_plain("405 Method Not Allowed"), head=False)
        target = rest.partition(b" ")[0].decode("ascii", "replace")
        return _response(self._answer(target), head=method == b"HEAD")


def _plain(status: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{status}\n".encode())


def _response(answer: Answer, *, head: bool) -> bytes:
    top = (
        f"HTTP/1.1 {answer.status}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return top.encode() + (b"" if head else answer.body)


def listening_socket(port: int) -> socket.socket:
    """Bind 127.0.0.1 now, OSError where it is taken; a socket stays in the network namespace in which it was made."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        sock.listen(MAX_CONNECTIONS)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
