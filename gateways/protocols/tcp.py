"""What the kernel says of a TCP connection, and of one that it could not make; it sends nothing."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from typing import Final, Protocol

# States of a connection that the peer's FIN or RST leaves (tcp_states.h).
_CLOSE, _CLOSE_WAIT = 7, 8
_ENDED_BY_PEER: Final = frozenset({_CLOSE, _CLOSE_WAIT})


class HasDescriptor(Protocol):
    """A socket, or what asyncio and ssl show in its place."""

    def fileno(self) -> int: ...


def unacknowledged_bytes(sock: HasDescriptor) -> int:
    """Return how many bytes the peer's TCP has not acknowledged yet (tcp(7), SIOCOUTQ)."""
    count: int = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return count


def ended_by_peer(sock: socket.socket) -> bool:
    """Say whether the peer's FIN or RST has ended a connection, or TCP has given it up after minutes (tcp(7), TCP_INFO)."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _ENDED_BY_PEER


def reason_of(error: OSError) -> str:
    """Return why a connection failed, in the system's words; asyncio's own name the address and not what is wrong."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(error.strerror or error)
