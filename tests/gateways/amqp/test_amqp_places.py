"""Where on a broker an AMQP gateway goes: ours, and a virtual host, an exchange and keys of somebody else's."""

from __future__ import annotations

import pytest

import gateways.protocols.amqp.intake as intake_module
from gateways.protocols import PROTOCOLS
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings
from tests.gateways.amqp.conftest import Sink as Told
from tests.gateways.amqp.fake_broker import FakeBroker


class Sink:
    def turned_away(self, reason: str) -> None: ...

    def link(self, up: bool, reason: str) -> None:
        pass


@pytest.mark.parametrize(
    ("virtual_host", "settings", "bound"),
    [
        ("/", {}, ("amq.topic", "vehicles.#")),
        ("fleet", {"exchange": "telemetry", "address": "trucks.*.{id}"}, ("telemetry", "trucks.*.*")),
    ],
)
async def test_a_gateway_binds_its_queue_where_it_is_told(virtual_host, settings, bound) -> None:
    amqp = PROTOCOLS["amqp"]
    async with FakeBroker() as broker:
        endpoint = Endpoint(broker.host, broker.port, virtual_host=virtual_host)
        intake = amqp.intake(endpoint, amqp.modes["manual"], Sink(), IntakeSettings(**settings))
        await intake.open()
        await intake.close()
        assert (broker.opened, broker.bound) == ([virtual_host], [bound])


@pytest.mark.parametrize("code", [403, 404, 405, 406])
async def test_what_refuses_a_gateway_that_comes_back_is_told(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that was taken away, a queue that is locked, or has other arguments; a lost connection alone is no refusal."""
    monkeypatch.setattr(intake_module, "Backoff", lambda: Backoff(0.01, 0.1))
    amqp, sink = PROTOCOLS["amqp"], Told()
    async with FakeBroker() as broker:
        endpoint = Endpoint(broker.host, broker.port)
        intake = amqp.intake(endpoint, amqp.modes["manual"], sink, IntakeSettings())
        await intake.open()
        broker.drop()
        await sink.until(lambda: [up for up, _ in sink.links] == [True, False, True])
        assert sink.refusals == []
        broker.refuses_with = code
        broker.drop()
        await sink.until(lambda: len(sink.refusals) >= 2)
        assert all(
            f"AMQP at {broker.host}:{broker.port}: " in said and str(code) in said for said in sink.refusals
        )
        broker.refuses_with = None
        await sink.until(lambda: sink.links[-1][0] and len(sink.links) == 5)
        await intake.close()
