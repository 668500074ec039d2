"""Each of our MQTT ends against an independent one through mosquitto: its own clients, which are libmosquitto in C."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.protocol import Mqtt
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

NUMBER = 64_322
VEHICLE = vehicle_id(NUMBER)
TOPIC = mqtt_topic(VEHICLE)
# Empty, one byte, more than one read, more than one TCP segment's worth by far.
PAYLOADS = [b"", b"\x00", b"\xff\r\n\x00 text", os.urandom(1157), os.urandom(70_000)]
WAIT_S = 30
VERSION = {"5": "mqttv5", "3.1.1": "mqttv311"}
MODES = sorted(Mqtt.modes)


class Sink:
    """The bridge: keeps what comes of the vehicle, and acknowledges it unless it holds."""

    def __init__(self, *, holding: bool = False) -> None:
        self.taken: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
        self.holding = holding
        self.intake: Any = None

    def take(
        self,
        vehicle: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Any,
        content_type: str = "",
    ) -> None:
        if vehicle == VEHICLE:  # other tests share the broker
            self.taken.put_nowait((payload, duplicate))
        if vehicle != VEHICLE or not self.holding:
            self.intake.acknowledge(receipt)
            asyncio.get_running_loop().call_soon(self.intake.flush)

    def misaddressed(self, address: str, payload: bytes, at_ns: int, receipt: Any, reason: str) -> None:
        self.intake.acknowledge(receipt)

    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...

    async def next(self, count: int) -> list[tuple[bytes, bool]]:
        async with asyncio.timeout(WAIT_S):
            return [await self.taken.get() for _ in range(count)]


class Events:
    """The sender, at a vehicle's end."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[int] = asyncio.Queue()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.answers.put_nowait(token)

    def refused(self, token: int, reason: str) -> None:
        raise AssertionError(reason)

    def connected(self, at_ns: int, session_present: bool) -> None: ...

    def disconnected(self, at_ns: int, reason: str) -> None:
        raise AssertionError(reason)

    def writable(self) -> None: ...


@asynccontextmanager
async def gateway(where: tuple[str, int], mode: str, name: str, sink: Sink) -> AsyncIterator[Sink]:
    intake = Mqtt().intake(Endpoint(*where), Mqtt.modes[mode], sink, IntakeSettings(name=name))
    sink.intake = intake
    await intake.open()
    try:
        yield sink
    finally:
        await intake.close()


