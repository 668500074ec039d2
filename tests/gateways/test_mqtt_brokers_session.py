"""What mosquitto keeps for a gateway: an older session after kill -9, and the share of a member that leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.mqtt.address import mqtt_topic
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import vehicle_id
from tests.gateways.amqp.conftest import Wire

pytestmark = pytest.mark.broker

MQTT = PROTOCOLS["mqtt"]
TOPIC = mqtt_topic(vehicle_id(1))
WAIT_S = 30.0


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record) as server:
        yield server


class Gateway:
    """An intake, and Kafka of paper behind it: reports when told, or at once."""

    def __init__(
        self, broker: MosquittoServer | Endpoint, mode: str, *, by_itself: bool, **settings: Any
    ) -> None:
        self.by_itself = by_itself
        self.taken: list[bytes] = []
        self.receipts: list[Any] = []
        self.links: list[bool] = []
        self.reasons: list[str] = []
        here = Endpoint(broker.host, broker.port)
        self.intake = MQTT.intake(here, MQTT.modes[mode], self, IntakeSettings(**settings))

    def take(self, vehicle: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any) -> None:
        self.taken.append(payload)
        self.receipts.append(receipt)
        if self.by_itself:
            asyncio.get_running_loop().call_later(0.005, self.report, receipt)

    def misaddressed(self, *arguments: Any) -> None:
        raise AssertionError(arguments)

    def report(self, *receipts: Any) -> None:
        for receipt in receipts:
            self.intake.acknowledge(receipt)
        self.intake.flush()

    def turned_away(self, reason: str) -> None: ...

    def link(self, up: bool, reason: str) -> None:
        self.links.append(up)
        self.reasons.append(reason)


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("mode", ["qos1", "qos2", "qos1-v311", "qos2-v311"])
async def test_new_messages_of_an_older_session_are_taken(broker, publish, mode: str) -> None:
    """The saved session knows no identifier; those given before the kill are given again to other messages."""
    qos = MQTT.modes[mode].options["qos"]
    old, new = [b"old %d" % k for k in range(5)], [b"new %d" % k for k in range(5)]
    first = Gateway(broker, mode, by_itself=False, name="stale")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(first.intake.close)
        await first.intake.open()
        await asyncio.to_thread(broker.save)
        await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in old], qos)
        await until(lambda: len(first.taken) == 5)
        broker.process.kill()
        await until(lambda: first.links[-1] is False)
        await asyncio.to_thread(broker.restart)
        await until(lambda: first.links[-1])
        await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in new], qos)
        await until(lambda: len(first.taken) == 10)
        assert first.taken == old + new
        assert [r.number for r in first.receipts[:5]] == [r.number for r in first.receipts[5:]]
        first.report(*first.receipts[:5])
        await asyncio.sleep(0.2)
    # Killed, as far as Kafka can tell: nothing new was reported, so everything new comes again.
    second = Gateway(broker, mode, by_itself=True, name="stale")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(second.intake.close)
        await second.intake.open()
        await until(lambda: len(second.taken) == 5)
        assert sorted(second.taken) == new


@pytest.mark.parametrize("mode", ["qos1", "qos2", "qos1-v311"])
async def test_a_member_that_stops_hands_its_share_over(broker, publish, mode: str) -> None:
    """Kafka is slow, so half of a burst waits in each member's session; then one member is stopped in order."""
    qos = MQTT.modes[mode].options["qos"]
    payloads = [b"%d" % k for k in range(200)]
    members = [
        Gateway(broker, mode, by_itself=False, name=f"member-{k}", shared=True, receive_max=20)
        for k in (1, 2)
    ]
    leaving, staying = members
    async with contextlib.AsyncExitStack() as stack:
        for member in members:
            stack.push_async_callback(member.intake.close)
            await member.intake.open()
        await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in payloads], qos)
        await until(lambda: leaving.taken and staying.taken)
        for member in members:
            member.by_itself = True
            member.report(*member.receipts)
        await leaving.intake.close()
        await until(lambda: len(leaving.taken) + len(staying.taken) == 200)
        assert sorted(leaving.taken + staying.taken) == sorted(payloads)
        await asyncio.to_thread(publish, broker, [(TOPIC, b"later %d" % k) for k in range(20)], qos)
        await until(lambda: len(leaving.taken) + len(staying.taken) == 220)
        assert staying.taken[-20:] == [b"later %d" % k for k in range(20)]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("mode", ["qos1", "qos2", "qos1-v311"])
