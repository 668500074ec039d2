"""A vehicle whose broker fails at every byte of a connection: it is back each time, and its messages are acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
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
    Connection,
    Cut,
    FakeBroker,
    Fault,
    packet,
)

from gateways.protocols import PROTOCOLS
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.mqtt import vehicle as vehicle_module
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
    broker: FakeBroker,
    log: EmissionLog,
    mode: str,
    settings: VehicleSettings = SETTINGS,
    backoff: Backoff | None = None,
) -> AsyncIterator[tuple[VehicleSender, Totals]]:
    totals = Totals()
    backoff = backoff or Backoff(0.01, 0.02)
    one = VehicleSender(1, log, totals, backoff=backoff, limit=50, policy="drop_oldest")
    endpoint = Endpoint(broker.host, broker.port)
    one.client = MQTT.vehicle_client(endpoint, 1, MQTT.modes[mode], one, settings)
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
        # At QoS 0 a reset that comes late, on a busy machine, may have met the whole backlog: one message more is sent.
        one.offer(Emission(41, 1, 1, 41, b"m41"))
        await broker.until(lambda: any(kind == PUBLISH for kind, _, _ in broker.connections[-1].received))
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
        await broker.until(
            lambda: any(kind == PUBLISH for one in broker.connections for kind, *_ in one.received), WAIT_S
        )
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


SEVERAL = VehicleSettings(keepalive_s=60, connect_timeout_s=5.0, receive_max=20)


def told(log: EmissionLog, tmp_path: Path) -> list[tuple[int, str]]:
    """Return (sequence, words) of what was refused."""
    log.flush()
    events = read_events(tmp_path / "events")
    words = read_words(events)
    return [(int(e["sequence"]), words[int(e["words"])]) for e in events if e["kind"] == Kind.REFUSED]


def published(connection: Connection) -> list[tuple[int, int, bytes]]:
    """Return (packet identifier, DUP, payload) of each PUBLISH at QoS 1 or 2 of MQTT 5."""
    found = []
    for kind, flags, body in connection.received:
        if kind == PUBLISH:
            at = 2 + int.from_bytes(body[:2], "big")
            found.append((int.from_bytes(body[at : at + 2], "big"), flags >> 3, body[at + 3 :]))
    return found


def breaking_off(after: int, properties: bytes, *, present: bool):
    """Acknowledge nothing on the first connection and reset it behind so many publishes; announce properties on the others."""

    def answer(connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        if kind == CONNECT and connection.number:
            said = bytes((present, 0, len(properties))) + properties
            return [packet(CONNACK << 4, said)]
        if kind == PUBLISH and not connection.number:
            if len(published(connection)) == after:
                connection.fail("reset")
            return []
        return None

    return answer


@pytest.mark.parametrize("mode", ["qos1", "qos2"])
@pytest.mark.parametrize("present", [True, False], ids=["resumed", "new session"])
async def test_what_a_later_connection_would_not_take_is_refused_there(
    log, tmp_path: Path, mode: str, present: bool
) -> None:
    """3.2.2.3.6 of each connection: what is in flight and too large for it is taken out, and the others go."""
    answer = breaking_off(3, b"\x27" + (100).to_bytes(4, "big"), present=present)
    async with (
        FakeBroker(answer=answer) as broker,
        vehicle(broker, log, mode, SEVERAL) as (one, totals),
    ):
        for sequence, size in ((1, 5), (2, 500), (3, 7)):
            one.offer(Emission(sequence, 1, 1, sequence, b"p" * size))
        one.open()
        await broker.until(lambda: totals.acknowledged == 2 and one.idle(), WAIT_S)
        assert len(broker.connections) == 2
        first, second = (published(connection) for connection in broker.connections)
    assert [payload for _, _, payload in second] == [b"p" * 5, b"p" * 7]
    assert second == [(mid, int(present), payload) for mid, _, payload in first if len(payload) < 100]
    ((sequence, words),) = told(log, tmp_path)
    assert sequence == 2
    assert words.endswith("bytes: the server's Maximum Packet Size is 100")


@pytest.mark.parametrize("mode", ["qos1", "qos2"])
@pytest.mark.parametrize("present", [True, False], ids=["resumed", "new session"])
@pytest.mark.parametrize("most", [1, 2])
async def test_what_is_sent_again_keeps_the_receive_maximum(log, mode: str, present: bool, most: int) -> None:
    """3.2.2.3.3 and 4.9, of the connection on which it is sent again."""
    count, held, flying, most_flying = 5, [], set(), 0
    begin = breaking_off(count, b"\x21\x00" + bytes((most,)), present=present)

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        nonlocal most_flying
        if connection.number and kind == PUBLISH:
            mid = published(connection)[-1][0].to_bytes(2, "big")
            flying.add(mid)
            most_flying = max(most_flying, len(flying))
            held.append(mid)
            # Answered when nothing more comes.
            asyncio.get_running_loop().call_later(0.05, acknowledge, connection)
            return []
        if kind == PUBREL:
            flying.discard(body[:2])
        return begin(connection, kind, body)

    def acknowledge(connection: Connection) -> None:
        mid = held.pop(0)
        if mode == "qos1":
            flying.discard(mid)
        connection.send(packet((PUBACK if mode == "qos1" else PUBREC) << 4, mid))

    async with (
        FakeBroker(answer=answer) as broker,
        vehicle(broker, log, mode, SEVERAL) as (one, totals),
    ):
        offer(one, count)
        one.open()
        await broker.until(lambda: totals.acknowledged == count and one.idle(), WAIT_S)
        one.offer(Emission(9, 1, 1, 9, b"m9"))
        await broker.until(lambda: totals.acknowledged == count + 1 and one.idle(), WAIT_S)
        assert len(broker.connections) == 2
        again = [payload for _, _, payload in published(broker.connections[1])]
    assert again == [*(b"m%d" % sequence for sequence in range(1, count + 1)), b"m9"]
    assert most_flying == most


async def test_pubrel_is_sent_again_beside_the_receive_maximum(log) -> None:
    """4.9: what has its PUBREC needs none of the new connection's, and goes before what has not."""
    mids: list[bytes] = []

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind == CONNECT and connection.number:
            return [packet(CONNACK << 4, b"\x01\x00\x03\x21\x00\x01")]
        if connection.number or kind not in {PUBLISH, PUBREL}:
            return None
        if kind == PUBREL:
            connection.fail("reset")
            return []
        mids.append(published(connection)[-1][0].to_bytes(2, "big"))
        # The last of them alone has its PUBREC.
        return [packet(PUBREC << 4, mids[-1])] if len(mids) == MESSAGES else []

    async with (
        FakeBroker(answer=answer) as broker,
        vehicle(broker, log, "qos2", SEVERAL) as (one, totals),
    ):
        offer(one)
        one.open()
        await broker.until(lambda: totals.acknowledged == MESSAGES and one.idle(), WAIT_S)
        kinds = [kind for kind, _, _ in broker.connections[1].received if kind in {PUBLISH, PUBREL}]
    assert kinds == [PUBREL, PUBLISH, PUBREL, PUBLISH, PUBREL]


