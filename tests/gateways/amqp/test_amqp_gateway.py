"""AMQP 0-9-1 at both ends, on a real RabbitMQ."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import uuid

import pika
import pytest

from gateways.protocols.amqp import connection as amqp_connection
from gateways.protocols.amqp import vehicle as amqp_vehicle
from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.private_names import CarriedConnection
from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.ends import ConnectError
from ivsim.testbed.process import hold_port
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker
SIZES = (0, 1, 10, 1157, 12_187, 300_000)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def check_heartbeat(connection):
    """Let pika look now whether the peer is silent: its own timer comes five seconds after the keep-alive."""
    checker = connection._heartbeat_checker
    connection._adapter_remove_timeout(checker._check_timer)
    checker._check_heartbeat()


@pytest.mark.parametrize("mode", list(Amqp.modes))
async def test_payloads_of_every_size_arrive_unchanged_and_settled(amqp, mode):
    intake, sink = await amqp.gateway(mode=mode)
    client, events = await amqp.vehicle(mode=mode, number=7)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        assert client.ready()
        client.send(token, payload)
    await sink.until(lambda: len(sink.taken) == len(SIZES))
    assert sink.taken == [(vehicle_id(7), payload) for payload in payloads]
    if Amqp.modes[mode].acknowledged:
        # A persistent message is confirmed once it is on disk or consumed, which a later one may be before it.
        await events.until(lambda: sorted(events.acked) == list(range(len(SIZES))))
    await client.close()
    await intake.close()
    assert amqp.waiting() == 0
    assert (events.gone, events.losses, sink.duplicates) == ([], [], [])


async def test_what_the_bridge_has_not_acknowledged_comes_again_flagged(amqp):
    first, sink = await amqp.gateway()
    sink.hold = True
    client, events = await amqp.vehicle()
    for token in range(5):
        client.send(token, b"%d" % token)
    await sink.until(lambda: len(sink.receipts) == 5)
    first.acknowledge(sink.receipts[0])
    first.acknowledge(sink.receipts[2])
    await first.close()
    _, second = await amqp.gateway()
    await second.until(lambda: len(second.taken) == 4)
    assert second.payloads() == [b"1", b"2", b"3", b"4"]
    assert second.duplicates == second.payloads()
    await events.until(lambda: len(events.acked) == 5)


async def test_automatic_acknowledgement_forgets_at_once(amqp):
    first, sink = await amqp.gateway(mode="auto")
    sink.hold = True
    client, _ = await amqp.vehicle(mode="auto")
    client.send(1, b"x")
    await sink.until(lambda: sink.taken)
    await first.close()
    assert amqp.waiting() == 0


async def test_prefetch_bounds_what_is_held(amqp):
    intake, sink = await amqp.gateway(receive_max=10)
    sink.hold = True
    client, events = await amqp.vehicle(receive_max=100)
    for token in range(50):
        client.send(token, b"x")
    await events.until(lambda: len(events.acked) == 50)
    await until(lambda: len(sink.taken) == 10 and amqp.waiting() == 40)
    sink.hold = False
    for receipt in sink.receipts:
        intake.acknowledge(receipt)
    await sink.until(lambda: len(sink.taken) == 50)


@pytest.mark.parametrize("mode", ["auto", "manual-confirms-persistent"])
async def test_a_paused_gateway_takes_nothing_and_goes_on(amqp, mode):
    intake, sink = await amqp.gateway(mode=mode)
    client, events = await amqp.vehicle()
    intake.pause()
    for token in range(20):
        client.send(token, b"x")
    await events.until(lambda: len(events.acked) == 20)
    await asyncio.sleep(0)
    assert sink.taken == []
    intake.resume()
    await sink.until(lambda: len(sink.taken) == 20)


async def test_a_paused_gateway_takes_leave_in_order(amqp, monkeypatch):
    # An answer that is left unread is never given up here, so only one that is read ends the wait below.
    monkeypatch.setattr(amqp_connection, "LEAVE_TIMEOUT_S", 3_600.0)
    intake, sink = await amqp.gateway()
    client, events = await amqp.vehicle()
    intake.pause()
    client.send(1, bytes(300_000))
    await events.until(lambda: events.acked == [1])
    async with asyncio.timeout(30):
        await intake.close()
    assert sink.taken == []
    await until(lambda: amqp.waiting() == 1)


async def test_a_long_pause_is_no_dead_peer(amqp, monkeypatch):
    made = []

    class Noted(CarriedConnection):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            made.append(self)

    monkeypatch.setattr(amqp_connection, "CarriedConnection", Noted)
    intake, sink = await amqp.gateway(keepalive_s=4)
    (connection,) = made
    client, _ = await amqp.vehicle()
    intake.pause()
    client.send(1, b"x")
    for _ in range(3):
        heard = connection.bytes_received
        check_heartbeat(connection)
        await until(lambda heard=heard: connection.bytes_received > heard)
    check_heartbeat(connection)
    intake.resume()
    await sink.until(lambda: sink.payloads() == [b"x"])
    assert intake.counters()["reconnects"] == 0


async def test_competing_gateways_share_the_messages(amqp):
    _, one = await amqp.gateway(shared=True, receive_max=5)
    _, other = await amqp.gateway(shared=True, receive_max=5)
    client, _ = await amqp.vehicle(receive_max=100)
    for token in range(60):
        client.send(token, b"%d" % token)
    await until(lambda: len(one.taken) + len(other.taken) == 60)
    assert sorted(one.payloads() + other.payloads()) == sorted(b"%d" % n for n in range(60))
    assert one.taken
    assert other.taken


async def test_a_gateway_that_lost_its_connection_takes_it_up_again(amqp):
    wire = await amqp.wire()
    intake, sink = await amqp.gateway(endpoint=wire.endpoint)
    sink.hold = True
    client, _ = await amqp.vehicle()
    client.send(1, b"before")
    await sink.until(lambda: sink.receipts)
    sink.hold = False
    wire.cut()
    await sink.until(lambda: [up for up, _ in sink.links] == [True, False, True])
    intake.acknowledge(sink.receipts.pop())
    assert intake.counters()["stale_receipts"] == 1
    # The broker gives "before" back once it has seen the old connection's end, which may be after the new one began.
    await sink.until(lambda: len(sink.taken) == 2)
    client.send(2, b"after")
    await sink.until(lambda: len(sink.taken) == 3)
    assert sink.payloads() == [b"before", b"before", b"after"]
    assert sink.duplicates == [b"before"]


async def test_a_deleted_queue_is_declared_again(amqp):
    _, sink = await amqp.gateway()
    amqp.delete_queue()
    await sink.until(lambda: [up for up, _ in sink.links] == [True, False, True])
    client, _ = await amqp.vehicle()
    client.send(1, b"x")
    await sink.until(lambda: sink.payloads() == [b"x"])


async def test_unconfirmed_messages_are_sent_again_after_a_reconnect(amqp):
    wire = await amqp.wire()
    _, sink = await amqp.gateway()
    client, events = await amqp.vehicle(endpoint=wire.endpoint)
    client.send(1, b"one")
    await events.until(lambda: events.acked == [1])
    client.send(2, b"two")
    client.send(3, b"three")
    wire.cut()
    await events.until(lambda: events.losses)
    assert not client.ready()
    assert client.in_flight() == 2
    await client.connect()
    await events.until(lambda: sorted(events.acked) == [1, 2, 3])
    await sink.until(lambda: {b"one", b"two", b"three"} <= set(sink.payloads()))
    assert client.in_flight() == 0


async def test_without_confirms_a_reconnect_sends_nothing_again(amqp):
    _, sink = await amqp.gateway(mode="auto")
    wire = await amqp.wire()
    client, events = await amqp.vehicle(mode="auto", endpoint=wire.endpoint)
    client.send(1, b"gone")
    wire.cut()
    await events.until(lambda: events.losses)
    await client.connect()
    client.send(2, b"here")
    await sink.until(lambda: b"here" in sink.payloads())
    assert sink.payloads() in ([b"here"], [b"gone", b"here"])
    assert events.acked == []


@pytest.fixture
def own_exchange(amqp, monkeypatch):
    """An exchange to which nothing is bound: other tests leave durable queues at the shared broker's."""
    name = f"own-{uuid.uuid4().hex[:8]}"
    parameters = pika.ConnectionParameters(amqp.endpoint.host, amqp.endpoint.port)
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.exchange_declare(name, "topic")
        monkeypatch.setattr(amqp_vehicle, "EXCHANGE", name)
        yield name
        channel.exchange_delete(name)


