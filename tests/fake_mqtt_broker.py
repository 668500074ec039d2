"""A broker of paper: answers packet by packet as told, and fails at any byte of a connection as told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Fault = Literal["reset", "close", "half-close", "stall"]
FAULTS: tuple[Fault, ...] = ("reset", "close", "half-close", "stall")

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14


def packet(head: int, body: bytes) -> bytes:
    """Return one MQTT packet (MQTT 5, 2.1)."""
    length, encoded = len(body), bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | (128 if length else 0))
        if not length:
            return bytes((head, *encoded)) + body


def publish(
    topic: str,
    payload: bytes,
    *,
    qos: int = 0,
    mid: int = 0,
    dup: bool = False,
    five: bool = True,
    properties: bytes = b"",
) -> bytes:
    """Return PUBLISH (MQTT 5, 3.3); properties are below 128 bytes."""
    body = struct.pack("!H", len(topic)) + topic.encode()
    body += struct.pack("!H", mid) if qos else b""
    return packet(
        PUBLISH << 4 | dup << 3 | qos << 1,
        body + (bytes((len(properties),)) + properties if five else b"") + payload,
    )


def cut(data: bytearray) -> tuple[int, bytes] | None:
    """Take one whole packet off the front: its head and what follows the length; None while it is not all there."""
    length = shift = 0
    for at in range(1, min(len(data), 5)):
        length |= (data[at] & 127) << shift
        shift += 7
        if data[at] < 128:
            if len(data) < at + 1 + length:
                return None
            head, body = data[0], bytes(data[at + 1 : at + 1 + length])
            del data[: at + 1 + length]
            return head, body
    return None


@dataclass
class Cut:
    """Where a connection fails: after so many bytes to the client (`out`) or from it (`into`)."""

    fault: Fault
    out: int | None = None
    into: int | None = None


@dataclass
class FakeBroker:
    """Listens on loopback; one `Connection` for each that a client opens.

    Attributes:
        five: MQTT 5, else 3.1.1.
        cuts: by number of the connection, from 0; those not named do not fail.
        answer: takes a packet's type and body and returns the packets to send back, or None for the usual answer.
        session_present: what CONNACK says from the second connection on.
        listens_at: the address.
        tls: of its connections, or None.
    """

    five: bool = True
    cuts: dict[int, Cut] = field(default_factory=dict)
    answer: Callable[[Connection, int, bytes], list[bytes] | None] = lambda *_: None
    session_present: bool = True
    on_connected: Callable[[Connection], None] = lambda _: None
    listens_at: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.connections: list[Connection] = []
        self.changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), self.listens_at, 0, ssl=self.tls)
        self.host, self.port = self._server.sockets[0].getsockname()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self.connections:
            connection.fail("reset")
        await self._server.wait_closed()

    async def until(self, condition: Callable[[], Any], timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.02)


class Connection(asyncio.Protocol):
    """One client's connection.

    Attributes:
        received: (type, flags, body) of every packet, in order.
        sent_bytes, taken_bytes: what crossed this connection.
        open: neither end has closed it.
        began_s: when it began (time.monotonic).
    """

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.number = len(broker.connections)
        self.cut = broker.cuts.get(self.number)
        self.received: list[tuple[int, int, bytes]] = []
        self.sent_bytes = self.taken_bytes = 0
        self.open = False
        self.began_s = time.monotonic()
        self._stalled = False
        self._data = bytearray()
        broker.connections.append(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.open = True
        if self.cut is not None and 0 in {self.cut.out, self.cut.into}:
            self.fail(self.cut.fault)

    def connection_lost(self, _error: Exception | None) -> None:
        self.open = False
        self.broker.changed.set()

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        if self._stalled:
            return
        if self.cut is not None and self.cut.into is not None:
            left = self.cut.into - self.taken_bytes
            if len(data) >= left:
                self.taken_bytes += left
                self._data += data[:left]
                self._answer()
                self.fail(self.cut.fault)
                return
        self.taken_bytes += len(data)
        self._data += data
        self._answer()
        self.broker.changed.set()

    def _answer(self) -> None:
        while (found := cut(self._data)) is not None:
            head, body = found
            kind = head >> 4
            self.received.append((kind, head & 15, body))
            answers = self.broker.answer(self, kind, body)
            for one in self._usual(kind, head & 15, body) if answers is None else answers:
                self.send(one)
            if kind == CONNECT and self.open:
                self.broker.on_connected(self)
            if kind == DISCONNECT:
                self.transport.close()

    def _usual(  # noqa: PLR0911
        self, kind: int, flags: int, body: bytes
    ) -> list[bytes]:
        five = self.broker.five
        if kind == CONNECT:
            present = int(self.broker.session_present and self.number > 0)
            return [packet(CONNACK << 4, bytes((present, 0)) + (b"\x00" if five else b""))]
        if kind == SUBSCRIBE:
            return [packet(SUBACK << 4, body[:2] + (b"\x00" if five else b"") + bytes((body[-1] & 3,)))]
        if kind == UNSUBSCRIBE:
            return [packet(UNSUBACK << 4, body[:2] + (b"\x00\x00" if five else b""))]
        if kind == PUBLISH and flags & 6:
            at = 2 + int.from_bytes(body[:2], "big")
            return [packet((PUBACK if flags & 2 else PUBREC) << 4, body[at : at + 2])]
        if kind == PUBREL:
            return [packet(PUBCOMP << 4, body[:2])]
        if kind == PUBREC:
            return [packet(PUBREL << 4 | 2, body[:2])]
        return [packet(PINGRESP << 4, b"")] if kind == PINGREQ else []

    def send(self, data: bytes) -> None:
        """Write, up to the byte where the connection is to fail."""
        if self._stalled or not self.open:
            return
        if self.cut is not None and self.cut.out is not None:
            left = self.cut.out - self.sent_bytes
            if len(data) >= left:
                self.transport.write(data[:left])
                self.sent_bytes += left
                self.fail(self.cut.fault)
                return
        self.transport.write(data)
        self.sent_bytes += len(data)

    def fail(self, fault: Fault) -> None:
        """End the connection, or let it hang."""
        self._stalled = True
        if not self.open:
            return
        if fault == "reset":
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif fault == "close":
            self.transport.close()
        elif fault == "half-close":
            self.transport.write_eof()
