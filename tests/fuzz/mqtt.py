"""MQTT packets at the gateway's session, and payloads and topics behind it at the bridge."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

from gateways.protocols.ends import Receipt
from gateways.protocols.mqtt.address import mqtt_addresses, mqtt_topic
from gateways.protocols.mqtt.packets import CONNACK, Credentials, MalformedPacketError
from gateways.protocols.mqtt.session import GatewaySession
from ivsim.study.engines.codec.fuzz import hostile
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from tests.fake_mqtt_broker import packet, publish
from tests.fuzz.surface import VEHICLES, Payloads, Surface, paper_bridge
from tests.fuzz.words import damaged

OURS = mqtt_addresses("")
_FORMATS = ("protobuf", "json", "flatbuffers", "avro", "msgpack", "small")


class _Gateway:
    """One format's gateway from the bytes of a connection to the platform: what MqttIntake is, without a socket."""

    def __init__(self, format_name: str) -> None:
        self.bridge, self.delivery = paper_bridge(format_name, "mqtt", "qos1")
        self.bridge.connect(self)  # type: ignore[arg-type]
        self.payloads = Payloads(format_name)
        self.session = GatewaySession(
            Credentials("g"), self, five=True, keepalive_s=60, session_expiry_s=60, receive_max=1_000
        )
        self.connect()

    def connect(self) -> None:
        self.session.connect(self.session.generation + 1)
        self.session.receive(packet(CONNACK, b"\x00\x00\x00"))

    def receive(self, data: bytes) -> str:
        """Take bytes as one connection brings them; return what became of them."""
        try:
            self.session.receive(data)
        except MalformedPacketError:
            self.connect()
            return "connection closed"
        self.session.acknowledgements()
        return "taken"

    def publish_arrived(
        self, topic: bytes, payload: bytes, duplicate: bool, receipt: Any, content_type: bytes = b""
    ) -> None:
        text = topic.decode("utf-8", "replace")
        try:
            vehicle = OURS.vehicle_of(text)
        except ValueError as error:
            self.bridge.misaddressed(text, payload, 1, receipt, str(error))
        else:
            said = content_type.decode("utf-8", "replace")
            self.bridge.take(vehicle, payload, 1, duplicate, receipt, said)

    def oversized_arrived(self, topic: bytes, beginning: bytes, size_bytes: int, receipt: Any) -> None:
        self.bridge.oversized(
            topic.decode("utf-8", "replace"), beginning, 1, receipt, size_bytes=size_bytes, reason="too long"
        )

    def accepted(self, session_present: bool) -> None:
        pass

    def refused(self, reason: str) -> None:
        pass

    def subscribed(self) -> None:
        pass

    def unsubscribed(self) -> None:
        pass

    def ended(self, reason: str, *, taken_over: bool) -> None:
        pass

    # The bridge calls these.

    def acknowledge(self, receipt: Receipt) -> None:
        if receipt is not None:
            self.session.acknowledge(receipt)

    def invalid(self, receipt: Receipt) -> None:
        pass

    def pause(self) -> None:
        raise AssertionError("nothing is held")

    def resume(self) -> None:
        pass

    def flush(self) -> None:
        self.session.acknowledgements()


class Mqtt(Surface):
    """Half of the inputs are whole packets with a damaged payload or topic, half are damaged packets."""

    name, good_every = "mqtt", 500

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._gateways = [_Gateway(name) for name in _FORMATS]
        self._damaged: list[Iterator[bytes]] = [
            hostile([gateway.payloads.next(k) for k in range(VEHICLES)], self.rng)
            for gateway in self._gateways
        ]
        self._numbers = itertools.cycle(range(1, 65_536))

    async def hostile(self) -> None:
        rng = self.rng
        at = rng.randrange(len(self._gateways))
        gateway, topic = self._gateways[at], mqtt_topic(vehicle_id(rng.randrange(1, VEHICLES + 1)))
        if rng.random() < 0.3:
            topic = damaged(rng, topic)
        data = publish(
            topic[:20_000], next(self._damaged[at]), qos=rng.randrange(3), mid=next(self._numbers),
            dup=rng.random() < 0.2, five=True, properties=_properties(rng) if rng.random() < 0.3 else b"",
        )  # fmt: skip
        if rng.random() < 0.5:
            data = _damaged_packet(rng, bytearray(data))
        self.last = (FORMATS[_FORMATS[at]].name, data)
        outcome = gateway.receive(data)
        if rng.random() < 0.02:
            gateway.connect()  # what a length that was a lie still waits for
        self.outcomes[outcome] += 1
        if sum(self.outcomes.values()) % 64 == 0:
            await asyncio.sleep(0)

    async def good(self) -> None:
        await asyncio.sleep(0)
        for gateway in self._gateways:
            gateway.connect()
            k = self.rng.randrange(VEHICLES)
            payload = gateway.payloads.next(k)
            before = gateway.delivery.records
            self.last = payload
            gateway.receive(
                publish(mqtt_topic(vehicle_id(k + 1)), payload, qos=1, mid=7, dup=False, five=True)
            )
            assert gateway.delivery.records == before + 1
            assert gateway.delivery.last == (vehicle_id(k + 1).encode(), payload)


def _properties(rng: Any) -> bytes:
    """Return a content type of ours, of others or of no sense, or bytes that are no properties."""
    if rng.random() < 0.2:
        return bytes(rng.randbytes(rng.randrange(100)))
    said = rng.choice(
        [*(FORMATS[name].content_type.encode() for name in _FORMATS), b"text/html", rng.randbytes(40)]
    )
    return b"\x03" + len(said).to_bytes(2, "big") + said


def _damaged_packet(rng: Any, data: bytearray) -> bytes:
    choice = rng.randrange(5)
    if choice == 0:
        return bytes(data[: rng.randrange(len(data))])
    if choice == 1:
        return bytes(rng.randbytes(rng.randrange(40)))
    if choice == 2:  # another type, or other flags
        data[0] = rng.randrange(256)
        return bytes(data)
    if choice == 3:  # a length of its own
        data[1:2] = rng.choice((b"\x00", b"\x7f", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x80\x00"))
        return bytes(data)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(min(len(data), 60))] = rng.randrange(256)
    return bytes(data)
