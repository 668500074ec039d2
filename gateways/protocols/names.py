"""The address of a host: of a literal at once, of a name without stopping the event loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

# What `socket.getaddrinfo` says of an address: family, type, protocol, name, address.
AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


async def address_of(
    host: str, port: int, kind: socket.SocketKind, family: socket.AddressFamily = socket.AF_UNSPEC
) -> AddressInfo:
    """Return the first address of `host`; the caller limits the wait. Raises OSError.

    A literal needs no thread, of which a fleet would have one per vehicle.
    """
    try:
        return socket.getaddrinfo(host, port, family, kind, flags=socket.AI_NUMERICHOST)[0]
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return (await loop.getaddrinfo(host, port, family=family, type=kind))[0]
