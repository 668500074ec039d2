"""Reads deliveries out of AMQP 0-9-1 frames in bulk (4.2.3); leaves every other frame for pika."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

_METHOD, _HEADER, _BODY = 1, 2, 3
_KINDS: Final = frozenset({_METHOD, _HEADER, _BODY, 8})  # 8: heartbeat
# The largest that pika agrees to (its default frame-max), so that noise is not waited for.
MAX_FRAME_BYTES: Final = 131_072
# Of a message; what a packet of MQTT may have: below what Kafka takes, above any payload of a vehicle.
MAX_BODY_BYTES: Final = 12_582_912
# Of a longer one so much is kept, for the dead letters.
BEGINNING_BYTES: Final = 1_048_576
_FRAME_END: Final = 0xCE
_OVERHEAD_BYTES: Final = 8
_BASIC_DELIVER: Final = b"\x00\x3c\x00\x3c"

# delivery tag, redelivered, routing key, payload, content type (empty where it says none)
Deliver = Callable[[int, bool, bytes, bytes, bytes], None]
# delivery tag, redelivered, routing key, the body's beginning, how long it was
Oversized = Callable[[int, bool, bytes, bytes, int], None]


class Takers(NamedTuple):
    """Who takes deliveries, and those whose body is over the limit."""

    deliver: Deliver
    oversized: Oversized


class FrameError(ValueError):
    """Bytes that are no AMQP frame, or frames out of order: the connection is worth nothing any more."""


class DeliveryReader:
    """Cuts bytes into frames; `feed` hands on whole deliveries and returns the other frames untouched."""

    def __init__(self, takers: Takers) -> None:
        self._deliver, self._oversized = takers
        self._rest = b""
        self._open = False
        self._tag = 0
        self._redelivered = False
        self._key = b""
        self._content_type = b""
        # Of the body: how long it is, how much is still to come, and how much of that is kept.
        self._size, self._missing, self._room = 0, -1, 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they come. Raises FrameError."""
        if self._rest:
            data = self._rest + data
        others: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= _OVERHEAD_BYTES - 1:
            kind = data[at]
            start = at + 7
            stop = start + int.from_bytes(data[at + 3 : start], "big")
            if kind not in _KINDS or stop - start > MAX_FRAME_BYTES:
                raise FrameError(f"no AMQP frame: type {kind}, {stop - start} bytes")
            if stop >= end:
                break
            if data[stop] != _FRAME_END:
                raise FrameError(f"AMQP frame of type {kind} without its end octet")
            if kind == _BODY and self._open:
                self._body(data[start:stop])
            elif kind == _METHOD and data[start : start + 4] == _BASIC_DELIVER:
                self._method(data, start + 4, stop)
            elif kind == _HEADER and self._open:
                # The content type is the first of the properties, behind the flags that say which there are (4.2.6.1).
                said = (
                    data[start + 15 : min(stop, start + 15 + data[start + 14])]
                    if data[start + 12] & 0x80
                    else b""
                )
                self._header(int.from_bytes(data[start + 4 : start + 12], "big"), said)
            else:
                others.append(data[at : stop + 1])
            at = stop + 1
        self._rest = data[at:]
        return b"".join(others)

    def _method(self, data: bytes, at: int, stop: int) -> None:
        """Basic.Deliver (1.8.3.13): consumer tag, delivery tag, redelivered, exchange, routing key."""
        if self._open:
            raise FrameError("AMQP delivery inside another")
        at += 1 + data[at]
        self._tag = int.from_bytes(data[at : at + 8], "big")
        self._redelivered = bool(data[at + 8] & 1)
        at += 9
        at += 1 + data[at]
        length = data[at]
        self._key = data[at + 1 : at + 1 + length]
        if at + 1 + length > stop:
            raise FrameError("AMQP routing key longer than its frame")
        self._open, self._missing = True, -1

    def _header(self, body_bytes: int, content_type: bytes) -> None:
        self._size = self._missing = body_bytes
        self._room = body_bytes if body_bytes <= MAX_BODY_BYTES else BEGINNING_BYTES
        self._content_type = content_type
        self._parts = []
        if body_bytes == 0:
            self._complete()

    def _body(self, part: bytes) -> None:
        self._missing -= len(part)
        if self._missing < 0:
            raise FrameError("AMQP body longer than its header said")
        if self._room:
            kept = part[: self._room]
            self._room -= len(kept)
            self._parts.append(kept)
        if self._missing == 0:
            self._complete()

    def _complete(self) -> None:
        payload, self._parts = b"".join(self._parts), []
        self._open = False
        if self._size > MAX_BODY_BYTES:
            self._oversized(self._tag, self._redelivered, self._key, payload, self._size)
        else:
            self._deliver(self._tag, self._redelivered, self._key, payload, self._content_type)
