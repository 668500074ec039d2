"""Gateways, vehicles and observers on the session's RabbitMQ, with a bridge that the test plays itself."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

import pika
import pytest

from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.ends import ConnectError

TIMEOUT_S = 30.0


class Changed:
    """Lets a test wait for whatever it likes, woken by every event."""

    def __init__(self):
        self._changed = asyncio.Event()

    def change(self):
        self._changed.set()

    async def until(self, condition):
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Sink(Changed):
    """Stands for the bridge: notes what it is given and acknowledges it, unless `hold` is set."""

    def __init__(self):
        super().__init__()
        self.taken = []
        self.content_types = []
        self.duplicates = []
        self.strays = []
        self.oversizes = []
        self.hold = False
        self.receipts = []
        self.links = []
        self.refusals = []
        self.intake = None

    def payloads(self):
        return [payload for _, payload in self.taken]

    def take(self, vehicle_id, payload, received_at_ns, duplicate, receipt, content_type=""):
        self.taken.append((vehicle_id, payload))
        self.content_types.append(content_type)
        if duplicate:
            self.duplicates.append(payload)
        self._settle(receipt)

    def misaddressed(self, address, payload, received_at_ns, receipt, reason):
        self.strays.append((address, payload, reason))
        self._settle(receipt)

    def oversized(self, address, beginning, received_at_ns, receipt, *, size_bytes, reason):
        self.oversizes.append((address, beginning, size_bytes, reason))
        self._settle(receipt)

    def turned_away(self, reason):
        self.refusals.append(reason)
        self.change()

    def link(self, up, reason):
        self.links.append((up, reason))
        self.change()

    def _settle(self, receipt):
        if self.hold:
            self.receipts.append(receipt)
        else:
            self.intake.acknowledge(receipt)
        self.change()


class Events(Changed):
    """Stands for the sender, at both of a vehicle's ends."""

    def __init__(self):
        super().__init__()
        self.acked = []
        self.gone = []
        self.later = []
        self.echoes = []
        self.losses = []
        self.wakes = 0

    def acknowledged(self, token, at_ns):
        self.acked.append(token)
        self.change()

    def refused(self, token, reason):
        self.gone.append((token, reason))
        self.change()

    def postponed(self, token, reason):
        self.later.append((token, reason))
        self.change()

    def connected(self, at_ns, session_present):
        self.change()

    def disconnected(self, at_ns, reason):
        self.losses.append(reason)
        self.change()

    def writable(self):
        self.wakes += 1
        self.change()

    def received(self, payload, at_ns, duplicate):
        self.echoes.append((payload, duplicate))
        self.change()


class Wire:
    """Carries connections to a broker, and may cut them without a word, as a network does, or put noise into them."""

    def __init__(self):
        self.endpoint = None
        self._ends = []
        self._tasks = []

    async def open(self, stack, broker):
        async def carry(reader, writer):
            far_reader, far_writer = await asyncio.open_connection(broker.host, broker.port)
            self._ends += [writer, far_writer]
            self._tasks += [
                asyncio.ensure_future(self._pump(*ends))
                for ends in ((reader, far_writer), (far_reader, writer))
            ]

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(self.cut)
        stack.callback(server.close)
        self.endpoint = Endpoint(*server.sockets[0].getsockname())
        return self

    def cut(self):
        """Lose every connection."""
        for writer in self._ends:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        self._ends.clear()
        self._tasks.clear()

    def noise(self, data):
        """Send as if the broker had, to the one who connected first."""
        self._ends[0].write(data)

    @staticmethod
    async def _pump(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()


class Bench:
    """Opens gateways, vehicles and observers on one broker; closes them and deletes their queues."""

    def __init__(self, stack, endpoint):
        self.protocol = Amqp()
        self.endpoint = endpoint
        self.queue = f"test-{uuid.uuid4().hex[:8]}"
        self._stack = stack
        stack.callback(self.delete_queue)

    async def wire(self):
        return await Wire().open(self._stack, self.endpoint)

    def mode(self, name):
        return self.protocol.modes[name]

    async def gateway(self, *, mode="manual-confirms-persistent", endpoint=None, **settings):
        sink = Sink()
        options = {"name": self.queue, "group": self.queue, **settings}
        intake = self.protocol.intake(
            endpoint or self.endpoint, self.mode(mode), sink, IntakeSettings(**options)
        )
        sink.intake = intake
        await intake.open()
        self._stack.push_async_callback(intake.close)
        return intake, sink

    async def vehicle(self, *, mode="manual-confirms-persistent", number=1, endpoint=None, **settings):
        events = Events()
        client = self.protocol.vehicle_client(
            endpoint or self.endpoint, number, self.mode(mode), events, VehicleSettings(**settings)
        )
        await client.connect()
        self._stack.push_async_callback(client.close)
        return client, events

    async def subscriber(self, *, mode="manual-confirms-persistent", number=1, endpoint=None, **settings):
        events = Events()
        options = {"client_prefix": self.queue, **settings}
        subscriber = self.protocol.subscriber(
            endpoint or self.endpoint, number, self.mode(mode), events, VehicleSettings(**options)
        )
        await subscriber.open()
        self._stack.push_async_callback(subscriber.close)
        return subscriber, events

    def delete_queue(self):
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection = pika.BlockingConnection(
                pika.ConnectionParameters(self.endpoint.host, self.endpoint.port)
            )
            connection.channel().queue_delete(self.queue)
            connection.close()

    def waiting(self):
        """Return how many messages are ready in the queue, those held by a consumer not among them."""
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(self.endpoint.host, self.endpoint.port)
        )
        count = connection.channel().queue_declare(self.queue, passive=True).method.message_count
        connection.close()
        return count

    async def again(self, client):
        """Connect anew, as the sender does, until the broker is there."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    return await client.connect()
                except ConnectError:
                    await asyncio.sleep(0.2)


@pytest.fixture
async def amqp(rabbitmq_loopback):
    async with contextlib.AsyncExitStack() as stack:
        yield Bench(stack, Endpoint(*rabbitmq_loopback))


@pytest.fixture
def bench_on():
    """Return a maker of benches for brokers that a test starts itself."""
    return Bench
