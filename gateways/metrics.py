"""The gateway's counters as a Prometheus page on a local port; it counts nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping

_GAUGES = frozenset({"connected", "held", "held_bytes", "paused", "mqtt_held", "message_ids_remembered"})
_REQUEST_TIMEOUT_S = 5.0


def page(values: Mapping[str, int], labels: Mapping[str, str]) -> str:
    """Return the text exposition format, version 0.0.4."""
    label_text = ",".join(f'{k}="{v}"' for k, v in labels.items())
    lines: list[str] = []
    for name, value in values.items():
        gauge = name in _GAUGES
        metric = f"ivsim_gateway_{name}" + ("" if gauge else "_total")
        lines.append(f"# TYPE {metric} {'gauge' if gauge else 'counter'}")
        lines.append(f"{metric}{{{label_text}}} {value}")
    return "\n".join(lines) + "\n"


def listening_socket(port: int) -> socket.socket:
    """Bind 127.0.0.1 now; a socket stays in the network namespace in which it was made."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(8)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def serve(sock: socket.socket, text: Callable[[], str]) -> asyncio.Server:
    """Answer every request on `sock` with `text()`; the caller closes the server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError, ValueError):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_TIMEOUT_S)
            body = text().encode()
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    return await asyncio.start_server(answer, sock=sock)
