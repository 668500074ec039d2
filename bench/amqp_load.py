"""A fast AMQP 0-9-1 publisher for benchmarks: ready-made frames on a blocking socket, no client library."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import islice

import pika

from gateways.protocols.amqp.connection import EXCHANGE

_CHUNK = 500
_PERSISTENT = b"\x10\x00\x02"


def frame(kind: int, payload: bytes) -> bytes:
    """Return one frame on channel 1 (AMQP 0-9-1, 4.2.3)."""
    return struct.pack("!BHL", kind, 1, len(payload)) + payload + b"\xce"


def short_string(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def publish_frames(key: str, payload: bytes) -> bytes:
    """Return Basic.Publish with a persistent message."""
    method = b"\x00\x3c\x00\x28\x00\x00" + short_string(EXCHANGE) + short_string(key) + b"\x00"
    header = b"\x00\x3c\x00\x00" + struct.pack("!Q", len(payload)) + _PERSISTENT
    return frame(1, method) + frame(2, header) + frame(3, payload)


def fill_queue(address: tuple[str, int], queue: str, messages: Iterable[tuple[str, bytes]]) -> int:
    """Declare and bind `queue`, publish every (routing key, payload) and wait until all are in it."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*address))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, EXCHANGE, "vehicles.#")
    # pika has done the handshake; the socket itself is faster than its publish.
    sock = connection._impl._transport._sock  # noqa: SLF001
    sock.setblocking(True)
    count, remaining = 0, iter(messages)
    while chunk := list(islice(remaining, _CHUNK)):
        sock.sendall(b"".join(publish_frames(key, payload) for key, payload in chunk))
        count += len(chunk)
    sock.setblocking(False)
    while channel.queue_declare(queue, passive=True).method.message_count < count:
        connection.process_data_events(0.05)
    connection.close()
    return count


def delete_queue(address: tuple[str, int], queue: str) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*address))
    connection.channel().queue_delete(queue)
    connection.close()
