"""Schemes of addresses: what they match, what a broker is asked for, and every protocol's gateway with one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.protocols import PROTOCOLS
from gateways.protocols.addresses import ANY, IDENTITY, PLACE, Levels, addresses
from gateways.protocols.amqp.address import amqp_addresses
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.coap.address import coap_addresses
from gateways.protocols.mqtt.address import mqtt_addresses
from schemas.errors import Refusal

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


async def test_gateways_behind_a_broker_take_a_scheme_of_somebody_elses() -> None:
    sink = Sink()
    mqtt = PROTOCOLS["mqtt"]
    settings = IntakeSettings(address="fleet/*/{id}/state", shared=True)
    one = mqtt.intake(Endpoint("127.0.0.1", 9), mqtt.modes["qos1"], sink, settings)
    assert one._filter == "$share/ivsim/fleet/+/+/state"
    for _ in range(2):
        one.publish_arrived(b"fleet/north/truck-7/state", b"m", False, None, b"")
    one.publish_arrived(b"fleet/north/b c/state", b"m", False, None, b"")
    amqp = PROTOCOLS["amqp"]
    other = amqp.intake(
        Endpoint("127.0.0.1", 9), amqp.modes["manual"], sink, IntakeSettings(address="fleet.{id}")
    )
    assert other._addresses.filter == "fleet.*"
    other._delivered(1, False, b"fleet.truck-8", b"a", b"")
    other._delivered(2, False, b"vehicles.truck-8.status", b"a", b"")
    assert sink.taken == [("truck-7", b"m"), ("truck-7", b"m"), ("truck-8", b"a")]
    assert sink.strays == ["fleet/north/b c/state", "vehicles.truck-8.status"]


def test_a_configuration_with_no_scheme_is_refused_before_anything_is_opened() -> None:
    for protocol in PROTOCOLS.values():
        with pytest.raises(Refusal, match="address 'here'"):
            protocol.check_scheme("here")
        protocol.check_scheme("")
