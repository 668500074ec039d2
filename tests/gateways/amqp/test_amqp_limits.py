"""What an AMQP gateway does with a message over its limit; no RabbitMQ."""

from __future__ import annotations

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.amqp import intake, reader
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from tests.gateways.amqp.conftest import Events, Sink
from tests.gateways.amqp.fake_broker import FakeBroker

MOST = 1_000
IDENTITY = "YV2RT40A8KB000001"
KEY = f"vehicles.{IDENTITY}.status".encode()
BODIES = [bytes([number]) * size for number, size in enumerate((MOST - 1, MOST, MOST + 1, 100 * MOST, 1))]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (intake, reader):
        monkeypatch.setattr(module, "MAX_BODY_BYTES", MOST)
    monkeypatch.setattr(reader, "BEGINNING_BYTES", 10)


@pytest.mark.parametrize("mode", ["manual", "auto"])
async def test_a_message_over_the_limit_is_a_dead_letter_and_settled_and_the_next_ones_are_taken(
    mode: str,
) -> None:
    amqp, sink = PROTOCOLS["amqp"], Sink()
    async with FakeBroker() as broker:
        broker.waiting = [*((KEY, body) for body in BODIES), (b"vehicles.no one", BODIES[2]), (KEY, b"last")]
        gateway = amqp.intake(Endpoint(broker.host, broker.port), amqp.modes[mode], sink, IntakeSettings())
        sink.intake = gateway
        await gateway.open()
        await sink.until(lambda: sink.taken[-1:] == [(IDENTITY, b"last")])
        await gateway.close()
        if mode == "manual":
            assert broker.acknowledged == [*BODIES, BODIES[2], b"last"]
    assert sink.payloads() == [BODIES[0], BODIES[1], BODIES[4], b"last"]
    assert sink.oversizes == [
        (address, body[:10], len(body), f"a payload of {len(body)} bytes: a message may have 1000")
        for address, body in ((IDENTITY, BODIES[2]), (IDENTITY, BODIES[3]), ("vehicles.no one", BODIES[2]))
    ]
    assert (sink.strays, [up for up, _ in sink.links]) == ([], [True])
    assert gateway.counters()["deliveries"] == len(BODIES) + 2


async def test_an_echo_over_the_limit_is_none_of_the_vehicles() -> None:
    amqp, events = PROTOCOLS["amqp"], Events()
    async with FakeBroker() as broker:
        broker.waiting = [(KEY, body) for body in BODIES]
        endpoint = Endpoint(broker.host, broker.port)
        receiver = amqp.subscriber(endpoint, 1, amqp.modes["manual"], events, VehicleSettings())
        await receiver.open()
        await events.until(lambda: len(events.echoes) == 3)
        await receiver.close()
        assert broker.acknowledged == BODIES
    assert events.echoes == [(BODIES[number], False) for number in (0, 1, 4)]
