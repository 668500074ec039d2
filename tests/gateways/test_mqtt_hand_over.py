"""A member of a group that is stopped, with the real bridge: what its broker had put aside for it is lost nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fake_mqtt_broker import (
    DISCONNECT,
    PUBACK,
    PUBLISH,
    UNSUBSCRIBE,
    Connection,
    FakeBroker,
    publish,
)

from gateways.batched_delivery import BatchedDelivery
from gateways.batching.batcher import BatchSetting
from gateways.bridge import Bridge
from gateways.counters import Counters
from gateways.kafka_delivery import KafkaDelivery
from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.mqtt.address import mqtt_topic
from schemas.formats.base import Peek
from schemas.topics import KafkaTopics, vehicle_id
from tests.gateways.test_bridge_rules import Message

MQTT = PROTOCOLS["mqtt"]
TOPIC = mqtt_topic(vehicle_id(1))
GROUP = "ivsim/gateways/g"
WAIT_S = 30.0
BOTH = pytest.mark.parametrize("mode", ["qos1", "qos1-v311"])
KEEPS = {"qos1": "for 90 s", "qos1-v311": "for as long as it keeps a session of 3.1.1"}


class Numbers:
    """A payload is its sequence number, and as many spaces as it takes."""

    name = "numbers"
    sequence_modulus = None

    def peek(self, payload: bytes) -> Peek:
        return Peek(int(payload), 1, None, None)


class Producer:
    """Kafka that answers 50 ms later, or never."""

    fatal = None

    def __init__(self) -> None:
        self.due: list[tuple[float, Message, Any]] = []
        self.kept: list[int] = []
        self.answers = True

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Any, headers: Any) -> None:
        self.due.append((time.monotonic() + 0.05, Message(topic, key, value), on_delivery))

    def poll(self, _timeout_s: float) -> None:
        while self.answers and self.due and self.due[0][0] <= time.monotonic():
            _, message, on_delivery = self.due.pop(0)
            self.kept.append(int(message.value()))
            on_delivery(None, message)


class Session:
    """What a broker has put aside for a member: sent from its UNSUBSCRIBE on, so many at a time, until acknowledged."""

    def __init__(self, payloads: list[bytes], window: int) -> None:
        self.waiting, self.window = payloads, window
        self.in_flight: dict[int, bytes] = {}
        self.number = 0
        self.goodbye: bytes | None = None
        self.endless = False
        self.confirms = True

    def __call__(self, connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        five = connection.broker.five
        if kind == PUBLISH:
            question = body[2 + len(GROUP) + five :]
            return [
                publish(GROUP, said, five=five)
                for said in (question, question.replace(b"who is here? ", b"here: "))
            ]
        if kind == UNSUBSCRIBE:
            asyncio.get_running_loop().call_soon(self.feed, connection)
            return None if self.confirms else []
        if kind == PUBACK:
            payload = self.in_flight.pop(int.from_bytes(body[:2], "big"))
            if self.endless:
                self.waiting.append(payload)
            self.feed(connection)
        if kind == DISCONNECT:
            self.goodbye = body
        return None

    def feed(self, connection: Connection) -> None:
        while self.waiting and len(self.in_flight) < self.window:
            self.number = self.number % 65_535 + 1
            payload = self.in_flight[self.number] = self.waiting.pop(0)
            connection.send(publish(TOPIC, payload, qos=1, mid=self.number, five=connection.broker.five))


class Gateway:
    def __init__(
        self, broker: FakeBroker, mode: str, *, batch: int | None, held_max: int, held_bytes_max: int
    ) -> None:
        self.producer, self.counters = Producer(), Counters()
        common: Any = {
            "producer": self.producer,
            "topics": KafkaTopics(),
            "counters": self.counters,
            "fatal": pytest.fail,
        }
        self.bridge = Bridge(
            delivery=KafkaDelivery(**common)
            if batch is None
            else BatchedDelivery(setting=BatchSetting(batch, 60_000), partition_of=lambda _key: 0, **common),
            counters=self.counters,
            payload_format=Numbers(),  # type: ignore[arg-type]
            protocol="mqtt",
            mode=mode,
            held_max=held_max,
            held_bytes_max=held_bytes_max,
        )
        settings = IntakeSettings(
            keepalive_s=60, shared=True, group="g", name="one", session_expiry_s=90, receive_max=held_max
        )
        here = Endpoint(broker.host, broker.port)
        self.intake: Any = MQTT.intake(here, MQTT.modes[mode], self.bridge, settings)
        self.bridge.connect(self.intake)

    async def stop(self) -> float:
        """Stop as a gateway's process does; return the seconds it took."""
        began_s = time.monotonic()
        self.intake.pause()
        async with asyncio.timeout(WAIT_S):
            assert await self.bridge.drain(10.0)
            await self.intake.close()
        return time.monotonic() - began_s