def closing_on(large: int, fault: Fault = "close"):
    """Close the connection on each PUBLISH above a size, and say nothing."""

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind == PUBLISH and len(body) > large:
            connection.fail(fault)
            return []
        return None

    return answer


@pytest.mark.parametrize("fault", ["close", "reset"])
@pytest.mark.parametrize("mode", ["qos1-v311", "qos2-v311", "qos1"])
async def test_a_message_on_which_the_server_closes_each_connection_is_given_up(
    log, tmp_path: Path, monkeypatch, mode: str, fault: Fault
) -> None:
    monkeypatch.setattr(vehicle_module, "SOON_S", 1.0)
    async with (
        FakeBroker(five=mode == "qos1", answer=closing_on(400, fault)) as broker,
        vehicle(broker, log, mode, SEVERAL) as (one, totals),
    ):
        for sequence, size in ((1, 5), (2, 500), (3, 7), (4, 600), (5, 8)):
            one.offer(Emission(sequence, 1, 1, sequence, b"p" * size))
        one.open()
        await broker.until(lambda: totals.acknowledged == 3 and one.idle(), WAIT_S)
        # For each: one that acknowledges others (two at QoS 2), one that does not, three with it alone; and the last one.
        assert len(broker.connections) <= 13
    words = f"the server has closed {vehicle_module.CLOSES} connections in a row on it"
    assert told(log, tmp_path) == [(2, words), (4, words)]


async def test_an_acknowledgement_of_what_is_held_back_ends_the_trial(log, monkeypatch) -> None:
    """A broker that breaks the protocol: it acknowledges what is not on this connection, and has got better."""
    monkeypatch.setattr(vehicle_module, "SOON_S", 0.5)
    loop = asyncio.get_running_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        bad = connection.number <= vehicle_module.CLOSES
        return closing_on(400)(connection, kind, body) if bad else None

    def acknowledge(connection: Connection) -> None:
        if connection.number > vehicle_module.CLOSES:
            connection.send(packet(PUBACK << 4, b"\x00\x01"))

    async with (
        FakeBroker(five=False, answer=answer, on_connected=acknowledge) as broker,
        vehicle(broker, log, "qos1-v311", SEVERAL) as (one, totals),
    ):
        one.offer(Emission(1, 1, 1, 1, b"p" * 500))
        one.open()
        await broker.until(lambda: totals.acknowledged == 1, WAIT_S)
        await asyncio.sleep(2 * vehicle_module.SOON_S)  # behind the time at which the trial would have ended
        one.offer(Emission(2, 1, 1, 2, b"next"))
        await broker.until(lambda: totals.acknowledged == 2, WAIT_S)
        assert (totals.refused, errors) == (0, [])


