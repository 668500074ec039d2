"""A relay of TCP connections from the cloud's end of a link to a server outside: bytes as they are, ends as they come.

`python -m ivsim.testbed.relay NAMESPACE HOST PORT TARGET_HOST TARGET_PORT READY`: it listens in the namespace, connects from where
it was started, and makes the file READY when it listens. Vehicles behind an emulated link reach a server this way that is
not in their network, without a change of the host's routes or filters. It adds two copies of each byte and no wait of its
own: data is passed on as soon as it can be read, and a reader is held back while the writer is, by asyncio's high-water
mark of each connection. An end of one side is passed on after what came before it, a reset at once. One connection more than
it may have is reset. It knows no protocol, and TLS goes through it unread.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from pathlib import Path
from typing import Final

from schemas.loop_commands import stop_on_signal
from schemas.namespace import inside
from schemas.outlet import ERR
from schemas.topics import MAX_VEHICLES

BACKLOG: Final = 4_096
READ_BYTES: Final = 65_536
CONNECT_S: Final = 10.0
MAX_CONNECTIONS: Final = MAX_VEHICLES
# SO_LINGER on with 0 s: close sends RST (socket(7)).
_RESET: Final = struct.pack("ii", 1, 0)


async def relay(listening: socket.socket, host: str, port: int, stop: asyncio.Event) -> None:
    """Relay every connection that `listening` takes to the target, until `stop`."""
    running: set[asyncio.Task[None]] = set()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(running) >= MAX_CONNECTIONS:
            _abort(writer)
            return
        running.add(task)
        try:
            await _joined(reader, writer, host, port)
        finally:
            running.discard(task)

    server = await asyncio.start_server(taken, sock=listening, limit=READ_BYTES, backlog=BACKLOG)
    try:
        await stop.wait()
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _joined(
    near_reader: asyncio.StreamReader, near: asyncio.StreamWriter, host: str, port: int
) -> None:
    _without_delay(near)
    try:
        async with asyncio.timeout(CONNECT_S):
            far_reader, far = await asyncio.open_connection(host, port, limit=READ_BYTES)
    except (OSError, TimeoutError) as error:
        ERR.write(f"relay: {host}:{port}: {error or 'no answer'}\n", 0.0)
        _abort(near)
        return
    _without_delay(far)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(near_reader, far))
            group.create_task(_pump(far_reader, near))
    except* OSError:  # a reset: the other side gets one, too
        pass
    finally:
        for writer in (near, far):
            _abort(writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the reader's end, and end the writer's side then; OSError when either is reset."""
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _without_delay(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close now: in order where both ends have come, by a reset where something was left."""
    if not writer.transport.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def until_stopped(listening: socket.socket, host: str, port: int) -> None:
    """Relay every connection that `listening` takes to the target, until SIGTERM."""
    stop = asyncio.Event()
    stop_on_signal(stop)
    await relay(listening, host, port, stop)


def main(arguments: list[str]) -> None:
    """Listen in the namespace, then relay until SIGTERM."""
    namespace, host, port, target_host, target_port, ready = arguments
    with inside(namespace):
        listening = socket.create_server((host, int(port)), backlog=BACKLOG)
    Path(ready).touch()
    asyncio.run(until_stopped(listening, target_host, int(target_port)))


if __name__ == "__main__":
    main(sys.argv[1:])
