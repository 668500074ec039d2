"""TLS on sockets that must not block the event loop; it knows no protocol above it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from gateways.protocols.base import Endpoint


def tls_context(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the context that verifies the peer, or None for a plain connection."""
    if endpoint.tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=endpoint.tls.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if endpoint.tls.certificate_file is not None:
        context.load_cert_chain(endpoint.tls.certificate_file, endpoint.tls.key_file)
    return context


async def shake_hands(sock: Any) -> None:
    """Do the handshake of a non-blocking `ssl.SSLSocket` while the loop goes on."""
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(sock, read=True)
        except ssl.SSLWantWriteError:
            await _ready(sock, read=False)
        else:
            return


async def _ready(sock: socket.socket, *, read: bool) -> None:
    """Wait until the socket can be read, or written."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    (loop.add_reader if read else loop.add_writer)(sock.fileno(), event.set)
    try:
        await event.wait()
    finally:
        (loop.remove_reader if read else loop.remove_writer)(sock.fileno())