async def test_packet_too_large_is_heard_where_nothing_was_announced(
    log, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(vehicle_module, "SOON_S", 0.5)

    def answer(connection: Connection, kind: int, body: bytes) -> list[bytes] | None:
        if kind == PUBLISH and len(body) > 400:
            connection.send(packet(DISCONNECT << 4, b"\x95\x00"))
            connection.fail("close")
            return []
        return None

    async with (
        FakeBroker(answer=answer) as broker,
        vehicle(broker, log, "qos1", SEVERAL) as (one, totals),
    ):
        one.offer(Emission(1, 1, 1, 1, b"p" * 500))
        one.open()
        await broker.until(lambda: totals.refused and totals.connected, WAIT_S)
        assert one.trouble == "Packet too large"
    assert [sequence for sequence, _ in told(log, tmp_path)] == [1]


async def closes(log: EmissionLog, ends: Callable[[Connection, int], bool]) -> tuple[int, int]:
    """Return how many messages were refused, and connections made, by a server that ends connections, and then is good."""

    def answer(connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        if connection.number < 12 and ends(connection, kind):
            return []
        return None

    async with (
        FakeBroker(five=False, answer=answer) as broker,
        vehicle(broker, log, "qos1-v311", SETTINGS) as (one, totals),
    ):
        offer(one)
        one.open()
        await broker.until(lambda: totals.acknowledged + totals.refused == MESSAGES and one.idle(), WAIT_S)
        return totals.refused, len(broker.connections)


async def test_a_server_that_closes_every_connection_refuses_no_message(log, monkeypatch) -> None:
    """It closes as well where nothing was sent."""
    monkeypatch.setattr(vehicle_module, "SOON_S", 0.5)

    def ends(connection: Connection, kind: int) -> bool:
        if kind == CONNECT:
            asyncio.get_running_loop().call_later(0.1, connection.fail, "close")
        return kind == PUBLISH

    assert await closes(log, ends) == (0, 13)


@pytest.mark.timing
async def test_a_link_that_is_away_refuses_no_message(log, monkeypatch) -> None:
    """A silence is found by the keep-alive; the server has closed nothing."""
    monkeypatch.setattr(vehicle_module, "SOON_S", 3.0)

    def ends(connection: Connection, kind: int) -> bool:
        if kind == PUBLISH and connection.number < 5:
            connection.fail("stall")
            return True
        return False

    assert await closes(log, ends) == (0, 6)


@pytest.mark.parametrize("mode", ["qos0", "qos1", "qos1-v311"])
async def test_a_server_that_closes_behind_connack_meets_no_storm(log, mode: str) -> None:
    """The wait doubles until a connection has proved useful."""

    def end(connection: Connection) -> None:
        asyncio.get_running_loop().call_later(0.002, connection.fail, "close")

    async with (
        FakeBroker(five=not mode.endswith("v311"), on_connected=end) as broker,
        vehicle(broker, log, mode, SEVERAL, Backoff(0.01, 30.0)) as (one, _),
    ):
        offer(one)
        one.open()
        await asyncio.sleep(2)
        # 2 s hold 8 waits of at least 5, 10, 20, ... ms.
        assert 3 <= len(broker.connections) <= 10


OWN_WORDS = b"quota of tenant 7\tis\x1b[2J used up"
SHOWN = "Quota exceeded: quota of tenant 7\ufffdis\ufffd[2J used up"


def reason_string(own: bytes = OWN_WORDS) -> bytes:
    """Return the properties of a packet with a Reason String (3.2.2.3.9)."""
    said = b"\x1f" + len(own).to_bytes(2, "big") + own
    assert len(said) < 128
    return bytes((len(said),)) + said


@pytest.mark.parametrize(("mode", "kind"), [("qos1", PUBACK), ("qos2", PUBREC)])
async def test_the_servers_own_words_go_with_a_refused_message(
    log, tmp_path: Path, mode: str, kind: int
) -> None:
    """3.4.2.2.2 and 3.5.2.2.2."""

    def answer(connection: Connection, of: int, _body: bytes) -> list[bytes] | None:
        if of != PUBLISH:
            return None
        mid = published(connection)[-1][0].to_bytes(2, "big")
        return [packet(kind << 4, mid + b"\x97" + reason_string())]

    async with FakeBroker(answer=answer) as broker, vehicle(broker, log, mode) as (one, totals):
        offer(one, 1)
        one.open()
        await broker.until(lambda: totals.refused, WAIT_S)
    assert told(log, tmp_path) == [(1, SHOWN)]


@pytest.mark.parametrize("of", [CONNACK, DISCONNECT])
async def test_the_servers_own_words_go_with_a_connection(log, of: int) -> None:
    """3.2.2.3.9 and 3.14.2.2.3."""

    def answer(connection: Connection, kind: int, _body: bytes) -> list[bytes] | None:
        if kind == CONNECT and of == CONNACK:
            return [packet(CONNACK << 4, b"\x00\x97" + reason_string())]
        if kind == PUBLISH:
            connection.send(packet(DISCONNECT << 4, b"\x97" + reason_string()))
            connection.fail("close")
            return []
        return None

    async with FakeBroker(answer=answer) as broker, vehicle(broker, log, "qos1") as (one, totals):
        offer(one, 1)
        one.open()
        await broker.until(lambda: totals.connect_failures + totals.disconnections, WAIT_S)
        assert one.trouble.endswith(SHOWN)