async def published(where: tuple[str, int], mode: str, payload: bytes, *words: str) -> None:
    """Let mosquitto_pub publish one message of the vehicle, and wait until the broker has it."""
    options = Mqtt.modes[mode].options
    content = ("-s",) if payload else ("-n",)
    process = await asyncio.create_subprocess_exec(
        "mosquitto_pub", *_to(where, options["mqtt_version"]), "-t", TOPIC, "-q", str(options["qos"]), *content, *words,
        stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await asyncio.wait_for(process.communicate(payload), WAIT_S)
    assert process.returncode == 0


def _to(where: tuple[str, int], version: str) -> tuple[str, ...]:
    host, port = where
    return "-h", host, "-p", str(port), "-V", VERSION[version]


@pytest.fixture
def name() -> str:
    return f"peers-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("mode", MODES)
async def test_our_gateway_takes_what_mosquitto_pub_publishes(
    mosquitto_loopback, name: str, mode: str
) -> None:
    async with gateway(mosquitto_loopback, mode, name, Sink()) as sink:
        for payload in PAYLOADS:
            await published(mosquitto_loopback, mode, payload)
            assert await sink.next(1) == [(payload, False)]


async def test_properties_of_a_foreign_client_leave_the_payload_alone(mosquitto_loopback, name: str) -> None:
    properties = [
        ("content-type", "application/json"),
        ("message-expiry-interval", "60"),
        ("payload-format-indicator", "1"),
        ("response-topic", "answers/here"),
        ("correlation-data", "some bytes"),
        ("user-property", "a name", "a value"),
        ("user-property", "a name", "again"),
    ]
    words = [word for one in properties for word in ("-D", "publish", *one)]
    async with gateway(mosquitto_loopback, "qos1", name, Sink()) as sink:
        await published(mosquitto_loopback, "qos1", b'{"a":1}', *words)
        assert await sink.next(1) == [(b'{"a":1}', False)]


@pytest.mark.parametrize("mode", [mode for mode in MODES if Mqtt.modes[mode].options["qos"]])
async def test_our_gateways_session_keeps_what_comes_while_it_is_away(
    mosquitto_loopback, name: str, mode: str
) -> None:
    async with gateway(mosquitto_loopback, mode, name, Sink()) as sink:
        await published(mosquitto_loopback, mode, b"before")
        assert await sink.next(1) == [(b"before", False)]
    for payload in PAYLOADS:
        await published(mosquitto_loopback, mode, payload)
    async with gateway(mosquitto_loopback, mode, name, Sink()) as sink:
        assert await sink.next(len(PAYLOADS)) == [(payload, False) for payload in PAYLOADS]
        await published(mosquitto_loopback, mode, b"after")
        assert await sink.next(1) == [(b"after", False)], "nothing of before comes again"


@pytest.mark.parametrize("mode", ["qos1", "qos1-v311"])
async def test_what_was_not_acknowledged_comes_again_and_says_so(
    mosquitto_loopback, name: str, mode: str
) -> None:
    async with gateway(mosquitto_loopback, mode, name, Sink(holding=True)) as sink:
        for payload in PAYLOADS:
            await published(mosquitto_loopback, mode, payload)
        assert await sink.next(len(PAYLOADS)) == [(payload, False) for payload in PAYLOADS]
    async with gateway(mosquitto_loopback, mode, name, Sink()) as sink:
        assert await sink.next(len(PAYLOADS)) == [(payload, True) for payload in PAYLOADS]


@pytest.mark.parametrize("mode", MODES)
async def test_mosquitto_sub_gets_what_our_vehicle_sends(mosquitto_loopback, mode: str) -> None:
    chosen = Mqtt.modes[mode]
    qos = str(chosen.options["qos"])
    events = Events()
    async with AsyncExitStack() as stack:
        peer = await asyncio.create_subprocess_exec(
            "mosquitto_sub", *_to(mosquitto_loopback, chosen.options["mqtt_version"]),
            "-t", TOPIC, "-t", f"{TOPIC}/ready", "-q", qos, "-C", str(len(PAYLOADS) + 1), "-W", str(WAIT_S), "-F", "%t %q %r %x",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        stack.callback(lambda: peer.returncode is None and peer.kill())
        assert peer.stdout is not None
        # A retained message says that it has subscribed.
        await _retained(mosquitto_loopback, b"yes")
        stack.push_async_callback(_retained, mosquitto_loopback, b"")
        assert await asyncio.wait_for(peer.stdout.readline(), WAIT_S)
        vehicle = Mqtt().vehicle_client(
            Endpoint(*mosquitto_loopback), NUMBER, chosen, events, VehicleSettings()
        )
        stack.push_async_callback(vehicle.close)
        await vehicle.connect()
        for token, payload in enumerate(PAYLOADS):
            async with asyncio.timeout(WAIT_S):
                while not vehicle.ready():
                    await asyncio.sleep(0.01)
            vehicle.send(token, payload)
        output, _ = await asyncio.wait_for(peer.communicate(), WAIT_S)
        assert peer.returncode == 0
        expected = [f"{TOPIC} {qos} 0 {payload.hex()}".rstrip() for payload in PAYLOADS]
        assert [line.rstrip() for line in output.decode().splitlines()] == expected
        if chosen.acknowledged:
            async with asyncio.timeout(WAIT_S):
                assert [await events.answers.get() for _ in PAYLOADS] == list(range(len(PAYLOADS)))


async def _retained(where: tuple[str, int], payload: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        "mosquitto_pub", *_to(where, "5"), "-t", f"{TOPIC}/ready", "-q", "1", "-r", *(("-s",) if payload else ("-n",)),
        stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await asyncio.wait_for(process.communicate(payload), WAIT_S)
    assert process.returncode == 0
