"""The relay to a broker that is there passes on bytes, ends and resets as they come; on loopback, without a link."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest

from ivsim.testbed.relay import relay

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def relayed(peer: Peer) -> AsyncIterator[tuple[str, int]]:
    """Yield where the relay to a server listens that treats each connection so."""
    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    listening, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    target = server.sockets[0].getsockname()
    task = asyncio.ensure_future(relay(listening, target[0], target[1], stop))
    try:
        yield listening.getsockname()
    finally:
        stop.set()
        await task
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4_096):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()


async def test_bytes_come_as_they_were_sent_and_an_end_after_them() -> None:
    random = Random(1)
    sent = random.randbytes(3_000_000)
    async with relayed(echo) as where:
        reader, writer = await asyncio.open_connection(*where)

        async def send() -> None:
            at = 0
            while at < len(sent):
                size = random.choice((1, 100, 70_000))
                writer.write(sent[at : at + size])
                await writer.drain()
                at += size
            writer.write_eof()

        task = asyncio.ensure_future(send())
        came = await reader.read(-1)
        await task
        writer.close()
    assert hashlib.sha256(came).digest() == hashlib.sha256(sent + b"end").digest()


async def test_a_reader_that_stands_still_holds_the_sender_back() -> None:
    over = asyncio.Event()

    async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.transport.abort()

    async with relayed(deaf) as where:
        _reader, writer = await asyncio.open_connection(*where)
        writer.transport.set_write_buffer_limits(0)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while True:
                writer.write(bytes(1_000_000))
                sent += 1_000_000
                await asyncio.wait_for(writer.drain(), 1.0)
        writer.transport.abort()
        over.set()
    assert sent < 40_000_000, "the buffers of two connections, and not all that is sent"


async def test_a_reset_of_the_target_is_a_reset_of_the_vehicle() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()

    async with relayed(reset) as where:
        reader, writer = await asyncio.open_connection(*where)
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()


async def test_a_vehicle_that_goes_takes_its_own_connection_along() -> None:
    ended: asyncio.Queue[bytes] = asyncio.Queue()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await ended.put(await reader.read(-1))
        except ConnectionResetError:
            await ended.put(b"reset")
        finally:
            writer.close()

    async with relayed(note) as where:
        _reader, writer = await asyncio.open_connection(*where)
        writer.write(b"bye")
        writer.close()
        assert await asyncio.wait_for(ended.get(), 5) == b"bye"
        _reader, writer = await asyncio.open_connection(*where)
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()
        assert await asyncio.wait_for(ended.get(), 5) in (b"reset", b"")


async def test_a_target_that_is_away_resets_the_vehicle_and_is_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    listening, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    task = asyncio.ensure_future(relay(listening, "127.0.0.1", port, stop))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    writer.close()
    stop.set()
    await task
    assert f"relay: 127.0.0.1:{port}: " in capfd.readouterr().err
