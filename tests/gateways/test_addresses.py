"""Schemes of addresses: what they match, what a broker is asked for, and every protocol's gateway with one."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from fake_mqtt_broker import SUBSCRIBE, Connection, packet, publish
from fake_mqtt_broker import FakeBroker as MqttBroker
from hypothesis import given
from hypothesis import strategies as st

from gateways.protocols import PROTOCOLS
from gateways.protocols.addresses import ANY, IDENTITY, PLACE, Levels, addresses
from gateways.protocols.amqp.address import amqp_addresses
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.coap.address import coap_addresses
from gateways.protocols.mqtt.address import mqtt_addresses
from schemas.errors import Refusal
from tests.gateways.amqp.fake_broker import FakeBroker as AmqpBroker

MQTT = Levels("/", "+")


@pytest.mark.parametrize(
    ("scheme", "address", "vehicle"),
    [
        ("fleet/*/{id}/status", "fleet/north/truck-7/status", "truck-7"),
        ("fleet/*/{id}/status", "fleet/*/truck-7/status", "truck-7"),
        ("{id}/v1.2", "truck-7/v1.2", "truck-7"),
        ("{id}/v1.2", "truck-7/v1x2", None),
        ("a/{id}", "a/truck-7/b", None),
        ("a/{id}", "b/truck-7", None),
        ("a/*/{id}", "a//truck-7", None),
        ("a/*/{id}", "a/b/c/truck-7", None),
        ("a/{id}", "a/" + "x" * 33, None),
        ("a/{id}", "a/b c", None),
        ("a/{id}", "a/truck-7\n", None),
        ("a/*/{id}", "a/\n/truck-7", "truck-7"),
    ],
)
def test_an_address_names_a_vehicle_or_is_none(scheme: str, address: str, vehicle: str | None) -> None:
    found = addresses(scheme, MQTT)
    if vehicle is not None:
        assert found.vehicle_of(address) == vehicle
    else:
        with pytest.raises(ValueError, match="does not name a vehicle"):
            found.vehicle_of(address)


def test_a_broker_is_asked_for_the_scheme_alone_and_for_more_than_ours() -> None:
    assert mqtt_addresses("fleet/*/{id}/status").filter == "fleet/+/+/status"
    assert amqp_addresses("fleet.*.{id}.status").filter == "fleet.*.*.status"
    assert (mqtt_addresses("").filter, amqp_addresses("").filter) == ("vehicles/#", "vehicles.#")
    assert (coap_addresses("fleet/*/{id}").filter, coap_addresses("fleet/*/{id}").at) == ("", 2)


@pytest.mark.parametrize(
    "scheme", ["", "{id}", "*/{id}", "fleet", "a/{id}/{id}", "a//{id}", "/a/{id}", "a/{id}/", "a/#/{id}", "a/+/{id}",
               "a/{ID}", "$SYS/{id}", "a/x{id}", "a b/{id}", "/".join(["a"] * 16 + ["{id}"]), "a/" + "b" * 65 + "/{id}"],
)  # fmt: skip
def test_what_is_no_scheme_is_refused_with_an_example(scheme: str) -> None:
    with pytest.raises(ValueError, match=r"such as fleet/\*/\{id\}/status"):
        addresses(scheme, MQTT)


@given(
    st.lists(st.sampled_from(["a", "b-1", ANY]), max_size=5),
    st.integers(0, 5),
    st.text(st.characters(exclude_characters="/"), max_size=40),
)
def test_every_address_of_a_scheme_matches_its_own_filter(levels: list[str], at: int, other: str) -> None:
    levels.insert(min(at, len(levels)), PLACE)
    if not set(levels) - {PLACE, ANY}:
        levels.append("end")
    found = addresses("/".join(levels), MQTT)
    wild = found.filter.split("/")
    address = ["truck-7" if part == PLACE else "x" if part == ANY else part for part in levels]
    assert found.vehicle_of("/".join(address)) == "truck-7"
    assert all(want in {"+", part} for want, part in zip(wild, address, strict=True))
    address[found.at] = other
    if re.fullmatch(IDENTITY, other) is None:
        with pytest.raises(ValueError, match="does not name"):
            found.vehicle_of("/".join(address))


class Sink:
    """Stands for the bridge: notes what it is given."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.strays: list[str] = []

    def take(self, vehicle_id: str, payload: bytes, *_: Any) -> None:
        self.taken.append((vehicle_id, payload))

    def misaddressed(self, address: str, *_: Any) -> None:
        self.strays.append(address)

    def turned_away(self, reason: str) -> None: ...

    def link(self, up: bool, reason: str) -> None:
        pass


async def test_a_gateway_behind_mqtt_takes_a_scheme_of_somebody_elses() -> None:
    sink, asked = Sink(), []
    topics = [
        "ivsim/gateways/ivsim",  # the group's own, whoever writes there
        "fleet/north/truck-7/state",
        "fleet/north/truck-7/state",
        "fleet/north/b c/state",
    ]

    def answer(_connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind != SUBSCRIBE:
            return None
        asked.append(body[5:-1])  # behind identifier, no properties and its length; before its options
        granted = packet(0x90, body[:2] + b"\0\0")
        return [granted, *(publish(topic, b"m") for topic in topics)] if len(asked) == 2 else [granted]

    mqtt = PROTOCOLS["mqtt"]
    async with MqttBroker(answer=answer) as broker:
        settings = IntakeSettings(address="fleet/*/{id}/state", shared=True)
        intake = mqtt.intake(Endpoint(broker.host, broker.port), mqtt.modes["qos0"], sink, settings)
        await intake.open()
        await broker.until(lambda: sink.strays)
        await intake.close()
    assert asked == [b"$share/ivsim/fleet/+/+/state", b"ivsim/gateways/ivsim"]
    assert sink.taken == [("truck-7", b"m"), ("truck-7", b"m")]
    assert sink.strays == ["fleet/north/b c/state"]


async def test_a_gateway_behind_amqp_takes_a_scheme_of_somebody_elses() -> None:
    sink, amqp = Sink(), PROTOCOLS["amqp"]
    async with AmqpBroker() as broker:
        broker.waiting = [(b"fleet.truck-8", b"a"), (b"vehicles.truck-8.status", b"a")]
        settings = IntakeSettings(address="fleet.{id}")
        intake = amqp.intake(Endpoint(broker.host, broker.port), amqp.modes["auto"], sink, settings)
        await intake.open()
        async with asyncio.timeout(30):
            while not sink.strays:
                await asyncio.sleep(0.01)
        await intake.close()
        assert broker.bound == [("amq.topic", "fleet.*")]
    assert sink.taken == [("truck-8", b"a")]
    assert sink.strays == ["vehicles.truck-8.status"]


def test_a_configuration_with_no_scheme_is_refused_before_anything_is_opened() -> None:
    for protocol in PROTOCOLS.values():
        with pytest.raises(Refusal, match="address 'here'"):
            protocol.check_scheme("here")
        protocol.check_scheme("")
