"""With the collector off, as in a sender, attempts that fail leave nothing in memory."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter

import pytest

from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.ends import ConnectError
from ivsim.testbed.process import hold_port
from tests.gateways.amqp.conftest import Events
from tests.gateways.amqp.fake_broker import FakeBroker, Fault, How

ATTEMPTS = 300


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def vehicle(host, port):
    settings = VehicleSettings(connect_timeout_s=5.0)
    protocol = Amqp()
    return protocol.vehicle_client(
        Endpoint(host, port), 1, protocol.modes[protocol.default_mode], Events(), settings
    )


async def grown_bytes(client, attempts):
    """Return by how much memory has grown for each failed attempt, the first few aside."""
    tracemalloc.start()
    try:
        for number in range(attempts + 5):
            if number == 5:
                before = tracemalloc.get_traced_memory()[0]
            try:
                await client.connect()
            except ConnectError:
                continue
            pytest.fail("connected")
        return (tracemalloc.get_traced_memory()[0] - before) / attempts
    finally:
        tracemalloc.stop()


async def test_a_refused_connection_leaves_nothing(no_collector):
    with hold_port() as silent:
        client = vehicle(*silent.getsockname())
        assert await grown_bytes(client, ATTEMPTS) < 100
        await client.close()


@pytest.mark.parametrize("after", [88, 121, 137])
async def test_a_connection_that_ends_leaves_nothing(no_collector, after):
    """Behind connection.start, connection.open-ok, channel.open-ok."""
    async with FakeBroker(Fault(after, How.CLOSE)) as broker:
        client = vehicle(broker.host, broker.port)
        for _ in range(10):
            broker.connections = 0  # each is the first, and has the fault
            with pytest.raises(ConnectError, match="CONNECTION_FORCED"):
                await client.connect()
        await asyncio.sleep(0)
        left = Counter(type(found).__name__ for found in gc.get_objects())
        assert max(left["CarriedConnection"], left["Stream"], left["CallbackManager"]) <= 1
        assert left["_Attempt"] <= 1
        await client.close()
