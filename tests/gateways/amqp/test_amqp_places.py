"""Where on a broker an AMQP gateway goes: ours, and a virtual host, an exchange and keys of somebody else's."""

from __future__ import annotations

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings
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
