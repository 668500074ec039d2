"""TLS on sockets that must not block the event loop; it knows no protocol above it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from gateways.protocols.base import Tls
from schemas.errors import Refusal


@lru_cache(maxsize=16)
def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context that verifies the peer, one for all connections that use the same files.

    Reading the authority's file takes longer than a handshake. Refusal names a file that cannot be used.
    """
    for name, path in asdict(tls).items():
        if path is not None:
            _check_readable(name, path)
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca_file)
    except ssl.SSLError as error:
        raise Refusal(f"tls.ca_file {tls.ca_file}: no certificates in PEM form: {error.reason}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate_file is not None:
        try:
            context.load_cert_chain(tls.certificate_file, tls.key_file)
        except ssl.SSLError as error:
            where = f"tls.certificate_file {tls.certificate_file}, tls.key_file {tls.key_file}"
            raise Refusal(f"{where}: no certificate and its key in PEM form: {error.reason}") from error
    return context


def _check_readable(name: str, path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise Refusal(f"tls.{name} {path}: {error.strerror}") from error


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
