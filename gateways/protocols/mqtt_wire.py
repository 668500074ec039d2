"""Reads PUBLISH packets from the socket in bulk; every other packet, and the session, is paho's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
import typing
from typing import Any

from gateways.protocols.base import Endpoint
from gateways.protocols.mqtt_loop import LoopClient, Owner

_RECEIVE_BYTES = 262_144
_CLOSE_TIMEOUT_S = 2.0
_PUBLISH, _PUBREL_HEAD, _PUBACK_HEAD = 0x30, 0x62, 0x40


class Reader(Owner, typing.Protocol):
    """The intake, as the wire sees it; `now_ns` is set before each piece of bytes is cut up."""

    now_ns: int

    def publish_arrived(self, head: int, topic: bytes, mid: int, payload: bytes) -> None:
        """One PUBLISH; `mid` is 0 at QoS 0."""

    def release_arrived(self, mid: bytes) -> None:
        """One PUBREL."""


class WireClient(LoopClient):
    """Reads the socket in large pieces: paho takes four system calls and a dozen objects per PUBLISH.

    PUBLISH and PUBREL go to `publish_arrived` and `release_arrived`; paho parses every other packet from the
    same bytes, so that it stays the client: session, keep-alive, CONNACK, SUBACK, DISCONNECT.
    """

    def __init__(
        self, owner: Reader, endpoint: Endpoint, client_id: str, version: str, **options: Any
    ) -> None:
        super().__init__(owner, endpoint, client_id, version, manual_ack=True, **options)
        self._reader = owner
        self._rest = b""
        self._feed = b""
        self._ended = False
        self.paused = False

    def readable(self) -> None:
        sock = self.socket()
        if sock is None or self.paused:
            return
        try:
            data = sock.recv(_RECEIVE_BYTES)
            while isinstance(sock, ssl.SSLSocket) and sock.pending():
                data += sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            data = b""
        if data:
            self._reader.now_ns = time.time_ns()
            try:
                self._parse(self._rest + data if self._rest else data)
            except (IndexError, ValueError):
                # Bytes that are no MQTT: drop the connection; what it held will be sent again.
                self._feed, self._ended = b"", True
                self.loop_read()
        else:
            self._ended = True
            self.loop_read()
        self.write_soon()

    def set_paused(self, paused: bool) -> None:
        """Leave the socket unread, or read it again."""
        sock = self.socket()
        if paused == self.paused:
            return
        self.paused = paused
        if sock is not None:
            loop = asyncio.get_running_loop()
            if paused:
                loop.remove_reader(sock.fileno())
            else:
                self._ping_t = 0.0
                loop.add_reader(sock.fileno(), self.readable)
                if isinstance(sock, ssl.SSLSocket):
                    loop.call_soon(self.readable)

    async def leave(self, *, end_session: bool) -> None:
        """Take leave, and keep the connection until the broker has read everything and closes it.

        The broker answers each PUBREC. Its first answer to a closed socket would bring a reset, and the
        acknowledgements behind it would be lost: their messages would come again to the next gateway.
        """
        sock = self.socket()
        if sock is None:
            await super().leave(end_session=end_session)
            return
        with socket.socket(fileno=os.dup(sock.fileno())) as kept:
            kept.setblocking(False)
            await super().leave(end_session=end_session)
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(_read_to_end(kept), _CLOSE_TIMEOUT_S)

    def keep_alive(self) -> None:
        """While nothing is read no answer can be seen: ping for the broker's sake, do not judge it."""
        if self.paused and self.socket() is not None:
            self._send_pingreq()
            self._ping_t = 0.0
        else:
            self.loop_misc()

    def send_acknowledgements(self, packets: bytes) -> None:
        """Queue many acknowledgements as one piece behind whatever paho is writing."""
        if self.up:
            self._packet_queue(_PUBACK_HEAD, packets, 0, 0)
            self.write_soon()

    def _sock_recv(self, bufsize: int) -> bytes:
        """Give paho the bytes that were read for it."""
        if not self._feed:
            if self._ended:
                return b""
            raise BlockingIOError
        piece, self._feed = self._feed[:bufsize], self._feed[bufsize:]
        return piece

    def _on_open(self, client: Any, data: Any, sock: Any) -> None:
        self._rest, self._feed, self._ended, self.paused = b"", b"", False, False
        super()._on_open(client, data, sock)

    def _parse(self, data: bytes) -> None:
        """Cut `data` into packets (MQTT 5, 2.1); an unfinished one waits for more bytes."""
        start, end = 0, len(data)
        five = self.five
        publish = self._reader.publish_arrived
        while end - start >= 2:
            head = data[start]
            length = data[start + 1]
            body = start + 2
            if length & 128:
                decoded = variable_integer(data, start + 1)
                if decoded is None:
                    break
                length, body = decoded
            after = body + length
            if after > end:
                break
            if head & 0xF0 == _PUBLISH:
                # MQTT 5, 3.3: topic, packet identifier above QoS 0, properties, payload.
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                rest = topic_end
                mid = 0
                if head & 6:
                    mid = data[rest] << 8 | data[rest + 1]
                    rest += 2
                if five:
                    # No properties: one zero. mosquitto passes on what a publisher adds.
                    rest = rest + 1 if data[rest] == 0 else skip_properties(data, rest)
                publish(head, data[body + 2 : topic_end], mid, data[rest:after])
            elif head == _PUBREL_HEAD:
                self._reader.release_arrived(data[body : body + 2])
            else:
                self._feed = data[start:after]
                self.loop_read()
            start = after
        self._rest = data[start:]


async def _read_to_end(sock: socket.socket) -> None:
    """Read and forget whatever comes until the peer closes."""
    while await asyncio.get_running_loop().sock_recv(sock, _RECEIVE_BYTES):
        pass


def variable_integer(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a variable byte integer (MQTT 5, 1.5.5) and the position behind it, or None when cut short."""
    value = 0
    for shift in range(0, 28, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"variable byte integer longer than 4 bytes at {at}")


def skip_properties(data: bytes, at: int) -> int:
    """Return the position behind the properties (MQTT 5, 2.2.2) that start at `at`."""
    decoded = variable_integer(data, at)
    if decoded is None:
        raise ValueError(f"properties cut short at {at}")
    return decoded[0] + decoded[1]
