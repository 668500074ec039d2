"""A fast publisher for benchmarks: ready-made MQTT 3.1.1 frames on a blocking socket, no client library."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from itertools import islice

_CONNECT, _PUBLISH, _DISCONNECT = 0x10, 0x30, b"\xe0\x00"
_WINDOW = 500


def remaining_length(length: int) -> bytes:
    """Encode MQTT's variable byte integer."""
    out = bytearray()
    while True:
        length, digit = divmod(length, 128)
        out.append(digit | (128 if length else 0))
        if not length:
            return bytes(out)


def text(value: str) -> bytes:
    """Encode MQTT's string: two bytes of length, then UTF-8."""
    data = value.encode()
    return struct.pack("!H", len(data)) + data


def connect_frame(client_id: str, keepalive_s: int = 0) -> bytes:
    """Return CONNECT with a clean session."""
    body = text("MQTT") + bytes((4, 2)) + struct.pack("!H", keepalive_s) + text(client_id)
    return bytes((_CONNECT,)) + remaining_length(len(body)) + body


def publish_frame(topic: str, payload: bytes, qos: int, mid: int) -> bytes:
    """Return PUBLISH."""
    body = text(topic) + (struct.pack("!H", mid) if qos else b"") + payload
    return bytes((_PUBLISH | qos << 1,)) + remaining_length(len(body)) + body


def publish_all(address: tuple[str, int], client_id: str, messages: Iterable[tuple[str, bytes]]) -> int:
    """Publish every (topic, payload) at QoS 1 and wait for each PUBACK; return how many."""
    count = 0
    with socket.create_connection(address) as sock:
        sock.sendall(connect_frame(client_id))
        _exactly(sock, 4)
        for chunk in _chunks(iter(messages)):
            frames = (publish_frame(t, p, 1, mid) for mid, (t, p) in enumerate(chunk, 1))
            sock.sendall(b"".join(frames))
            _exactly(sock, 4 * len(chunk))
            count += len(chunk)
        sock.sendall(_DISCONNECT)
    return count


def throw(address: tuple[str, int], data: bytes) -> None:
    """Send bytes on a connection of their own and drop it without waiting for an answer."""
    with socket.create_connection(address) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))


def _chunks(messages: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    while chunk := list(islice(messages, _WINDOW)):
        yield chunk


def _exactly(sock: socket.socket, length: int) -> bytes:
    out = b""
    while len(out) < length:
        piece = sock.recv(length - len(out))
        if not piece:
            raise ConnectionError("the broker has closed the connection")
        out += piece
    return out