async def test_a_message_that_no_queue_takes_is_not_acknowledged_until_one_does(
    amqp, own_exchange, monkeypatch
):
    monkeypatch.setattr(amqp_vehicle, "AGAIN_AFTER_S", 0.05)
    client, events = await amqp.vehicle(number=64_999)
    client.send(1, b"early")
    client.send(2, b"bird")
    await until(lambda: len(events.later) >= 2)
    assert events.acked == events.gone == []
    assert events.later[:2] == [(1, "basic.return 312 NO_ROUTE"), (2, "basic.return 312 NO_ROUTE")]
    _, sink = await amqp.gateway(exchange=own_exchange)
    await events.until(lambda: sorted(events.acked) == [1, 2])
    await sink.until(lambda: sorted(sink.payloads()) == [b"bird", b"early"])


async def test_no_more_than_receive_max_is_in_flight(amqp):
    await amqp.gateway()
    client, events = await amqp.vehicle(receive_max=3)
    sent = 0
    while client.ready():
        client.send(sent, b"x")
        sent += 1
    assert sent == client.in_flight() == 3
    await events.until(lambda: len(events.acked) == 3)
    assert client.ready()


async def test_a_routing_key_that_names_no_vehicle_goes_to_the_dead_letters(amqp):
    _, sink = await amqp.gateway()
    connection = pika.BlockingConnection(pika.ConnectionParameters(amqp.endpoint.host, amqp.endpoint.port))
    for key in ("vehicles.a b.status", "vehicles", "vehicles.x.position"):
        connection.channel().basic_publish("amq.topic", key, b"astray")
    connection.close()
    client, _ = await amqp.vehicle()
    client.send(1, b"fine")
    await sink.until(lambda: sink.payloads() == [b"fine"] and len(sink.strays) == 3)
    assert {address for address, *_ in sink.strays} == {
        "vehicles.a b.status",
        "vehicles",
        "vehicles.x.position",
    }


