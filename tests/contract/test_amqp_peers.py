"""Each of our AMQP ends against an independent one on RabbitMQ: aio-pika (its own parser, pamqp) and pika's blocking client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pika
import pytest

from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.connection import EXCHANGE
from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

NUMBER = 64_321
KEY = amqp_routing_key(vehicle_id(NUMBER))
# Empty, one byte, more than one read, more than one frame (frame-max is 131,072).
PAYLOADS = [b"", b"\x00", os.urandom(1157), os.urandom(70_000), os.urandom(300_000)]
MODE = Amqp.modes["manual-confirms-persistent"]


class Sink:
    """The bridge: keeps what comes and acknowledges it."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[tuple[str, bytes, bool]] = asyncio.Queue()
        self.intake: Any = None

    def take(
        self,
        vehicle: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Any,
        content_type: str = "",
    ) -> None:
        if vehicle == vehicle_id(NUMBER):  # other tests share the broker
            self.taken.put_nowait((vehicle, payload, duplicate))
        self.intake.acknowledge(receipt)

    def misaddressed(self, address: str, payload: bytes, at_ns: int, receipt: Any, reason: str) -> None:
        self.intake.acknowledge(receipt)

    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...

    async def next(self, count: int) -> list[tuple[str, bytes, bool]]:
        async with asyncio.timeout(30):
            return [await self.taken.get() for _ in range(count)]


class Events:
    """The sender, at a vehicle's end."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[int] = asyncio.Queue()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.answers.put_nowait(token)

    def postponed(self, token: int, reason: str) -> None:
        raise AssertionError(reason)

    def refused(self, token: int, reason: str) -> None:
        raise AssertionError(reason)

    def connected(self, at_ns: int, session_present: bool) -> None: ...

    def disconnected(self, at_ns: int, reason: str) -> None:
        raise AssertionError(reason)

    def writable(self) -> None: ...


@pytest.fixture
async def gateway(rabbitmq_loopback: tuple[str, int]) -> AsyncIterator[tuple[Sink, str]]:
    """Our gateway on a queue of its own, which goes with it."""
    sink, queue = Sink(), f"peers-{uuid.uuid4().hex[:8]}"
    intake = Amqp().intake(Endpoint(*rabbitmq_loopback), MODE, sink, IntakeSettings(name=queue))
    sink.intake = intake
    await intake.open()
    yield sink, queue
    await intake.close()
    with contextlib.closing(pika.BlockingConnection(pika.ConnectionParameters(*rabbitmq_loopback))) as peer:
        left = peer.channel().queue_delete(queue)
        assert left.method.message_count == 0, "everything was acknowledged"


@pytest.fixture
async def peer(rabbitmq_loopback: tuple[str, int]) -> AsyncIterator[aio_pika.abc.AbstractConnection]:
    host, port = rabbitmq_loopback
    connection = await aio_pika.connect(host=host, port=port)
    yield connection
    await connection.close()


async def test_our_gateway_takes_what_aio_pika_publishes(gateway, peer) -> None:
    sink, _ = gateway
    channel = await peer.channel(publisher_confirms=True)
    exchange = await channel.get_exchange(EXCHANGE)
    for payload in PAYLOADS:
        message = aio_pika.Message(payload, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        assert await exchange.publish(message, KEY, mandatory=True) is not None
    assert await sink.next(len(PAYLOADS)) == [(vehicle_id(NUMBER), payload, False) for payload in PAYLOADS]


async def test_our_gateway_takes_what_pikas_blocking_client_publishes(gateway, rabbitmq_loopback) -> None:
    sink, _ = gateway

    def publish() -> None:
        parameters = pika.ConnectionParameters(*rabbitmq_loopback)
        with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for payload in PAYLOADS:
                channel.basic_publish(EXCHANGE, KEY, payload, mandatory=True)

    await asyncio.to_thread(publish)
    assert await sink.next(len(PAYLOADS)) == [(vehicle_id(NUMBER), payload, False) for payload in PAYLOADS]


async def test_aio_pika_takes_what_our_vehicle_publishes(peer, rabbitmq_loopback) -> None:
    channel = await peer.channel()
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(EXCHANGE, KEY)
    events = Events()
    client = Amqp().vehicle_client(Endpoint(*rabbitmq_loopback), NUMBER, MODE, events, VehicleSettings())
    await client.connect()
    found = []
    async with asyncio.timeout(30):
        for token, payload in enumerate(PAYLOADS):
            client.send(token, payload)
            assert await events.answers.get() == token
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()
                found.append((message.routing_key, message.delivery_mode, message.body))
                if len(found) == len(PAYLOADS):
                    break
    await client.close()
    assert found == [(KEY, aio_pika.DeliveryMode.PERSISTENT, payload) for payload in PAYLOADS]
