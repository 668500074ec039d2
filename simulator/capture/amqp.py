"""AMQP 0-9-1 frames in a byte stream (specification 2.3.5, 4.2); no semantics checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.capture.byte_totals import (
    ACKNOWLEDGEMENT,
    CONNECTION,
    KEEP_ALIVE,
    MESSAGE,
    NOBODY,
    OTHER,
    Target,
)
from simulator.capture.fields import UPLINK
from simulator.capture.units import Publications, Unit

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


def begins(head: bytes) -> bool | None:
    """Say whether a vehicle's first bytes are the protocol header (2.2.4); None while it is not whole."""
    if len(head) < len(PROTOCOL_HEADER) and head[0] == PROTOCOL_HEADER[0]:
        return None
    return head.startswith(PROTOCOL_HEADER)


_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_FRAME_END = 0xCE
_OVERHEAD = 8
_PUBLISH, _DELIVER, _ACK, _REJECT, _NACK = (60, 40), (60, 60), (60, 80), (60, 90), (60, 120)
_CONFIRM_SELECT = (85, 10)


@dataclass
class _Content:
    """A content whose frames are on their way on one channel in one direction."""

    target: int = NOBODY
    missing: int = 0
    body: bytearray = field(default_factory=bytearray)


@dataclass
class _Channel:
    """What a channel has counted: confirms and deliveries have numbers of their own (from 1)."""

    confirms: bool = False
    published: int = 0
    delivery: int = 0
    contents: tuple[_Content, _Content] = field(default_factory=lambda: (_Content(), _Content()))
    unconfirmed: dict[int, int] = field(default_factory=dict)
    undelivered: dict[int, int] = field(default_factory=dict)


