"""A fast publisher for benchmarks: ready-made MQTT 3.1.1 frames on a blocking socket, no client library."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice

_CONNECT, _PUBLISH, _DISCONNECT = 0x10, 0x30, b"\xe0\x00"
_WINDOW = 500
_ACKNOWLEDGED_S = 30.0


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


def publish_paced(
    address: tuple[str, int], client_id: str, messages: Iterable[tuple[str, bytes]], per_s: float
) -> int:
    """Publish open loop at QoS 1, each message when it is due whatever became of the last; return how many.

    PUBACKs are read by a thread: waiting for them would turn the load into bursts.
    """
    count = 0
    with socket.create_connection(address) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(connect_frame(client_id))
        _exactly(sock, 4)
        acknowledged = threading.Event()
        expected = [-1]
        reader = threading.Thread(target=_swallow_pubacks, args=(sock, expected, acknowledged), daemon=True)
        reader.start()
        begin_s = time.monotonic()
        for index, (topic, payload) in enumerate(messages):
            wait_s = begin_s + index / per_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            sock.sendall(publish_frame(topic, payload, 1, index % 65_535 + 1))
            count += 1
        expected[0] = count
        acknowledged.wait(_ACKNOWLEDGED_S)
        sock.sendall(_DISCONNECT)
    return count


def _swallow_pubacks(sock: socket.socket, expected: list[int], done: threading.Event) -> None:
    """Read four bytes a PUBACK until as many have come as were sent."""
    seen = 0
    with contextlib.suppress(OSError):
        while expected[0] < 0 or seen < 4 * expected[0]:
            sock.settimeout(0.1)
            try:
                data = sock.recv(65_536)
            except TimeoutError:
                continue
            if not data:
                return
            seen += len(data)
    done.set()