@contextlib.asynccontextmanager
async def member(
    mode: str,
    session: Session,
    *,
    batch: int | None = None,
    held_max: int = 1_000,
    held_bytes_max: int = 67_108_864,
) -> AsyncIterator[tuple[FakeBroker, Gateway]]:
    async with FakeBroker(five=mode == "qos1", answer=session) as broker:
        gateway = Gateway(broker, mode, batch=batch, held_max=held_max, held_bytes_max=held_bytes_max)
        await gateway.intake.open()
        try:
            yield broker, gateway
        finally:
            await gateway.intake.close()
            gateway.bridge.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def limits(**seconds: float) -> None:
        for name, value in seconds.items():
            monkeypatch.setattr(f"gateways.protocols.mqtt.intake.{name}", value)

    return limits


ENDS = bytes.fromhex("00051100000000")


@BOTH
@pytest.mark.parametrize(
    ("size", "count", "window", "limits"),
    [
        (1_000, 300, 100, {}),
        (1_000, 300, 100, {"held_bytes_max": 50_000}),
        (1_000, 300, 100, {"held_max": 80}),
        (100, 5_000, 3_000, {}),
        (300_000, 300, 100, {"held_bytes_max": 4_000_000}),
        (100, 300, 100, {"batch": 70, "held_max": 80}),
    ],
)
async def test_a_member_whose_hand_over_meets_its_limits_takes_everything(
    mode: str, size: int, count: int, window: int, limits: Any
) -> None:
    session = Session([b"%d".ljust(size) % n for n in range(1, count + 1)], window)
    async with member(mode, session, **limits) as (broker, gateway):
        await gateway.stop()
        await broker.until(lambda: session.goodbye is not None)
        assert gateway.producer.kept == list(range(1, count + 1))
        assert (session.waiting, session.in_flight) == ([], {})
        assert gateway.intake.left_behind() is None
        assert session.goodbye == (ENDS if mode == "qos1" else b"")
        assert bool(gateway.counters.pauses) == bool(limits or window > 1_000)


async def keeps(mode: str, session: Session, broker: FakeBroker, gateway: Gateway) -> None:
    """The session stays, and the member says so: its process ends with 1."""
    await broker.until(lambda: session.goodbye is not None)
    assert session.goodbye == b""
    assert f"keeps what it had for the session 'one' {KEEPS[mode]}" in gateway.intake.left_behind()


@BOTH
async def test_a_member_that_stands_paused_keeps_its_session(mode: str, soon: Callable[..., None]) -> None:
    """Kafka answers no more in the middle: a wire that is not read is no sign that nothing comes."""
    soon(HAND_OVER_STUCK_S=1.0)
    session = Session([b"%d" % n for n in range(1, 301)], 100)
    async with member(mode, session, held_max=50) as (broker, gateway):
        gateway.producer.answers = False
        assert await gateway.stop() < 6
        await keeps(mode, session, broker, gateway)
        assert gateway.bridge.paused


@BOTH
async def test_a_member_that_is_given_messages_without_end_stops_in_time(
    mode: str, soon: Callable[..., None]
) -> None:
    soon(HAND_OVER_S=1.5)
    session = Session([b"%d" % n for n in range(1, 101)], 50)
    session.endless = True
    async with member(mode, session) as (broker, gateway):
        assert await gateway.stop() < 5
        await keeps(mode, session, broker, gateway)


@BOTH
async def test_strangers_on_the_groups_topic_keep_no_member_from_stopping(mode: str) -> None:
    session = Session([b"%d" % n for n in range(1, 101)], 50)
    async with member(mode, session) as (broker, gateway):

        async def strange() -> None:
            while True:
                broker.connections[0].send(publish(GROUP, b"noise", five=mode == "qos1"))
                await asyncio.sleep(0.1)

        task = asyncio.ensure_future(strange())
        assert await gateway.stop() < 5
        task.cancel()
        assert gateway.intake.left_behind() is None
        assert gateway.producer.kept == list(range(1, 101))


@BOTH
async def test_a_member_whose_broker_does_not_say_that_it_has_left_keeps_its_session(
    mode: str, soon: Callable[..., None]
) -> None:
    """UNSUBACK is behind what the broker had sent: without it nobody knows what is still to come."""
    soon(HAND_OVER_STUCK_S=1.0)
    session = Session([b"1"], 1)
    session.confirms = False
    async with member(mode, session) as (broker, gateway):
        assert await gateway.stop() < 6
        await keeps(mode, session, broker, gateway)
        assert gateway.producer.kept == [1]