async def test_no_message_is_lost_when_all_members_stop(broker, publish, mode: str, together: bool) -> None:
    """One by one the last one stays subscribed, at the same time all do: a share without members is for nobody."""
    qos = MQTT.modes[mode].options["qos"]
    meanwhile = [b"meanwhile %d" % k for k in range(40)]
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> list[Gateway]:
            members = [Gateway(broker, mode, by_itself=True, name=f"member-{k}", shared=True) for k in (1, 2)]
            for member in members:
                stack.push_async_callback(member.intake.close)
                await member.intake.open()
            return members

        stopped = await start()
        if together:
            await asyncio.gather(*(member.intake.close() for member in stopped))
        else:
            for member in stopped:
                await member.intake.close()
        assert [member.intake.left_behind() for member in stopped] == [None, None]
        await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in meanwhile], qos)
        back = await start()
        await until(lambda: sum(len(member.taken) for member in back) == 40)
        assert sorted(back[0].taken + back[1].taken) == sorted(meanwhile)
        assert bool(back[0].taken) == together


@pytest.mark.parametrize("back", [True, False])
async def test_a_member_that_is_killed_is_cured_by_its_return_or_by_its_sessions_end(
    broker, publish, back
) -> None:
    """Until its session ends a killed member goes on getting its share; it finds all of it when it comes back.

    When it does not, the others get the whole fleet from then on. What had waited goes with the session: MQTT 5
    (4.8.2) lets a broker pass it on, mosquitto 2.0.11 does not.
    """
    expiry_s = 60 if back else 1
    async with contextlib.AsyncExitStack() as stack:
        cable = await stack.enter_async_context(contextlib.AsyncExitStack())
        wire = await Wire().open(cable, broker)
        killed, staying = (
            Gateway(at, "qos1", by_itself=True, name=f"k-{k}", shared=True, session_expiry_s=expiry_s)
            for k, at in ((1, wire.endpoint), (2, broker))
        )
        for member in (killed, staying):
            stack.push_async_callback(member.intake.close)
            await member.intake.open()
        await cable.aclose()  # no DISCONNECT, as after kill -9, and no way back
        meanwhile = [b"meanwhile %d" % k for k in range(40)]
        await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in meanwhile], 1)
        await until(lambda: len(staying.taken) == 20)
        if back:
            again = Gateway(broker, "qos1", by_itself=True, name="k-1", shared=True, session_expiry_s=60)
            stack.push_async_callback(again.intake.close)
            await again.intake.open()
            await until(lambda: len(again.taken) == 20)
            assert sorted(again.taken + staying.taken) == sorted(meanwhile)
            return
        later = [b"later %d" % k for k in range(20)]
        async with asyncio.timeout(WAIT_S):
            while True:  # the broker looks for sessions that have ended in its own time
                del staying.taken[:]
                await asyncio.to_thread(publish, broker, [(TOPIC, payload) for payload in later], 1)
                await until(lambda: len(staying.taken) >= 10)
                await asyncio.sleep(0.2)
                if staying.taken == later:
                    break


async def test_a_member_that_cannot_keep_what_it_gets_keeps_its_session(broker, publish, monkeypatch) -> None:
    monkeypatch.setattr("gateways.protocols.mqtt.intake.HAND_OVER_STUCK_S", 0.3)
    first = Gateway(broker, "qos1", by_itself=False, name="stuck", shared=True)
    await first.intake.open()
    await asyncio.to_thread(publish, broker, [(TOPIC, b"kept")], 1)
    await until(lambda: first.taken)
    await first.intake.close()
    second = Gateway(broker, "qos1", by_itself=True, name="stuck", shared=True)
    await second.intake.open()
    await until(lambda: second.taken == [b"kept"])
    await second.intake.close()


@pytest.mark.parametrize("mode", ["qos1", "qos1-v311"])
async def test_two_gateways_of_one_name(broker, publish, mode: str) -> None:
    """Each throws the other out, until one of them names the cause and lets the other have a while; neither ends."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    both = [Gateway(broker, mode, by_itself=True, name="twin") for _ in range(2)]
    async with contextlib.AsyncExitStack() as stack:
        for one in both:
            stack.push_async_callback(one.intake.close)
            await one.intake.open()
        await until(
            lambda: any("another client is named 'twin' too" in said for one in both for said in one.reasons)
        )
        await asyncio.to_thread(publish, broker, [(TOPIC, b"one")], 1)
        await until(lambda: b"one" in both[0].taken + both[1].taken)
        assert told == []
