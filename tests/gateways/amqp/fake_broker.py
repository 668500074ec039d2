"""An AMQP 0-9-1 broker of a few lines that fails on purpose: at any byte of what it writes, in any way.

It answers the methods that our ends call, with pika's own encoders, routes what is published to whoever consumes,
and forgets nothing that was not acknowledged. The first connection may carry a `Fault`; those after it are good.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import struct
from dataclasses import dataclass
from typing import Self

from pika import frame, spec

HEADER = b"AMQP\x00\x00\x09\x01"


class How(enum.Enum):
    RESET = "reset"  # the connection is cut with RST
    HALF_CLOSE = "half-close"  # end of file, and what the client writes is still read
    STALL = "stall"  # nothing is written any more, and nothing read
    CLOSE = "connection.close"  # in the same segment as what is before it
    CHANNEL_CLOSE = "channel.close"
    CANCEL = "basic.cancel"
    GARBAGE = "garbage"  # bytes that are no frame


METHODS = {
    How.CLOSE: (0, spec.Connection.Close(320, "CONNECTION_FORCED - by the test", 0, 0)),
    How.CHANNEL_CLOSE: (1, spec.Channel.Close(406, "PRECONDITION_FAILED - by the test", 0, 0)),
    How.CANCEL: (1, spec.Basic.Cancel("ctag", nowait=True)),
}


@dataclass(frozen=True)
class Fault:
    """Behind `after` bytes of what the broker writes on a connection, what happens."""

    after: int
    how: How


class FakeBroker:
    """Serves on loopback; `ends` has the position behind each frame that a connection was sent."""

    def __init__(self, fault: Fault | None = None, messages: tuple[bytes, ...] = ()) -> None:
        self.waiting = [(b"vehicles.YV2RT40A8KB000001.status", payload) for payload in messages]
        self.published: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.connections = 0
        # Virtual host of each connection; exchange and key of each binding.
        self.opened: list[str] = []
        self.bound: list[tuple[str, str]] = []
        self.ends: list[list[int]] = []
        # Above which it closes the channel, with 406 as RabbitMQ does (max_message_size); None takes all.
        self.most_bytes: int | None = None
        self.close_code = 406
        # How many it lets pass before it confirms one; 1 confirms each at once.
        self.confirms_each = 1
        # With which it answers whoever declares a queue (AMQP 0-9-1, 1.1); None declares it.
        self.refuses_with: int | None = None
        self._fault = fault
        self._sessions: list[Session] = []
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.host, self.port = self._server.sockets[0].getsockname()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for session in self._sessions:
            session.writer.transport.abort()
            session.task.cancel()
        await asyncio.gather(*(session.task for session in self._sessions), return_exceptions=True)

    def drop(self) -> None:
        """End every connection, without a word."""
        for session in self._sessions:
            session.writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            greeting = await reader.readexactly(len(HEADER))
        except (ConnectionError, asyncio.IncompleteReadError):
            greeting = HEADER  # a client that was here and has gone again
        if greeting != HEADER:
            # Somebody else's client, of a server that had this port before, on the loopback that all tests share.
            writer.transport.abort()
            return
        fault = self._fault if self.connections == 0 else None
        self.connections += 1
        session = Session(self, reader, writer, fault)
        session.task = asyncio.current_task()
        self._sessions.append(session)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await session.run(greeted=True)
        session.requeue()
        writer.transport.abort()


class Session:
    task: asyncio.Task

    def __init__(self, broker, reader, writer, fault) -> None:
        self.broker, self.reader, self.writer, self.fault = broker, reader, writer, fault
        self.written = 0
        self.failed = False
        self.closed = False
        self.ends: list[int] = []
        broker.ends.append(self.ends)
        self.consuming: str | None = None
        self.acks_wanted = True
        self.confirming = False
        self.tag = 0
        self.published = 0
        self.unacknowledged: dict[int, tuple[bytes, bytes]] = {}

    async def run(self, *, greeted: bool = False) -> None:
        assert greeted or await self.reader.readexactly(len(HEADER)) == HEADER
        self.method(
            0,
            spec.Connection.Start(
                server_properties={"capabilities": {"basic.nack": True, "publisher_confirms": True}},
                mechanisms="PLAIN",
            ),
        )
        body: list[bytes] = []
        key, missing = b"", -1
        while True:
            head = await self.reader.readexactly(7)
            kind, channel, length = struct.unpack("!BHL", head)
            payload = await self.reader.readexactly(length + 1)
            if self.failed and self.fault.how is How.STALL:
                continue
            if kind == 2:
                missing = int.from_bytes(payload[4:12], "big")
            elif kind == 3:
                body.append(payload[:-1])
                missing -= len(payload) - 1
            elif kind == 1:
                number = struct.unpack("!I", payload[:4])[0]
                method = spec.methods[number]()
                method.decode(payload[:-1], 4)
                if isinstance(method, spec.Basic.Publish):
                    key, missing, body = method.routing_key.encode(), -1, []
                elif not self.answer(channel, method):
                    return
            else:
                assert kind == 8
            if missing == 0:
                missing = -1
                self.take(key, b"".join(body))

    def note(self, method) -> None:
        if isinstance(method, spec.Connection.Open):
            self.broker.opened.append(method.virtual_host)
        elif isinstance(method, spec.Queue.Bind):
            self.broker.bound.append((method.exchange, method.routing_key))

    def answer(self, channel: int, method) -> bool:  # noqa: C901 - one case each
        simple = {
            spec.Connection.Open: spec.Connection.OpenOk, spec.Channel.Open: spec.Channel.OpenOk,
            spec.Queue.Bind: spec.Queue.BindOk, spec.Basic.Qos: spec.Basic.QosOk,
            spec.Channel.Close: spec.Channel.CloseOk,
        }  # fmt: skip
        self.note(method)
        match method:
            case spec.Connection.StartOk():
                self.method(0, spec.Connection.Tune(2047, 131_072, 60))
            case spec.Queue.Declare() if self.broker.refuses_with is not None:
                self.method(channel, spec.Channel.Close(self.broker.refuses_with, "refused", 50, 10))
            case spec.Queue.Declare():
                self.method(channel, spec.Queue.DeclareOk(method.queue, 0, 0))
            case spec.Confirm.Select():
                self.confirming = True
                self.method(channel, spec.Confirm.SelectOk())
            case spec.Basic.Consume():
                self.consuming, self.acks_wanted = method.consumer_tag, not method.no_ack
                self.method(channel, spec.Basic.ConsumeOk(method.consumer_tag))
                self.deliver()
            case spec.Basic.Ack():
                for tag in [t for t in self.unacknowledged if t <= method.delivery_tag]:
                    self.broker.acknowledged.append(self.unacknowledged.pop(tag)[1])
            case spec.Basic.Cancel():
                self.method(channel, spec.Basic.CancelOk(method.consumer_tag))
            case spec.Connection.Close():
                self.method(0, spec.Connection.CloseOk())
                return False
            case spec.Connection.TuneOk() | spec.Channel.CloseOk():
                pass
            case spec.Connection.CloseOk():
                return False
            case _:
                self.method(channel, simple[type(method)]())
        return True

    def take(self, key: bytes, payload: bytes) -> None:
        if self.closed:
            return  # what comes behind channel.close is dropped (AMQP 0-9-1, 1.5.2.5)
        if self.broker.most_bytes is not None and len(payload) > self.broker.most_bytes:
            self.closed = True
            words = f"PRECONDITION_FAILED - message size {len(payload)} is larger than configured"
            self.method(1, spec.Channel.Close(self.broker.close_code, words, 60, 40))
            return
        self.broker.published.append(payload)
        self.broker.waiting.append((key, payload))
        self.published += 1
        if self.confirming and self.published % self.broker.confirms_each == 0:
            self.method(1, spec.Basic.Ack(self.published, multiple=True))
        for session in self.broker._sessions:
            session.deliver()

    def deliver(self) -> None:
        while self.consuming is not None and not self.failed and self.broker.waiting:
            key, payload = self.broker.waiting.pop(0)
            self.tag += 1
            if self.acks_wanted:
                self.unacknowledged[self.tag] = (key, payload)
            deliver = spec.Basic.Deliver(self.consuming, self.tag, False, "amq.topic", key.decode())
            self.write(frame.Method(1, deliver).marshal())
            self.write(frame.Header(1, len(payload), spec.BasicProperties()).marshal())
            if payload:
                self.write(frame.Body(1, payload).marshal())

    def requeue(self) -> None:
        self.consuming = None
        self.broker.waiting = [*self.unacknowledged.values(), *self.broker.waiting]
        self.unacknowledged.clear()

    def method(self, channel: int, method) -> None:
        self.write(frame.Method(channel, method).marshal())

    def write(self, data: bytes) -> None:
        if self.failed:
            return
        before = self.written
        self.written += len(data)
        self.ends.append(self.written)
        if self.fault is None or self.written < self.fault.after:
            self.writer.write(data)
            return
        self.failed = True
        self.consuming = None
        data = data[: self.fault.after - before]
        how = self.fault.how
        if how in METHODS:
            channel, method = METHODS[how]
            data += frame.Method(channel, method).marshal()
        elif how is How.GARBAGE:
            data += b"\x99" * 64
        self.writer.write(data)
        if how is How.RESET:
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(_SOL_SOCKET, _SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        elif how is How.HALF_CLOSE:
            self.writer.write_eof()


_SOL_SOCKET, _SO_LINGER = 1, 13
