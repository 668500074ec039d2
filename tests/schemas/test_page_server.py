"""A page's bounds, one by one: what is told beyond each, and that nothing of it reaches the process whose page it is."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schemas import page_server
from schemas.page_server import (
    ANSWER_S,
    MAX_CONNECTIONS,
    MAX_HEADER_BYTES,
    Answer,
    PageServer,
    listening_socket,
)


def answer(target: str) -> Answer:
    if target == "/broken":
        raise ValueError("an error of the page's own")
    return Answer("200 OK", "text/plain", target.encode() * (1_000_000 if target == "/long" else 1))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A page; whatever reached the event loop's exception handler would have ended a gateway."""
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: broken.append(context))
    sock = listening_socket(0)
    async with PageServer(sock, answer):
        yield sock.getsockname()[1]
    assert broken == []


async def said(port: int, asked: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(asked)
    try:
        with contextlib.suppress(ConnectionError):  # closed with some of the request unread
            return await reader.read()
        return b""
    finally:
        writer.close()


def get(target: str = "/", *, size: int = 0, method: str = "GET") -> bytes:
    """Return a request of that size in bytes."""
    head = f"{method} {target} HTTP/1.1\r\nfilling: ".encode()
    return head + b"x" * max(size - len(head) - 4, 0) + b"\r\n\r\n"


async def test_what_is_asked_is_answered(port: int) -> None:
    assert (await said(port, get("/a"))).endswith(b"\r\n\r\n/a")
    assert len(await said(port, get("/long"))) > 5_000_000
    head = await said(port, get("/a", method="HEAD"))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 2\r\n" in head
    assert head.endswith(b"\r\n\r\n")
    assert b" 405 " in await said(port, get("/a", method="POST"))
    assert await said(port, get("/broken")) == b""
    assert (await said(port, get("/a"))).endswith(b"/a")


@pytest.mark.parametrize(
    ("size", "status"),
    [
        (MAX_HEADER_BYTES - 1, b"200"),
        (MAX_HEADER_BYTES, b"200"),
        (MAX_HEADER_BYTES + 1, b"431"),
        (100 * MAX_HEADER_BYTES, b"431"),
    ],
)
async def test_a_header_has_a_bound(port: int, size: int, status: bytes) -> None:
    told = await said(port, get(size=size))
    # Of much that is left unread the kernel tells by a reset, which may overtake the answer.
    assert told[9:12] == status or (told == b"" and status == b"431")


async def test_a_header_without_an_end_is_refused_at_the_bound(port: int) -> None:
    assert (await said(port, b"GET / HTTP/1.1\r\n" + b"x" * (MAX_HEADER_BYTES - 16)))[9:12] == b"431"


@pytest.mark.parametrize("count", [MAX_CONNECTIONS - 1, MAX_CONNECTIONS, 10 * MAX_CONNECTIONS])
async def test_connections_have_a_bound_and_those_beyond_are_told(port: int, count: int) -> None:
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    assert (await said(port, get()))[9:12] == (b"200" if count < MAX_CONNECTIONS else b"503")
    for _, writer in idle:
        writer.close()
    await asyncio.sleep(0.1)
    assert (await said(port, get()))[9:12] == b"200"


async def test_an_idle_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ANSWER_S == 5.0
    monkeypatch.setattr(page_server, "ANSWER_S", 0.1)
    sock = listening_socket(0)
    async with PageServer(sock, answer):
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        async with asyncio.timeout(30):
            assert await reader.read() == b""
        writer.close()


async def test_a_process_without_a_free_descriptor_answers_later(port: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = socket.socket()
    client.setblocking(False)
    lowest_free = client.fileno() + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, get("/a"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_recv(client, 100), 0.3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    async with asyncio.timeout(30):
        assert (await loop.sock_recv(client, 1_000)).endswith(b"/a")
    client.close()