class AmqpScanner:
    """Both directions of one AMQP 0-9-1 connection."""

    def __init__(self, publications: Publications) -> None:
        self._publications = publications
        self._channels: dict[int, _Channel] = {}

    def scan(self, direction: int, data: bytearray, position: int, at_ns: int) -> tuple[list[Unit], int]:
        """Return the whole frames at the start of `data`; a delivery waits until its body is there."""
        units: list[Unit] = []
        start, size = 0, len(data)
        if position == 0 and direction == UPLINK:
            if size < len(PROTOCOL_HEADER):
                return units, 0
            if not data.startswith(PROTOCOL_HEADER):
                raise ValueError("AMQP: not version 0-9-1")
            start = len(PROTOCOL_HEADER)
            units.append(Unit(0, start, start, start, CONNECTION, NOBODY))
        while size - start >= _OVERHEAD:
            end = start + _OVERHEAD + int.from_bytes(data[start + 3 : start + 7], "big")
            if end > size:
                break
            if data[end - 1] != _FRAME_END:
                raise ValueError("AMQP: no frame end where the length says")
            if direction != UPLINK and not self._know_delivery(data, start, end):
                break
            units.append(self._unit(direction, data, position, (start, end), at_ns))
            start = end
        return units, start

    def rest(self, direction: int, data: bytearray, position: int) -> Unit:
        """Return the frame cut short; in the middle of a content it belongs to that message."""
        end = position + len(data)
        target = NOBODY
        if len(data) >= 7 and data[0] in (_HEADER, _BODY):
            target = self._channel(data, 0).contents[direction].target
        known = target != NOBODY
        payload = position + 7 if known and data[0] == _BODY else end
        return Unit(position, end, min(payload, end), end, MESSAGE if known else OTHER, target)

    def _channel(self, data: bytearray, start: int) -> _Channel:
        return self._channels.setdefault(data[start + 1] << 8 | data[start + 2], _Channel())

    def _unit(
        self, direction: int, data: bytearray, position: int, span: tuple[int, int], at_ns: int
    ) -> Unit:
        start, end = span
        kind = data[start]
        channel = self._channel(data, start)
        first, last = position + start, position + end
        if kind == _METHOD:
            purpose, target = self._method(direction, channel, data, start, at_ns)
            return Unit(first, last, last, last, purpose, target)
        content = channel.contents[direction]
        if kind == _HEADER:
            content.missing = int.from_bytes(data[start + 11 : start + 19], "big")
            done = self._finish(direction, content)
            return Unit(first, last, last, last, MESSAGE, content.target, done)
        if kind == _BODY:
            content.body += data[start + 7 : end - 1]
            content.missing -= end - start - _OVERHEAD
            done = self._finish(direction, content)
            return Unit(first, last, first + 7, last - 1, MESSAGE, content.target, done)
        if kind == _HEARTBEAT:
            return Unit(first, last, last, last, KEEP_ALIVE, NOBODY)
        raise ValueError(f"AMQP: frame type {kind}")

    def _finish(self, direction: int, content: _Content) -> bool:
        if content.missing > 0 or direction != UPLINK or content.target == NOBODY:
            return False
        self._publications.completed(content.target, content.body)
        return True

    def _method(
        self, direction: int, channel: _Channel, data: bytearray, start: int, at_ns: int
    ) -> tuple[int, Target]:
        method = (data[start + 7] << 8 | data[start + 8], data[start + 9] << 8 | data[start + 10])
        if method == _CONFIRM_SELECT:
            channel.confirms = True
        elif method == _PUBLISH and direction == UPLINK:
            index = self._publications.publish()
            channel.contents[direction].target = index
            channel.contents[direction].body = bytearray()
            if channel.confirms:
                channel.published += 1
                channel.unconfirmed[channel.published] = index
            return MESSAGE, index
        elif method == _DELIVER and direction != UPLINK:
            return MESSAGE, channel.contents[direction].target
        elif method in (_ACK, _NACK, _REJECT):
            return ACKNOWLEDGEMENT, self._acknowledged(direction, channel, data, start, at_ns)
        return CONNECTION, NOBODY

    def _acknowledged(
        self, direction: int, channel: _Channel, data: bytearray, start: int, at_ns: int
    ) -> Target:
        """Return the messages of a confirm (or of a consumer's acknowledgement); one may stand for many."""
        tag = int.from_bytes(data[start + 11 : start + 19], "big")
        method = data[start + 9] << 8 | data[start + 10]
        several = method != _REJECT[1] and bool(data[start + 19] & 1)
        waiting = channel.undelivered if direction == UPLINK else channel.unconfirmed
        # Tag 0 with `multiple` means all outstanding (specification, basic.ack).
        tags = [known for known in waiting if known <= tag or tag == 0] if several else [tag]
        found = tuple(waiting.pop(known) for known in tags if waiting.get(known, NOBODY) != NOBODY)
        if direction != UPLINK and method == _ACK[1]:
            self._publications.messages.acknowledged(found, at_ns)
        return found[0] if len(found) == 1 else found or NOBODY

    def _know_delivery(self, data: bytearray, start: int, end: int) -> bool:
        """Look ahead to the body of a delivery, to know its message; False while the body is not whole."""
        if data[start] != _METHOD or data[start + 7 : start + 11] != b"\x00\x3c\x00\x3c":
            return True
        body = _content_behind(data, end)
        if body is None:
            return False
        channel = self._channel(data, start)
        target = self._publications.echo(body)
        channel.contents[1].target = target
        at = start + 11
        tag = int.from_bytes(data[at + 1 + data[at] : at + 9 + data[at]], "big")
        channel.undelivered[tag] = target
        return True


def _content_behind(data: bytearray, at: int) -> bytes | None:
    """Return the body that follows a method frame at once, or None while it is not whole.

    Frames of other channels between method and body end the search: what they cut off matches no message.
    """
    body, missing = b"", -1
    while missing:
        if len(data) - at < _OVERHEAD:
            return None
        end = at + _OVERHEAD + int.from_bytes(data[at + 3 : at + 7], "big")
        if end > len(data):
            return None
        if missing < 0 and data[at] == _HEADER:
            missing = int.from_bytes(data[at + 11 : at + 19], "big")
        elif missing > 0 and data[at] == _BODY:
            body += data[at + 7 : end - 1]
            missing -= end - at - _OVERHEAD
        else:
            return body
        at = end
    return body