async def test_malformed_publishes_lose_no_good_message_sent_in_between(amqp):
    _, sink = await amqp.gateway()
    client, events = await amqp.vehicle()
    rng = random.Random(5)
    parameters = pika.ConnectionParameters(amqp.endpoint.host, amqp.endpoint.port)
    connection = await asyncio.to_thread(pika.BlockingConnection, parameters)
    channel = connection.channel()
    letters = [chr(code) for code in range(32, 127)] + ["\u00e9", "\u4e16"]
    for number in range(3_000):
        key = "vehicles." + "".join(rng.choices(letters, k=rng.randrange(1, 40)))
        properties = pika.BasicProperties(priority=rng.randrange(10), headers={"x": number})
        channel.basic_publish("amq.topic", key, rng.randbytes(rng.randrange(64)), properties)
        if number % 150 == 0:
            client.send(number, b"good %d" % number)
            await events.until(lambda n=number: n in events.acked)
    connection.close()
    good = [b"good %d" % number for number in range(0, 3_000, 150)]
    await sink.until(lambda: len(sink.strays) + len(sink.taken) == 3_020)
    assert [payload for payload in sink.payloads() if payload in set(good)] == good


async def test_the_vehicle_speaks_from_its_own_address():
    seen = asyncio.get_running_loop().create_future()

    async def greet(reader, writer):
        seen.set_result((writer.get_extra_info("peername")[0], await reader.readexactly(8)))
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = VehicleSettings(source_address="127.9.8.7")
        client = Amqp().vehicle_client(Endpoint("127.0.0.1", port), 1, Amqp.modes["auto"], Silent(), settings)
        with pytest.raises(ConnectError, match="AMQP at"):
            await client.connect()
        assert await seen == ("127.9.8.7", b"AMQP\x00\x00\x09\x01")
        await client.close()


