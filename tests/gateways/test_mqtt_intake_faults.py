"""The gateway's end against a broker of paper: what it acknowledges it has, at every byte where a connection can fail."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from fake_mqtt_broker import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    FAULTS,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    Connection,
    Cut,
    FakeBroker,
    Fault,
    packet,
    publish,
)  # fmt: skip

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings, Tls
from gateways.protocols.ends import ConnectError
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.intake import MqttIntake
from schemas.topics import vehicle_id

MQTT = PROTOCOLS["mqtt"]
TOPIC = mqtt_topic(vehicle_id(1))
WAIT_S = 60.0
MODES = ["qos1", "qos2", "qos1-v311", "qos2-v311"]
ALL = pytest.mark.parametrize("mode", MODES)


class Sink:
    """Kafka of paper: reports what it is told to, or all after a moment."""

    def __init__(self, *, by_itself: bool = True) -> None:
        self.intake: Any = None
        self.taken: list[bytes] = []
        self.kept: set[bytes] = set()
        self.receipts: dict[bytes, Any] = {}
        self.links: list[tuple[bool, str]] = []
        self.refusals: list[str] = []
        self.by_itself = by_itself

    def take(
        self,
        vehicle: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Any,
        content_type: str = "",
    ) -> None:
        self.taken.append(payload)
        self.receipts[payload] = receipt
        if self.by_itself:
            asyncio.get_running_loop().call_later(random.random() / 200, self.report, payload, receipt)

    def report(self, payload: bytes, receipt: Any = None) -> None:
        self.kept.add(payload)
        self.intake.acknowledge(self.receipts[payload] if receipt is None else receipt)
        self.intake.flush()

    def misaddressed(self, *arguments: Any) -> None:
        raise AssertionError(arguments)

    def link(self, up: bool, reason: str) -> None:
        self.links.append((up, reason))

    def turned_away(self, reason: str) -> None:
        self.refusals.append(reason)


class Queue:
    """A broker's session for the gateway: sends what is not acknowledged on every connection, as MQTT-4.4.0-1 wants.

    Whatever is acknowledged must be in Kafka by then.
    """

    def __init__(self, sink: Sink, qos: int, payloads: list[bytes]) -> None:
        self.sink, self.qos = sink, qos
        self.waiting = dict(enumerate(payloads, 1))
        self.sent: set[int] = set()
        self.released: set[int] = set()
        self.acknowledged: list[bytes] = []

    def __call__(self, connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        five = connection.broker.five
        mid = int.from_bytes(body[:2], "big")
        if kind == SUBSCRIBE:
            again = [packet(PUBREL << 4 | 2, m.to_bytes(2, "big")) for m in sorted(self.released)]
            for m, payload in self.waiting.items():
                again.append(publish(TOPIC, payload, qos=self.qos, mid=m, dup=m in self.sent, five=five))
                self.sent.add(m)
            return [packet(0x90, body[:2] + (b"\x00" if five else b"") + bytes((self.qos,))), *again]
        if kind in {PUBACK, PUBREC} and mid in self.waiting:
            payload = self.waiting.pop(mid)
            assert payload in self.sink.kept
            self.acknowledged.append(payload)
            if kind == PUBREC:
                self.released.add(mid)
        if kind == PUBCOMP:
            self.released.discard(mid)
        return None


@contextlib.asynccontextmanager
async def gateway(broker: FakeBroker, mode: str, sink: Sink, **settings: Any) -> AsyncIterator[MqttIntake]:
    here = Endpoint(broker.host, broker.port)
    intake: Any = MQTT.intake(here, MQTT.modes[mode], sink, IntakeSettings(**{"keepalive_s": 1, **settings}))
    sink.intake = intake
    try:
        yield intake
    finally:
        await intake.close()


async def opened(intake: MqttIntake) -> None:
    """Open as often as it takes, which the process leaves to its owner."""
    while True:
        with contextlib.suppress(ConnectError):
            return await intake.open()


PAYLOADS = [b"one", b"two", b"three"]


async def session(mode: str, cut: Cut | None) -> tuple[int, int, int]:
    sink = Sink()
    qos = MQTT.modes[mode].options["qos"]
    queue = Queue(sink, qos, PAYLOADS)
    cuts = {} if cut is None else {0: cut}
    five = not mode.endswith("v311")
    async with (
        FakeBroker(five=five, cuts=cuts, answer=queue) as broker,
        gateway(broker, mode, sink) as intake,
    ):
        await opened(intake)
        await broker.until(lambda: not queue.waiting and not queue.released and sink.links[-1][0], WAIT_S)
        assert sorted(queue.acknowledged) == sorted(PAYLOADS)
        if qos == 2:
            assert Counter(sink.taken) == Counter(PAYLOADS)
        assert set(sink.taken) == set(PAYLOADS)
        assert intake.counters()["mqtt_reused_identifiers"] == 0
        first = broker.connections[0]
        return len(broker.connections), first.sent_bytes, first.taken_bytes


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateways.protocols.mqtt.intake.CONNECT_TIMEOUT_S", 1.0)


# The connection is below both versions' packets: MQTT 3.1.1 cut at any byte is for test-all.
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=pytest.mark.full if mode.endswith("v311") else ()) for mode in MODES]
)
async def test_a_connection_that_fails_at_any_byte(mode: str, fault: Fault) -> None:
    _, sent_bytes, taken_bytes = await session(mode, None)
    cuts = [Cut(fault, out=at) for at in range(sent_bytes)] + [
        Cut(fault, into=at) for at in range(taken_bytes)
    ]
    done = await asyncio.gather(*(session(mode, cut) for cut in cuts))
    assert len(done) > 100
    assert all(connections >= 2 for connections, _, _ in done)


def resent(mid: int, payload: bytes, mode: str, *, dup: bool) -> bytes:
    options = MQTT.modes[mode].options
    return publish(TOPIC, payload, qos=options["qos"], mid=mid, dup=dup, five=options["mqtt_version"] == "5")


def answers(broker: FakeBroker) -> list[int]:
    """Return the packet identifiers that the newest connection has seen acknowledged, in order."""
    return [
        int.from_bytes(body[:2], "big")
        for kind, _, body in broker.connections[-1].received
        if kind in {PUBACK, PUBREC}
    ]


@ALL
async def test_identifiers_of_an_older_session_acknowledge_nothing(mode: str) -> None:
    """kill -9, and an older session: five new messages under the identifiers of five that Kafka does not have yet."""
    sink = Sink(by_itself=False)
    old, new = [b"old %d" % k for k in range(5)], [b"new %d" % k for k in range(5)]

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind != SUBSCRIBE:
            return None
        mine = old if connection.number == 0 else new
        granted = packet(0x90, body[:2] + (b"\x00" if connection.broker.five else b"") + body[-1:])
        return [granted, *(resent(mid, payload, mode, dup=False) for mid, payload in enumerate(mine, 1))]

    five = not mode.endswith("v311")
    async with FakeBroker(five=five, answer=answer) as broker, gateway(broker, mode, sink) as intake:
        await intake.open()
        await broker.until(lambda: len(sink.taken) == 5)
        broker.connections[0].fail("reset")
        await broker.until(lambda: len(sink.taken) == 10)
        for payload in old:
            sink.report(payload)
        await asyncio.sleep(0.05)
        assert answers(broker) == []
        for payload in reversed(new):
            sink.report(payload)
        await broker.until(lambda: len(answers(broker)) == 5)
        assert sink.taken == old + new
        assert answers(broker) == [1, 2, 3, 4, 5]
        assert intake.counters()["mqtt_stale_receipts"] == 5


@ALL
async def test_acknowledgements_leave_in_the_order_of_receipt(mode: str) -> None:
    sink = Sink(by_itself=False)
    payloads = [b"%d" % k for k in range(20)]

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind == CONNECT:
            return None
        if kind == SUBSCRIBE:
            granted = packet(0x90, body[:2] + (b"\x00" if connection.broker.five else b"") + body[-1:])
            return [granted, *(resent(mid, p, mode, dup=False) for mid, p in enumerate(payloads, 1))]
        return []

    five = not mode.endswith("v311")
    async with FakeBroker(five=five, answer=answer) as broker, gateway(broker, mode, sink) as intake:
        await intake.open()
        await broker.until(lambda: len(sink.taken) == 20)
        rng = random.Random(4)
        for payload in rng.sample(payloads, 20):
            sink.report(payload)
            if rng.random() < 0.3:
                await asyncio.sleep(0.001)
        await broker.until(lambda: len(answers(broker)) == 20)
        assert answers(broker) == list(range(1, 21))


@pytest.fixture
async def told() -> Callable[[], list[str]]:
    """What reaches the event loop's exception handler, which ends a gateway's process."""
    messages: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: messages.append(context["message"]))
    return lambda: messages


async def test_a_gateway_whose_place_is_taken_says_so_and_stops(told: Callable[[], list[str]]) -> None:
    def rival(connection: Connection) -> None:
        connection.send(packet(DISCONNECT << 4, b"\x8e"))
        connection.transport.close()

    sink = Sink()
    async with FakeBroker() as broker, gateway(broker, "qos1", sink, name="twin") as intake:
        await intake.open()
        rival(broker.connections[0])
        await broker.until(told)
        assert "another client has taken its place" in told()[0]
        assert "'twin'" in told()[0]
        await asyncio.sleep(0.6)
        assert len(broker.connections) == 1


async def test_a_broker_that_closes_again_and_again_ends_no_gateway(
    told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a rival of the same name in 3.1.1, or by a proxy in trouble; an ordinary loss in between does not count."""
    monkeypatch.setattr("gateways.protocols.mqtt.intake.RIVALRY_WAIT_S", 0.5)

    def rival(connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        if kind == SUBSCRIBE and connection.number < 3 + 21:
            fault = "reset" if connection.number == 2 else "close"
            asyncio.get_running_loop().call_later(0.01, connection.fail, fault)
        return None

    sink = Sink()
    async with FakeBroker(five=False, answer=rival) as broker, gateway(broker, "qos1-v311", sink) as intake:
        await intake.open()
        await broker.until(lambda: len(broker.connections) == 3 + 22 and sink.links[-1][0], WAIT_S)
        reasons = [reason for up, reason in sink.links if not up]
        said = [k for k, reason in enumerate(reasons) if "another client is named 'gateway' too" in reason]
        assert said == [3 + 19, 3 + 20]
        assert "21 connections one after the other" in reasons[-1]
        began = broker.connections
        assert began[-1].began_s - began[-2].began_s >= 0.5, "and each lets the other have a while"
        assert told() == []


@pytest.mark.parametrize("mode", ["qos1", "qos1-v311"])
async def test_a_member_leaves_a_broker_that_stands_still(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateways.protocols.mqtt.intake.HAND_OVER_STUCK_S", 0.3)
    still = False

    def stands(_connection: Connection, _kind: int, _body: bytes) -> list[bytes] | None:
        return [] if still else None

    async with (
        FakeBroker(five=mode == "qos1", answer=stands) as broker,
        asyncio.timeout(WAIT_S),
        gateway(broker, mode, Sink(), shared=True) as intake,
    ):
        await intake.open()
        still = True


@pytest.mark.parametrize(
    ("mode", "kept"), [("qos1", "for 90 s"), ("qos1-v311", "for as long as it keeps a session of 3.1.1")]
)
@pytest.mark.parametrize(
    "fault", ["Kafka is away", "the broker is away", "the broker passes nothing on", None]
)
async def test_a_share_that_is_not_handed_over_is_named(
    mode: str, kept: str, fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault:
        monkeypatch.setattr("gateways.protocols.mqtt.intake.HAND_OVER_STUCK_S", 0.2)
    sink = Sink(by_itself=fault != "Kafka is away")
    settings = {"shared": True, "name": "one", "session_expiry_s": 90}

    def passes_on(_connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        echoed = kind == PUBLISH and fault != "the broker passes nothing on"
        return [packet(PUBLISH << 4, body)] if echoed else None

    async with (
        FakeBroker(five=mode == "qos1", answer=passes_on) as broker,
        gateway(broker, mode, sink, **settings) as intake,
    ):
        await intake.open()
        broker.connections[0].send(publish(TOPIC, b"m", qos=1, mid=1, five=mode == "qos1"))
        await broker.until(lambda: sink.taken)
        if fault == "the broker is away":
            broker.listens_at = "nowhere"
            broker.connections[0].fail("reset")
            await broker.until(lambda: not sink.links[-1][0])
        await intake.close()
        assert intake.left_behind() == (
            f"MQTT broker {broker.host}:{broker.port} keeps what it had for the session 'one' {kept}: start a gateway of this"
            " name"
            if fault
            else None
        )


@pytest.mark.parametrize(("granted", "said"), [(8, "for 8 s"), (2**32 - 1, "without end")])
async def test_the_expiry_that_is_named_is_what_the_broker_has_granted(granted: int, said: str) -> None:
    def grants(_connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        answer = packet(CONNACK << 4, b"\x00\x00\x05\x11" + granted.to_bytes(4, "big"))
        return [answer] if kind == CONNECT else None

    async with (
        FakeBroker(answer=grants) as broker,
        gateway(broker, "qos1", Sink(), shared=True, session_expiry_s=3600) as intake,
    ):
        await intake.open()
        await intake.close()
        assert f"for the session 'gateway' {said}: " in str(intake.left_behind())


async def test_a_gateway_that_shares_nothing_leaves_nothing_behind() -> None:
    async with FakeBroker() as broker, gateway(broker, "qos1", Sink(by_itself=False)) as intake:
        await intake.open()
        await intake.close()
        assert intake.left_behind() is None


@pytest.mark.parametrize(
    ("connack", "reason"), [(b"\x00\x87\x00", "not authorized"), (b"\x00\x9f\x00", "connection rate")]
)
async def test_a_refused_gateway_says_why(connack: bytes, reason: str) -> None:
    def refuse(_connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        return [packet(CONNACK << 4, connack)] if kind == CONNECT else None

    async with FakeBroker(answer=refuse) as broker, gateway(broker, "qos1", Sink()) as intake:
        with pytest.raises(ConnectError, match=f"MQTT broker 127.0.0.1:{broker.port} refuses: {reason}"):
            await intake.open()
        await broker.until(lambda: not broker.connections[0].open, WAIT_S)
        assert len(broker.connections) == 1, "who is refused does not knock again"


@pytest.mark.parametrize(
    ("kind", "answer", "says"),
    [
        (CONNECT, packet(CONNACK << 4, b"\x00\x87\x00"), "refuses: not authorized"),
        (SUBSCRIBE, packet(0x90, b"\x00\x01\x00\x87"), "refuses to subscribe: not authorized"),
        (SUBSCRIBE, packet(0x90, b"\x00\x01\x00\x00"), "QoS 0 granted where 1 was asked for"),
    ],
)
async def test_what_refuses_a_gateway_that_comes_back_is_told(kind: int, answer: bytes, says: str) -> None:
    """A password that was changed, a right that was taken away; a lost link alone is no refusal."""

    def refuse(connection: Connection, of: int, _body: bytes) -> list[bytes] | None:
        return [answer] if of == kind and 0 < connection.number < 3 else None

    sink = Sink()
    async with FakeBroker(answer=refuse) as broker, gateway(broker, "qos1", sink) as intake:
        await intake.open()
        broker.connections[0].fail("reset")
        await broker.until(lambda: len(sink.links) == 3, WAIT_S)
        assert [up for up, _ in sink.links] == [True, False, True]
        assert len(sink.refusals) == 2
        assert all(says in reason for reason in sink.refusals)
        broker.connections[-1].fail("reset")
        await broker.until(lambda: len(sink.links) == 5, WAIT_S)
        assert len(sink.refusals) == 2


async def test_a_broker_whose_certificate_is_none_when_a_gateway_comes_back_is_told(tmp_path: Path) -> None:
    trusted, ca_file = trustme.CA(), tmp_path / "ca.pem"
    trusted.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    good, strange = trusted.issue_cert("localhost"), trustme.CA().issue_cert("localhost")
    good.configure_cert(context)

    async with FakeBroker(tls=context) as broker:
        here = Endpoint(broker.host, broker.port, Tls(str(ca_file), server_name="localhost"))
        sink = Sink()
        intake: Any = MQTT.intake(here, MQTT.modes["qos1"], sink, IntakeSettings(keepalive_s=1))
        sink.intake = intake
        await intake.open()
        try:
            strange.configure_cert(context)
            broker.connections[0].fail("close")
            await broker.until(lambda: len(sink.refusals) == 2, WAIT_S)
            assert all("certificate verify failed" in reason for reason in sink.refusals)
            assert [up for up, _ in sink.links] == [True, False]
            good.configure_cert(context)
            await broker.until(lambda: sink.links[-1][0], WAIT_S)
        finally:
            await intake.close()


async def test_nonsense_from_the_broker_costs_the_connection_alone() -> None:
    async with FakeBroker() as broker, gateway(broker, "qos1", sink := Sink()) as intake:
        await intake.open()
        for number in range(3):
            broker.connections[number].send(b"\xff\xff\xff\xff\xff")
            await broker.until(
                lambda n=number: len(broker.connections) == n + 2 and sink.links[-1][0], WAIT_S
            )
            last = broker.connections[number].received[-1]
            assert (last[0], last[2]) == (DISCONNECT, b"\x81")
        assert [up for up, _ in sink.links] == [True, False] * 3 + [True]
        assert "breaks the protocol" in sink.links[1][1]


async def test_a_silent_broker_is_left() -> None:
    def silent(_connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        return [] if kind == 12 else None

    async with FakeBroker(answer=silent) as broker, gateway(broker, "qos1", sink := Sink()) as intake:
        await intake.open()
        await broker.until(lambda: len(broker.connections) == 2, WAIT_S)
        assert "no PINGRESP" in sink.links[1][1]
