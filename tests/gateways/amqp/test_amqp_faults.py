"""AMQP through a broker that is killed, that is short of memory, and that has an intruder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess

import pytest
import trustme

from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.subscriber import echo_queue
from gateways.protocols.base import Endpoint, Tls
from gateways.protocols.ends import ConnectError
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.security import Account, Security, TlsFiles
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker
VEHICLE, OTHER = vehicle_id(1), vehicle_id(2)


@pytest.fixture
def own_broker(run_record):
    """A broker for one test to mistreat."""
    with RabbitmqServer(run_record) as server:
        yield server


@pytest.fixture
async def on_own_broker(own_broker, bench_on):
    async with contextlib.AsyncExitStack() as stack:
        yield bench_on(stack, Endpoint(own_broker.host, own_broker.port))


def rabbitmqctl(server, *words):
    environment = {**os.environ, **server.environment()}
    argv = ["/usr/lib/rabbitmq/bin/rabbitmqctl", "-n", environment["RABBITMQ_NODENAME"], *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
async def test_nothing_confirmed_is_lost_when_the_broker_ends(own_broker, on_own_broker, how):
    amqp = on_own_broker
    intake, sink = await amqp.gateway()
    sink.hold = True
    client, events = await amqp.vehicle()
    for token in range(200):
        await events.until(client.ready)
        client.send(token, b"%d" % token)
        if token == 150:
            await events.until(lambda: len(events.acked) > 100)
            os.kill(own_broker.process.pid, how)
            await events.until(lambda: events.losses)
            await asyncio.to_thread(own_broker.restart)
            sink.hold = False
            await amqp.again(client)
    await events.until(lambda: len(events.acked) == 200)
    await sink.until(lambda: len(set(sink.payloads())) == 200)
    assert sorted(events.acked) == list(range(200)), "each acknowledged once"
    # Messages may flow before the intake has said that it is back.
    await sink.until(lambda: len(sink.links) >= 3 and sink.duplicates)
    assert [up for up, _ in sink.links][:3] == [True, False, True]
    assert sink.duplicates, "what the gateway held came again, flagged"
    assert intake.counters()["reconnects"] >= 1


async def test_a_broker_short_of_memory_stops_the_vehicle_and_lets_it_go_on(own_broker, on_own_broker):
    amqp = on_own_broker
    _, sink = await amqp.gateway()
    client, events = await amqp.vehicle(receive_max=1_000)
    await asyncio.to_thread(rabbitmqctl, own_broker, "set_vm_memory_high_watermark", "absolute", "1MB")
    token = 0
    # RabbitMQ tells a publisher when it publishes (connection.blocked), not before.
    async with asyncio.timeout(30):
        while client.ready():
            client.send(token, b"%d" % token)
            token += 1
            await asyncio.sleep(0.05)
    assert client.in_flight() < 1_000, "the broker stops it, not its own window"
    wakes = events.wakes
    await asyncio.to_thread(rabbitmqctl, own_broker, "set_vm_memory_high_watermark", "0.4")
    await events.until(lambda: events.wakes > wakes and client.ready())
    client.send(token, b"%d" % token)
    await events.until(lambda: len(events.acked) == token + 1)
    await sink.until(lambda: len(sink.taken) == token + 1)
    assert events.losses == []


@pytest.fixture
def secured(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = TlsFiles(tmp_path / "ca.pem", tmp_path / "server.pem", tmp_path / "server.key")
    authority.cert_pem.write_to_path(files.authority)
    certificate.private_key_pem.write_to_path(files.key)
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(files.certificate, append=True)
    trustme.CA().cert_pem.write_to_path(tmp_path / "stranger.pem")
    accounts = (Account(VEHICLE, "one"), Account(OTHER, "two"), Account("gateway", "three", role="gateway"))
    return Security(files, accounts)


async def test_an_intruder_can_neither_read_nor_publish_for_another_vehicle(
    run_record, tmp_path, secured, bench_on
):
    tls = Tls(str(secured.tls.authority))
    with RabbitmqServer(run_record, security=secured) as server:

        def account(name, password):
            return Endpoint(server.host, server.port, tls, name, password)

        vehicle, intruder = account(VEHICLE, "one"), account(OTHER, "two")
        async with contextlib.AsyncExitStack() as stack:
            amqp = bench_on(stack, account("gateway", "three"))
            amqp.delete_queue = lambda: None
            _, sink = await amqp.gateway()
            client, events = await amqp.vehicle(endpoint=vehicle, number=1)
            _, echo = await amqp.subscriber(endpoint=vehicle, number=1)

            # Publishing under another's routing key ends the intruder's channel and reaches nobody.
            spy, spied = await amqp.vehicle(endpoint=intruder, number=1)
            spy.send(1, b"forged")
            await spied.until(lambda: spied.losses)
            assert "ACCESS_REFUSED" in spied.losses[0]

            # Reading: another's routing key, another's queue, the gateway's queue, every key at once.
            with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
                await amqp.subscriber(endpoint=intruder, number=1)
            with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
                await amqp.gateway(endpoint=intruder)
            own_queue = echo_queue("", OTHER)
            for key in (amqp_routing_key(VEHICLE), "vehicles.#", "#"):
                with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
                    await _bind(intruder, own_queue, key)
            await _bind(intruder, own_queue, amqp_routing_key(OTHER))

            client.send(1, b"mine")
            await events.until(lambda: events.acked == [1])
            await sink.until(lambda: sink.taken)
            await echo.until(lambda: echo.echoes)
            assert sink.taken == [(VEHICLE, b"mine")]
            assert echo.echoes == [(b"mine", False)]

            with pytest.raises(ConnectError, match="ACCESS_REFUSED"):
                await amqp.vehicle(endpoint=account(VEHICLE, "wrong"))
            stranger = Endpoint(server.host, server.port, Tls(str(tmp_path / "stranger.pem")), VEHICLE, "one")
            with pytest.raises(ConnectError, match="certificate"):
                await amqp.vehicle(endpoint=stranger)
            with pytest.raises(ConnectError):
                await amqp.vehicle(endpoint=Endpoint(server.host, server.port, None, VEHICLE, "one"))


class Nobody:
    def lost(self, reason):
        pass


async def _bind(endpoint, queue, key):
    from gateways.protocols.amqp.connection import EXCHANGE, AmqpLink  # noqa: PLC0415

    link = AmqpLink(Nobody(), endpoint, keepalive_s=60, timeout_s=10)

    async def bind():
        await link.call(link.channel.queue_declare, queue=queue)
        await link.call(link.channel.queue_bind, queue=queue, exchange=EXCHANGE, routing_key=key)

    try:
        await link.open(bind)
    finally:
        await link.close()
