"""The gateway and the vehicle against a broker that fails at each byte of a session: none goes deaf or silent."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import gateways.protocols.amqp.connection as connection_module
import gateways.protocols.amqp.intake as intake_module
from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.ends import ConnectError
from tests.gateways.amqp.conftest import Events, Sink
from tests.gateways.amqp.fake_broker import FakeBroker, Fault, How

MODE = Amqp.modes["manual-confirms-persistent"]
MESSAGES = (b"one", b"two" * 50, b"")
AT_ONCE = 40


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(intake_module, "Backoff", lambda: Backoff(0.01, 0.1))
    monkeypatch.setattr(connection_module, "LEAVE_TIMEOUT_S", 0.3)


def seen_at_once(fault):
    """Whether an end learns of the fault from the connection itself, and not from a time-out that a busy machine meets."""
    return fault is None or fault.how not in {How.STALL, How.GARBAGE}


async def gateway_recovers(fault, timeout_s=3.0):
    """Return the broker after the gateway has taken and acknowledged every message in spite of the fault."""
    async with FakeBroker(fault, MESSAGES) as broker, contextlib.AsyncExitStack() as stack:
        sink = Sink()
        settings = IntakeSettings(keepalive_s=60 if seen_at_once(fault) else 1)
        intake = Amqp().intake(Endpoint(broker.host, broker.port), MODE, sink, settings)
        sink.intake = intake
        stack.push_async_callback(intake.close)
        with contextlib.suppress(ConnectError):
            await intake.open()
        while not sink.links:  # the process that starts a gateway tries no second time; a test does
            with contextlib.suppress(ConnectError):
                await intake.open()
        await sink.until(lambda: set(sink.payloads()) == set(MESSAGES))
        async with asyncio.timeout(30):
            while set(broker.acknowledged) != set(MESSAGES):
                await asyncio.sleep(0.01)
        assert broker.connections <= 2 or not seen_at_once(fault)
        assert sink.links[-1][0] is True
        assert [up for up, _ in sink.links] in ([True], [True, False, True])
        return broker


async def vehicle_recovers(fault):
    """Return the broker after the vehicle has had each message acknowledged once, whatever the fault was."""
    async with FakeBroker(fault) as broker, contextlib.AsyncExitStack() as stack:
        events = Events()
        settings = (
            VehicleSettings(keepalive_s=60, connect_timeout_s=30.0)
            if seen_at_once(fault)
            else VehicleSettings(keepalive_s=1, connect_timeout_s=1.0)
        )
        client = Amqp().vehicle_client(Endpoint(broker.host, broker.port), 1, MODE, events, settings)
        stack.push_async_callback(client.close)
        losses = 0

        async def up():
            nonlocal losses
            for _ in range(5):
                losses = len(events.losses)
                with contextlib.suppress(ConnectError):
                    await client.connect()
                    return
            pytest.fail("five attempts, and only the first connection has a fault")

        await up()
        for token, payload in enumerate(MESSAGES):
            if not client.ready():
                await events.until(lambda: len(events.losses) > losses)
                await up()
            client.send(token, payload)
            await events.until(lambda token=token: token in events.acked or len(events.losses) > losses)
            if token not in events.acked:
                await up()
                await events.until(lambda token=token: token in events.acked)
        assert events.acked == [0, 1, 2]
        assert set(broker.published) == set(MESSAGES)
        assert broker.connections <= 2 or not seen_at_once(fault)
        return broker


ENDS = {"gateway": gateway_recovers, "vehicle": vehicle_recovers}


async def recorded(end):
    """Return the position behind each frame of a session without a fault."""
    broker = await ENDS[end](None)
    return broker.ends[0]


async def all_recover(end, faults):
    gate = asyncio.Semaphore(AT_ONCE)
    failed = []

    async def one(fault):
        async with gate:
            try:
                await ENDS[end](fault)
            except (TimeoutError, AssertionError) as error:
                failed.append((fault, repr(error)[:200]))

    await asyncio.gather(*(one(fault) for fault in faults))
    assert not failed, f"{len(failed)} of {len(faults)}: {failed[:5]}"


@pytest.mark.parametrize(
    ("end", "how", "step"),
    [
        ("vehicle", How.RESET, 1),
        ("vehicle", How.HALF_CLOSE, 1),
        # The same connection is below both ends: ten seconds each for what the others show.
        ("gateway", How.RESET, 5),
        pytest.param("gateway", How.RESET, 1, marks=pytest.mark.full),
        pytest.param("gateway", How.HALF_CLOSE, 1, marks=pytest.mark.full),
    ],
)
async def test_a_session_cut_at_any_byte_is_made_good(end, how, step):
    ends = await recorded(end)
    await all_recover(end, [Fault(after, how) for after in range(1, ends[-1] + 1, step)])


@pytest.mark.parametrize(
    ("end", "how"),
    [
        *((end, how) for end in ENDS for how in (How.CLOSE, How.CHANNEL_CLOSE)),
        *(pytest.param(end, How.GARBAGE, marks=pytest.mark.full) for end in ENDS),
        ("gateway", How.CANCEL),  # a vehicle consumes nothing
    ],
)
async def test_a_close_in_the_segment_of_any_frame_is_seen(end, how):
    ends = await recorded(end)
    # A channel is there to be closed from channel.open-ok on, a consumer to be cancelled from consume-ok on.
    first = {How.CHANNEL_CLOSE: 3, How.CANCEL: 7}.get(how, 0)
    await all_recover(end, [Fault(after, how) for after in ends[first:]])


@pytest.mark.full
@pytest.mark.parametrize("end", ENDS)
async def test_a_broker_that_falls_silent_anywhere_is_left(end, monkeypatch):
    monkeypatch.setattr(intake_module, "CONNECT_TIMEOUT_S", 1.0)
    ends = await recorded(end)
    await all_recover(end, [Fault(after + inside, How.STALL) for after in ends[:-1] for inside in (0, 3)])
