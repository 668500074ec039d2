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

from ivsim.testbed.process import hold_port
from ivsim.testbed.relay import relay
from ivsim.testbed.udp_relay import UdpRelay

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
    listening, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    with hold_port() as closed:
        port = closed.getsockname()[1]
        task = asyncio.ensure_future(relay(listening, "127.0.0.1", port, stop))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        stop.set()
        await task
    assert f"relay: 127.0.0.1:{port}: " in capfd.readouterr().err


async def test_one_connection_more_than_the_relay_may_have_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivsim.testbed.relay.MAX_CONNECTIONS", 3)

    async def answered(where: tuple[str, int]) -> tuple[asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection(*where)
        with contextlib.suppress(ConnectionResetError):
            writer.write(b"x")
            return writer, await asyncio.wait_for(reader.read(1), 5)
        return writer, b"reset"

    async with relayed(echo) as where:
        kept = [await answered(where) for _ in range(3)]
        assert [data for _, data in kept] == [b"x"] * 3
        over = [await answered(where) for _ in range(5)]
        assert {data for _, data in over} <= {b"reset", b""}
        # Those that were there go on, and one that goes makes room.
        kept[0][0].close()
        async with asyncio.timeout(5):
            while (again := await answered(where))[1] != b"x":
                again[0].close()
        for writer, _ in [*kept, *over, again]:
            writer.close()


async def test_beyond_its_limit_the_udp_relay_forgets_whom_it_has_not_heard_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ivsim.testbed.udp_relay.MAX_PEERS", 2)
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:

        def bound() -> socket.socket:
            made = stack.enter_context(
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            )
            made.bind(("127.0.0.1", 0))
            return made

        near, target, *vehicles = (bound() for _ in range(5))
        relay = UdpRelay(near, socket.AF_INET, target.getsockname())
        relay.open()
        stack.callback(relay.close)

        async def sent(vehicle: socket.socket) -> tuple[str, int]:
            """Return from where the target has the vehicle's datagram; its answer finds the vehicle."""
            vehicle.sendto(b"up", near.getsockname())
            data, seen_at = await asyncio.wait_for(loop.sock_recvfrom(target, 100), 5)
            target.sendto(b"down", seen_at)
            assert (data, await asyncio.wait_for(loop.sock_recv(vehicle, 100), 5)) == (b"up", b"down")
            return seen_at

        first, second = [await sent(vehicle) for vehicle in vehicles[:2]]
        assert await sent(vehicles[0]) == first, "within the limit each keeps its own"
        third = await sent(vehicles[2])
        assert len({first, second, third}) == 3
        assert await sent(vehicles[0]) == first, "heard behind the second, which was forgotten"
        assert len(relay._far) == 2
