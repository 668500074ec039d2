"""A vehicle whose broker fails at every byte of a connection: it is back each time, and its messages are acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_mqtt_broker import (
    CONNACK,
    CONNECT,
    FAULTS,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Connection,
    Cut,
    FakeBroker,
    Fault,
    packet,
)

from gateways.protocols import PROTOCOLS
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.mqtt.connection import LoopClient
from simulator.emission_log import EmissionLog, Kind
from simulator.emission_table import read_events, read_words
from simulator.fleet import Emission
from simulator.vehicle_sender import Totals, VehicleSender

MQTT = PROTOCOLS["mqtt"]
MESSAGES = 3
WAIT_S = 60.0
# paho looks at its keep-alive in whole seconds: a silence is found out within two of them.
SETTINGS = VehicleSettings(keepalive_s=1, connect_timeout_s=1.0, receive_max=2)


@pytest.fixture
def log(tmp_path: Path):
    made = EmissionLog(tmp_path / "events")
    yield made
    made.close()


@contextlib.asynccontextmanager
async def vehicle(
    broker: FakeBroker, log: EmissionLog, mode: str
) -> AsyncIterator[tuple[VehicleSender, Totals]]:
    totals = Totals()
    one = VehicleSender(1, log, totals, backoff=Backoff(0.01, 0.02), limit=50, policy="drop_oldest")
    endpoint = Endpoint(broker.host, broker.port)
    one.client = MQTT.vehicle_client(endpoint, 1, MQTT.modes[mode], one, SETTINGS)
    try:
        yield one, totals
    finally:
        await one.close()


def offer(one: VehicleSender, count: int = MESSAGES) -> None:
    for sequence in range(1, count + 1):
        one.offer(Emission(sequence, 1, 1, sequence, b"m%d" % sequence))


async def session(log: EmissionLog, mode: str, where: Cut | None) -> tuple[int, int, int]:
    """Send three messages, the first two of them the backlog that goes out with CONNACK.

    Return how many connections it took, and the bytes to and from the vehicle on the first one before it takes leave.
    """
    cuts = {} if where is None else {0: where}
    async with (
        FakeBroker(five=not mode.endswith("v311"), cuts=cuts) as broker,
        vehicle(broker, log, mode) as (one, totals),
    ):
        offer(one)
        one.open()
        await broker.until(lambda: totals.connected and one.idle(), WAIT_S)
        assert totals.connected == 1
        assert (totals.emitted, totals.unsent, totals.refused) == (MESSAGES, 0, 0)
        if mode != "qos0":
            assert totals.acknowledged == MESSAGES
        first = broker.connections[0]
        return len(broker.connections), first.sent_bytes, first.taken_bytes


# A silence is found by a limit of a second, which a machine that stands still meets as well.
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=pytest.mark.timing) if fault == "stall" else fault for fault in FAULTS],
)
# The connection is below both versions' packets: MQTT 3.1.1 cut at any byte is for test-all.
@pytest.mark.parametrize(
    "mode",
    [
        *("qos0", "qos1", "qos2"),
        *(pytest.param(mode, marks=pytest.mark.full) for mode in ("qos1-v311", "qos2-v311")),
    ],
)
async def test_a_connection_that_fails_at_any_byte(log, mode: str, fault: Fault) -> None:
    _, sent_bytes, taken_bytes = await session(log, mode, None)
    if mode == "qos0":
        # Nobody acknowledges: what a lost connection took with it is lost, and only the connection is kept.
        sent_bytes, taken_bytes = 5, 20
    out = [Cut(fault, out=at) for at in range(sent_bytes)]
    into = [Cut(fault, into=at) for at in range(taken_bytes)]
    done = await asyncio.gather(*(session(log, mode, cut) for cut in [*out, *into]))
    assert len(done) >= 25
    assert all(connections >= 2 for connections, _, _ in done)


@pytest.mark.parametrize(("mode", "kind"), [("qos1", PUBACK), ("qos2", PUBREC)])
async def test_a_refused_message_is_not_acknowledged(log, tmp_path: Path, mode: str, kind: int) -> None:
    """The broker refuses all but the third; as mosquitto does, it confirms every PUBREL, also of what it refused."""
    released = []

    def answer(_: Connection, of: int, body: bytes) -> list[bytes] | None:
        if of == PUBREL:
            released.append(body[:2])
            return [packet(PUBCOMP << 4, body[:2])]
        if of != PUBLISH or body.endswith(b"m3"):
            return None
        (length,) = struct.unpack_from("!H", body)
        return [packet(kind << 4, body[2 + length : 4 + length] + b"\x97")]

    async with FakeBroker(answer=answer) as broker, vehicle(broker, log, mode) as (one, totals):
        offer(one)
        one.open()
        await broker.until(lambda: totals.connected and one.idle(), WAIT_S)
        assert (totals.emitted, totals.refused, totals.acknowledged) == (3, 2, 1)
        assert len(broker.connections) == 1
    assert len(released) == (1 if mode == "qos2" else 0)
    log.flush()
    events = read_events(tmp_path / "events")
    words = read_words(events)
    told = [(int(e["sequence"]), words[int(e["words"])]) for e in events if e["kind"] == Kind.REFUSED]
    assert told == [(1, "Quota exceeded"), (2, "Quota exceeded")]


@pytest.mark.parametrize("mode", ["qos0", "qos1", "qos2"])
async def test_a_reset_behind_connack_does_not_silence_the_vehicle(log, mode: str) -> None:
    """The backlog goes out from within `connected`: the reset that it meets is told there, in the middle of `connect`."""

    def reset(connection: Connection) -> None:
        if connection.number < 5:
            connection.fail("reset")

    async with FakeBroker(on_connected=reset) as broker, vehicle(broker, log, mode) as (one, totals):
        offer(one, 40)
        one.open()
        await broker.until(lambda: len(broker.connections) > 5 and totals.connected and one.idle())
        published = [kind for kind, _, _ in broker.connections[-1].received if kind == PUBLISH]
        assert published
        assert totals.connected == 1


async def test_an_unexpected_error_while_connecting_ends_more_than_the_vehicle(log, monkeypatch) -> None:
    told = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.done() or told.set_result(context)
    )
    async with FakeBroker() as broker, vehicle(broker, log, "qos1") as (one, _):
        monkeypatch.setattr(LoopClient, "adopt", lambda client, sock: (sock.close(), 1 // 0))
        one.open()
        context = await asyncio.wait_for(told, WAIT_S)
        assert isinstance(context["exception"], ZeroDivisionError)


@pytest.mark.parametrize(
    "answer",
    [b"\x20\x02\x00\x05", b"\x20\x00", b"\x20\x03\x00\x87\x00", b"\xff" * 40, b"\x90\x01\x00", b"\x00\x00"],
)
async def test_nonsense_in_place_of_connack_is_one_failed_attempt(log, answer: bytes) -> None:
    def nonsense(connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        return [answer] if kind == CONNECT and connection.number < 3 else None

    async with FakeBroker(answer=nonsense) as broker, vehicle(broker, log, "qos1") as (one, totals):
        offer(one)
        one.open()
        await broker.until(lambda: totals.acknowledged == MESSAGES)
        assert totals.connect_failures == 3
        assert one.trouble


async def test_the_reason_of_a_refusal_is_kept(log) -> None:
    def refuse(_connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        return [packet(CONNACK << 4, b"\x00\x87\x00")] if kind == CONNECT else None

    async with FakeBroker(answer=refuse) as broker, vehicle(broker, log, "qos1") as (one, totals):
        one.open()
        await broker.until(lambda: totals.connect_failures > 1)
        assert "Not authorized" in one.trouble


def announcing(properties: bytes):
    """Return an answer to CONNECT with these properties (MQTT 5, 3.2.2.3), the usual ones to the rest."""

    def answer(_connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        said = b"\x00\x00" + bytes((len(properties),)) + properties
        return [packet(CONNACK << 4, said)] if kind == CONNECT else None

    return answer


@pytest.mark.parametrize("mode", ["qos0", "qos1", "qos2"])
@pytest.mark.parametrize("more", [-1, 0, 1, 100])
async def test_what_the_server_would_not_take_is_not_sent(log, tmp_path: Path, mode: str, more: int) -> None:
    """Maximum Packet Size (3.2.2.3.6) at limit - 1, limit, limit + 1 and far beyond; the next message goes."""
    async with FakeBroker() as broker, vehicle(broker, log, mode) as (one, totals):
        one.offer(Emission(1, 1, 1, 1, b"p" * 500))
        one.open()
        await broker.until(lambda: totals.connected and one.idle(), WAIT_S)
        (body,) = (body for kind, _, body in broker.connections[0].received if kind == PUBLISH)
    limit = len(packet(0x30, body))
    announced = b"\x27" + limit.to_bytes(4, "big")
    async with (
        FakeBroker(answer=announcing(announced)) as broker,
        vehicle(broker, log, mode) as (one, totals),
    ):
        one.open()
        await broker.until(lambda: totals.connected, WAIT_S)
        one.offer(Emission(1, 1, 1, 2, b"p" * (500 + more)))
        one.offer(Emission(1, 1, 1, 3, b"next"))
        await broker.until(one.idle, WAIT_S)
        assert (totals.emitted, totals.refused) == (2, int(more > 0))
        kinds = broker.connections[0].received
        await broker.until(
            lambda: [kind for kind, _, _ in kinds].count(PUBLISH) == 2 - totals.refused, WAIT_S
        )
        assert len(broker.connections) == 1
    sent = [body for kind, _, body in broker.connections[0].received if kind == PUBLISH]
    assert all(len(packet(0x30, body)) <= limit for body in sent)
    assert len(sent) == 2 - totals.refused
    log.flush()
    events = read_events(tmp_path / "events")
    told = [read_words(events)[int(e["words"])] for e in events if e["kind"] == Kind.REFUSED]
    assert told == (
        [f"a packet of {limit + more} bytes: the server's Maximum Packet Size is {limit}"] if more > 0 else []
    )


@pytest.mark.parametrize(("mode", "most"), [("qos1", 0), ("qos2", 0), ("qos2", 1)])
async def test_a_server_of_a_lower_maximum_qos_refuses_the_vehicle(log, mode: str, most: int) -> None:
    """3.2.2.3.4: to publish with more is an error of the protocol's."""
    answer = announcing(b"\x24" + bytes((most,)))
    async with FakeBroker(answer=answer) as broker, vehicle(broker, log, mode) as (one, totals):
        offer(one)
        one.open()
        await broker.until(lambda: totals.access_refused > 1, WAIT_S)
        assert f"its Maximum QoS is {most}, and QoS {mode[3]} is to be published" in one.trouble
        assert totals.emitted == 0
    assert PUBLISH not in {kind for one in broker.connections for kind, _, _ in one.received}


async def test_the_servers_receive_maximum_and_keep_alive_are_kept(log) -> None:
    """3.2.2.3.3 and 3.2.2.3.14; what else it says (topic aliases, retained messages, expiry) asks nothing of a vehicle."""
    said = b"\x21\x00\x01\x13\x00\x01\x22\x00\x05\x25\x00\x11\x00\x00\x00\x09\x1f\x00\x03why"
    held = []

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind == PUBLISH:
            held.append(body)
            return []
        return announcing(said)(connection, kind, body)

    async with FakeBroker(answer=answer) as broker:
        totals = Totals()
        one = VehicleSender(1, log, totals, backoff=Backoff(0.01, 0.02), limit=50, policy="drop_oldest")
        slow = VehicleSettings(keepalive_s=600, receive_max=20)
        one.client = MQTT.vehicle_client(Endpoint(broker.host, broker.port), 1, MQTT.modes["qos1"], one, slow)
        offer(one)
        one.open()
        # PINGREQ comes after the server's second, and not after ten minutes.
        await broker.until(
            lambda: 12 in {kind for one in broker.connections for kind, _, _ in one.received}, WAIT_S
        )
        assert len(held) == 1
        await one.close()