class Silent:
    def writable(self):
        pass


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"\x01\x00\x00\x00\x00\x00\x02ab\x00",
        b"",
    ],
)
async def test_a_server_that_speaks_something_else_is_a_connect_error(answer):
    async def reply(reader, writer):
        await reader.readexactly(8)
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = VehicleSettings(connect_timeout_s=2)
        client = Amqp().vehicle_client(Endpoint("127.0.0.1", port), 1, Amqp.modes["auto"], Silent(), settings)
        with pytest.raises(ConnectError):
            await client.connect()
        assert not client.ready()


async def test_nobody_listening_and_a_wrong_password_are_connect_errors(amqp):
    with hold_port() as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConnectError, match="AMQP at"):
            await amqp.vehicle(endpoint=Endpoint("127.0.0.1", port))
    wrong = Endpoint(amqp.endpoint.host, amqp.endpoint.port, username="nobody", password="wrong")
    with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
        await amqp.vehicle(endpoint=wrong)
    with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
        await amqp.gateway(endpoint=wrong)


async def test_bytes_that_are_no_frames_neither_stop_the_broker_nor_the_gateway(amqp):
    wire = await amqp.wire()
    _, sink = await amqp.gateway(endpoint=wire.endpoint)
    client, events = await amqp.vehicle()
    rng = random.Random(5)
    for number in range(300):
        with socket.create_connection((amqp.endpoint.host, amqp.endpoint.port)) as sock:
            head = b"AMQP\x00\x00\x09\x01" if number % 2 else b""
            sock.sendall(head + rng.randbytes(rng.randrange(1, 200)))
        if number % 30 == 0:
            client.send(number, b"%d" % number)
            await events.until(lambda n=number: n in events.acked)
    await sink.until(lambda: len(sink.taken) == 10)
    # The same towards the gateway: its connection ends and comes again, and nothing is lost.
    wire.noise(rng.randbytes(8) + b"\x00" * 20)
    await sink.until(lambda: [up for up, _ in sink.links] == [True, False, True])
    client.send(1000, b"after the noise")
    await events.until(lambda: 1000 in events.acked)
    await sink.until(lambda: sink.payloads()[-1] == b"after the noise")
    once = list(dict.fromkeys(sink.payloads()))  # what the gateway had not acknowledged comes again
    assert once == [b"%d" % number for number in range(0, 300, 30)] + [b"after the noise"]
    assert (events.losses, events.gone) == ([], []), "the noise of others is not the vehicle's"


@pytest.mark.parametrize("mode", list(Amqp.modes))
async def test_an_echo_reaches_its_own_subscriber_alone(amqp, mode):
    _, mine = await amqp.subscriber(mode=mode, number=21)
    _, other = await amqp.subscriber(mode=mode, number=22)
    client, _ = await amqp.vehicle(mode=mode, number=21)
    for token, size in enumerate(SIZES):
        client.send(token, bytes(size))
    await mine.until(lambda: len(mine.echoes) == len(SIZES))
    assert mine.echoes == [(bytes(size), False) for size in SIZES]
    assert other.echoes == []


async def test_a_subscriber_that_lost_its_connection_misses_nothing(amqp):
    wire = await amqp.wire()
    subscriber, events = await amqp.subscriber(number=23, endpoint=wire.endpoint)
    client, _ = await amqp.vehicle(number=23)
    client.send(1, b"one")
    await events.until(lambda: events.echoes)
    wire.cut()
    await events.until(lambda: events.losses)
    client.send(2, b"two")
    await subscriber.open()  # as the sender does
    await events.until(lambda: events.echoes[-1][0] == b"two")
    assert amqp_routing_key(vehicle_id(23)) == "vehicles.YV2RT40A8KB000023.status"
