"""A broker that closes the channel on a message that is too large: that one is refused, and the others go."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, VehicleSettings
from simulator.emission_log import EmissionLog, Kind
from simulator.emission_table import read_events, read_words
from simulator.fleet import Emission
from simulator.vehicle_sender import Totals, VehicleSender
from tests.gateways.amqp.fake_broker import FakeBroker

WAIT_S = 30.0


@contextlib.asynccontextmanager
async def vehicle(broker, log, mode="manual-confirms-persistent"):
    totals = Totals()
    one = VehicleSender(1, log, totals, backoff=Backoff(0.01, 0.02), limit=50, policy="drop_oldest")
    protocol = Amqp()
    settings = VehicleSettings(connect_timeout_s=10.0, receive_max=20)
    one.client = protocol.vehicle_client(
        Endpoint(broker.host, broker.port), 1, protocol.modes[mode], one, settings
    )
    try:
        yield one, totals
    finally:
        await one.close()


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)  # counters tell nobody that they have changed


@pytest.fixture
def log(tmp_path):
    made = EmissionLog(tmp_path / "events")
    yield made
    made.close()


@pytest.mark.parametrize("sizes", [(500,), (5, 500), (500, 7), (5, 500, 7, 600, 8)])
@pytest.mark.parametrize("confirms_each", [1, 3])
async def test_what_the_broker_closes_the_channel_on_is_refused(log, tmp_path, sizes, confirms_each):
    """With `confirms_each` 3 several are unconfirmed when the channel goes."""
    async with FakeBroker() as broker, vehicle(broker, log) as (one, totals):
        broker.most_bytes, broker.confirms_each = 400, confirms_each
        for sequence, size in enumerate(sizes, 1):
            one.offer(Emission(sequence, 1, 1, sequence, b"p" * size))
        one.open()
        large = [sequence for sequence, size in enumerate(sizes, 1) if size > 400]
        # Where confirms are held back, what is unconfirmed waits for a further close, and goes again behind it.
        await until(lambda: totals.refused or confirms_each == 3)
        await until(lambda: totals.emitted == len(sizes))
        broker.confirms_each = 1
        broker.drop()
        await until(lambda: totals.refused == len(large) and totals.connected and one.idle())
        assert totals.acknowledged == len(sizes) - len(large)
        assert broker.connections <= 1 + 2 * len(large) + 2
        assert {len(payload) for payload in broker.published} == {size for size in sizes if size <= 400}
    log.flush()
    events = read_events(tmp_path / "events")
    words = read_words(events)
    told = [
        (int(event["sequence"]), words[int(event["words"])])
        for event in events
        if event["kind"] == Kind.REFUSED
    ]
    assert [sequence for sequence, _ in told] == large
    assert all("PRECONDITION_FAILED - message size" in why for _, why in told)


async def test_after_a_refusal_several_are_on_their_way_again(log):
    async with FakeBroker() as broker, vehicle(broker, log) as (one, totals):
        broker.most_bytes = 400
        for sequence, size in enumerate((5, 500, 7), 1):
            one.offer(Emission(sequence, 1, 1, sequence, b"p" * size))
        one.open()
        await until(lambda: totals.refused == 1 and totals.acknowledged == 2 and one.idle())
        broker.confirms_each = 100
        for sequence in range(4, 9):
            one.offer(Emission(sequence, 1, 1, sequence, b"p"))
        assert one.client.in_flight() == 5
        await until(lambda: broker.published.count(b"p") == 5)


@pytest.mark.parametrize("code", [404, 405])
async def test_what_is_not_there_for_a_while_refuses_no_message(log, code):
    """An exchange that somebody has deleted is declared again, and the message goes."""
    async with FakeBroker() as broker, vehicle(broker, log) as (one, totals):
        broker.most_bytes, broker.close_code = 400, code
        one.offer(Emission(1, 1, 1, 1, b"p" * 500))
        one.open()
        # It is back within 20 ms, and closed on again: a machine that stands still meanwhile does not see the first alone.
        await until(lambda: totals.disconnections >= 1)
        broker.most_bytes = None
        await until(lambda: totals.acknowledged == 1)
        assert totals.refused == 0


async def test_without_confirms_nothing_is_sent_again(log):
    async with FakeBroker() as broker, vehicle(broker, log, "auto") as (one, totals):
        broker.most_bytes = 400
        one.offer(Emission(1, 1, 1, 1, b"p" * 500))
        one.open()
        await until(lambda: totals.disconnections == 1 and totals.connected)
        one.offer(Emission(2, 1, 1, 2, b"p"))
        await until(lambda: broker.published == [b"p"])
        assert (broker.connections, totals.refused) == (2, 0)
