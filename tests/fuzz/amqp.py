"""AMQP frames at the gateway's connection, and payloads and routing keys behind it at the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from types import TracebackType
from typing import Any, Self
from unittest import mock

from pika import frame, spec

from gateways.protocols import PROTOCOLS
from gateways.protocols.amqp import connection as amqp_connection
from gateways.protocols.amqp import intake as amqp_intake
from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.transport import Stream
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings
from ivsim.study.engines.codec.fuzz import hostile
from schemas.topics import vehicle_id
from tests.fuzz.surface import VEHICLES, Payloads, Surface, paper_bridge
from tests.fuzz.words import damaged
from tests.gateways.amqp.fake_broker import FakeBroker, Session

_ENDPOINT = Endpoint("127.0.0.1", 5_672)
_TURNS = 10_000
_METHODS: tuple[Callable[[], Any], ...] = (
    lambda: spec.Basic.Ack(1),
    lambda: spec.Basic.Nack(1),
    lambda: spec.Basic.Return(312, "no route", "amq.topic", "nowhere"),
    spec.Basic.GetEmpty,
    lambda: spec.Basic.ConsumeOk("unasked"),
    lambda: spec.Queue.DeclareOk("unasked", 1, 1),
    lambda: spec.Channel.Flow(active=False),
    lambda: spec.Connection.Blocked("memory"),
    spec.Connection.Unblocked,
    lambda: spec.Connection.Tune(1, 4_096, 1),
    spec.Tx.SelectOk,
)


class _Transport:
    """What asyncio gives a protocol, between a stream and a broker of this process."""

    def __init__(self, stream: Stream) -> None:
        self.loop, self.stream = asyncio.get_running_loop(), stream
        self.reader = asyncio.StreamReader()
        self.session = Session(FakeBroker(), self.reader, self, None)
        self.session.task = self.loop.create_task(self.session.run())
        self.closing = False

    # the stream's

    def set_write_buffer_limits(self, *, high: int) -> None:
        pass

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        raise AssertionError("nothing is held")

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        if not self.closing:
            self.closing = True
            self.session.task.cancel()
            self.loop.call_soon(self.stream.connection_lost, None)

    def write(self, data: bytes) -> None:
        """Take bytes from either: there are no others' in the same turn."""
        self.reader.feed_data(data)


class _Writer:
    """The broker's end: what it says reaches the stream in the loop's next turn."""

    def __init__(self, transport: _Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.loop.call_soon(self._say, data)

    def _say(self, data: bytes) -> None:
        if not self._transport.closing:
            self._transport.stream.data_received(data)


class Amqp(Surface):
    """Nine in ten are whole deliveries with a hostile payload or routing key, the others frames that are none."""

    name, good_every = "amqp", 500

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._payloads = Payloads("protobuf")
        self._bad: Iterator[bytes] = hostile([self._payloads.next(k) for k in range(VEHICLES)], self.rng)
        self._transport: _Transport | None = None
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        with self._stack:
            self._patch(amqp_connection, "connect_stream", self._connect)
            self._patch(amqp_intake, "Backoff", lambda: Backoff(1e-9, 1e-9, Random(1)))
            self._stack = self._stack.pop_all()
        protocol = PROTOCOLS["amqp"]
        bridge, self._delivery = paper_bridge("protobuf", "amqp", "manual")
        self._counters = bridge.counters
        self._intake: Any = protocol.intake(
            _ENDPOINT, protocol.modes["manual"], bridge, IntakeSettings(format="protobuf")
        )
        bridge.connect(self._intake)
        await self._intake.open()
        return self

    def _patch(self, module: Any, name: str, value: Any) -> None:
        self._stack.enter_context(mock.patch.object(module, name, value))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._intake.close()
        self._stack.close()

    async def _connect(self, make: Callable[[], Stream], *_: Any, **__: Any) -> Stream:
        stream = make()
        self._transport = transport = _Transport(stream)
        transport.session.writer = _Writer(transport)
        stream.connection_made(transport)
        return stream

    async def hostile(self) -> None:
        rng, transport = self.rng, await self._connected()
        key = amqp_routing_key(vehicle_id(rng.randrange(1, VEHICLES + 1)))
        if rng.random() < 0.3:
            key = damaged(rng, key).encode()[:250].decode("utf-8", "ignore")
        said = rng.choice((None, None, None, "application/json", "text/html", "\x00" * 200))
        data = self._deliver(transport, key, next(self._bad)[:100_000], said)
        if rng.random() < 0.1:
            data = _damaged_frames(rng, bytearray(data))
        self.last = data
        transport.stream.data_received(data)
        # A length that was a lie still waits for the rest.
        if rng.random() < 0.005:
            transport.abort()
        await asyncio.sleep(0)
        self.outcomes["connection closed" if transport.closing else "taken"] += 1

    async def good(self) -> None:
        delivery = self._delivery
        (await self._connected()).abort()
        transport = await self._connected()
        k = self.rng.randrange(VEHICLES)
        payload, before = self._payloads.next(k), delivery.records
        self.last = payload
        session = transport.session
        transport.stream.data_received(self._deliver(transport, amqp_routing_key(vehicle_id(k + 1)), payload))
        assert delivery.records == before + 1
        assert delivery.last == (vehicle_id(k + 1).encode(), payload)
        session.unacknowledged[session.tag] = (b"", payload)
        await self._until(lambda: bool(session.broker.acknowledged))
        assert session.broker.acknowledged == [payload]

    async def _connected(self) -> _Transport:
        """Return the transport once it is one that the gateway takes from."""
        await self._until(lambda: self._transport is not None and not self._transport.closing)
        await self._until(lambda: bool(self._counters.connected))
        assert self._transport is not None
        return self._transport

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Let the loop turn until it holds: everything is in this process, and takes turns, not time."""
        for _ in range(_TURNS):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("the gateway has not come back")

    @staticmethod
    def _deliver(transport: _Transport, key: str, payload: bytes, content_type: str | None = None) -> bytes:
        session = transport.session
        session.tag += 1
        method = spec.Basic.Deliver(session.consuming or "", session.tag, False, "amq.topic", key)
        frames = (
            frame.Method(1, method).marshal()
            + frame.Header(1, len(payload), spec.BasicProperties(content_type=content_type)).marshal()
        )
        return frames + (frame.Body(1, payload).marshal() if payload else b"")


def _damaged_frames(rng: Random, data: bytearray) -> bytes:
    choice = rng.randrange(6)
    if choice == 0:
        return bytes(data[: rng.randrange(len(data))])
    if choice == 1:
        return rng.randbytes(rng.randrange(40))
    if choice == 2:  # another type, or another channel
        data[rng.randrange(3)] = rng.randrange(256)
        return bytes(data)
    if choice == 3:  # a length of its own
        data[3:7] = rng.choice(
            (b"\0\0\0\0", b"\0\0\0\x01", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\x02\0\0")
        )
        return bytes(data)
    if choice == 4:  # a method that nobody asked for
        return bytes(frame.Method(rng.choice((0, 1, 1, 2)), rng.choice(_METHODS)()).marshal())
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(min(len(data), 80))] = rng.randrange(256)
    return bytes(data)
