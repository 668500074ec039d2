"""Vehicles known by their certificates, on real brokers: what an intruder can do is nothing, and nobody else notices.

The intruder uses paho and pika as they are: what a broker lets happen must not depend on our clients' manners.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import queue
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pika
import pytest
import trustme
from paho.mqtt.enums import CallbackAPIVersion

from gateways.protocols import PROTOCOLS
from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.base import Endpoint, IntakeSettings, Protocol, Tls, VehicleSettings
from gateways.protocols.ends import AccessRefusedError, VehicleClient
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.tls import tls_context
from ivsim.testbed.credentials import GATEWAY, Credentials, make_credentials, write_client_certificate
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

HOST = "127.0.0.1"
VICTIM, INTRUDER, UNKNOWN = vehicle_id(1), vehicle_id(2), vehicle_id(3)
SETTINGS = VehicleSettings(connect_timeout_s=10.0)


@dataclasses.dataclass
class Bench:
    """A broker that knows the victim, the intruder and the gateway; the authority has signed for a third vehicle, too."""

    protocol: Protocol
    server: Any
    credentials: Credentials
    authority: trustme.CA

    def tls(self, name: str) -> Tls:
        tls = self.credentials.tls(name)
        assert tls is not None
        return tls

    def endpoint(self, name: str) -> Endpoint:
        return Endpoint(self.server.host, self.server.port, self.tls(name))

    def made(self, name: str, authority: trustme.CA, *, not_after: datetime | None = None) -> Endpoint:
        """An endpoint with a certificate made here."""
        assert self.credentials.certificates is not None
        path = (
            self.credentials.certificates / f"made-{len(list(self.credentials.certificates.iterdir()))}.pem"
        )
        write_client_certificate(path, authority, name, not_after=not_after)
        own = str(path)
        return dataclasses.replace(
            self.endpoint(name), tls=dataclasses.replace(self.tls(name), certificate_file=own, key_file=own)
        )


@contextlib.contextmanager
def bench(run_record: RunRecord, directory: Path, protocol: str) -> Iterator[Bench]:
    authority = trustme.CA()
    credentials = make_credentials(directory / "keys", 3, "mtls", HOST, authority)
    known = tuple(a for a in credentials.security.accounts if a.name != UNKNOWN)
    security = dataclasses.replace(credentials.security, accounts=known)
    kind: Any = MosquittoServer if protocol == "mqtt" else RabbitmqServer
    with kind(run_record, security=security) as server:
        yield Bench(PROTOCOLS[protocol], server, credentials, authority)


class Seen:
    """Notes whatever any end reports."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.acked: list[int] = []
        self.refusals: list[str] = []
        self.intake: Any = None
        self.happened = asyncio.Event()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.acked.append(token)
        self.happened.set()

    def refused(self, token: int, reason: str) -> None:
        self.refusals.append(reason)
        self.happened.set()

    def disconnected(self, at_ns: int, reason: str) -> None:
        self.refusals.append(reason)
        self.happened.set()

    def connected(self, at_ns: int, session_present: bool) -> None: ...
    def writable(self) -> None: ...
    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None:
        self.refusals.append(reason)
        self.happened.set()

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any
    ) -> None:
        self.taken.append((vehicle_id, payload))
        self.intake.acknowledge(receipt)
        self.intake.flush()
        self.happened.set()


async def sent(bench: Bench, endpoint: Endpoint, payload: bytes) -> Seen:
    """Connect as that endpoint says, as vehicle 1; send one message, and return what came of it."""
    seen = Seen()
    mode = bench.protocol.modes[bench.protocol.default_mode]
    client = bench.protocol.vehicle_client(endpoint, 1, mode, seen, SETTINGS)  # type: ignore[arg-type]
    try:
        await client.connect()
        client.send(1, payload)
        await asyncio.wait_for(seen.happened.wait(), 10)
    finally:
        await client.close()
    return seen


@pytest.mark.parametrize("protocol", ["mqtt", "amqp"])
async def test_who_is_refused_is_named_and_nobody_else_notices(
    protocol: str, run_record: RunRecord, tmp_path: Path
) -> None:
    with bench(run_record, tmp_path, protocol) as broker:
        mode = broker.protocol.modes[broker.protocol.default_mode]
        gateway = Seen()
        gateway.intake = broker.protocol.intake(
            broker.endpoint(GATEWAY),
            mode,
            gateway,
            IntakeSettings(),  # type: ignore[arg-type]
        )
        await gateway.intake.open()
        try:
            nobody = dataclasses.replace(broker.endpoint(VICTIM), tls=Tls(broker.tls(VICTIM).ca_file))
            expired = broker.made(
                VICTIM, broker.authority, not_after=datetime.now(UTC) - timedelta(minutes=1)
            )
            with pytest.raises(AccessRefusedError, match=r"(?i)certificate.?expired"):
                await sent(broker, expired, b"expired")
            with pytest.raises(AccessRefusedError, match=r"(?i)unknown.?ca|bad.?certificate"):
                await sent(broker, broker.made(VICTIM, trustme.CA()), b"stranger")
            with pytest.raises(AccessRefusedError, match=r"(?i)certificate.?required"):
                await sent(broker, nobody, b"nobody")
            if protocol == "amqp":
                with pytest.raises(AccessRefusedError, match="ACCESS_REFUSED"):
                    await sent(broker, broker.endpoint(UNKNOWN), b"unknown")
            else:
                # mosquitto has no list of names for certificates: such a client connects, and may do nothing.
                unknown = await sent(broker, broker.endpoint(UNKNOWN), b"unknown")
                assert (unknown.acked, unknown.refusals[0]) == ([], "Not authorized")
            forged = await sent(broker, broker.endpoint(INTRUDER), b"forged")
            assert forged.acked == []
            assert "ACCESS_REFUSED" in forged.refusals[0] or forged.refusals[0] == "Not authorized"
            gateway.happened.clear()
            assert (await sent(broker, broker.endpoint(VICTIM), b"genuine")).acked == [1]
            await asyncio.wait_for(gateway.happened.wait(), 10)
            assert gateway.taken == [(VICTIM, b"genuine")]
        finally:
            await gateway.intake.close()


async def test_a_gateway_whose_certificate_is_none_when_it_comes_back_says_so(
    run_record: RunRecord, tmp_path: Path
) -> None:
    """The broker's alert comes behind the handshake, in place of CONNACK."""
    with bench(run_record, tmp_path, "mqtt") as broker:
        gateway, mode = Seen(), broker.protocol.modes[broker.protocol.default_mode]
        intake: Any = broker.protocol.intake(broker.endpoint(GATEWAY), mode, gateway, IntakeSettings())  # type: ignore[arg-type]
        await intake.open()
        try:
            past = datetime.now(UTC) - timedelta(minutes=1)
            expired = broker.made(GATEWAY, broker.authority, not_after=past).tls
            assert expired is not None
            intake._context = tls_context(expired)
            cut(broker.server.port)
            await asyncio.wait_for(gateway.happened.wait(), 20)
            assert re.search(r"(?i)certificate.?expired", gateway.refusals[0])
        finally:
            await intake.close()


@pytest.mark.parametrize(
    ("protocol", "resumes"), [("mqtt", True), pytest.param("amqp", False, marks=pytest.mark.full)]
)
async def test_a_vehicle_that_comes_back_resumes_its_session_where_the_broker_gives_tickets(
    protocol: str, resumes: bool, run_record: RunRecord, tmp_path: Path
) -> None:
    """mosquitto gives them, and forgets their keys when it starts again; RabbitMQ on Erlang 25 gives none."""
    with bench(run_record, tmp_path, protocol) as broker:
        context = tls_context(broker.tls(VICTIM))  # the one that its clients share, with OpenSSL's own counts
        mode = broker.protocol.modes[broker.protocol.default_mode]
        seen = Seen()
        client = broker.protocol.vehicle_client(broker.endpoint(VICTIM), 1, mode, seen, SETTINGS)  # type: ignore[arg-type]
        try:
            found = [await _come(client, context)]
            for restarted in (False, True):
                seen.happened.clear()
                if restarted:
                    broker.server.process.kill()
                    broker.server.restart()
                else:
                    cut(broker.server.port)
                await asyncio.wait_for(seen.happened.wait(), 10)
                found.append(await _come(client, context))
        finally:
            await client.close()
    assert found == [False, resumes, False]


async def _come(client: VehicleClient, context: ssl.SSLContext) -> bool:
    """Connect, and say whether that resumed a session."""
    before = context.session_stats()
    await client.connect()
    after = context.session_stats()
    assert after["connect_good"] == before["connect_good"] + 1
    return after["hits"] > before["hits"]


def cut(port: int) -> None:
    """End this process's connections to a port under their owners, as a link does that has gone."""
    for path in Path("/proc/self/fd").iterdir():
        if path.is_socket():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as one:
                if one.getpeername() == (HOST, port):
                    one.shutdown(socket.SHUT_RDWR)


class Paho:
    """paho as it comes, one connection for each thing tried: mosquitto closes on who publishes what it may not."""

    def __init__(self, bench: Bench, name: str) -> None:
        self._answers: queue.Queue[str] = queue.Queue()
        self.read: list[bytes] = []
        tls = bench.tls(name)
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"{name}-by-hand", protocol=mqtt.MQTTv5)
        client.tls_set(tls.ca_file, tls.certificate_file, tls.key_file)
        # A name of somebody else's beside the certificate counts for nothing.
        client.username_pw_set(VICTIM, "whatever")
        client.on_connect = lambda _c, _u, _f, reason, _p: self._answers.put(str(reason))
        client.on_publish = lambda _c, _u, _m, reason, _p: self._answers.put(str(reason))
        client.on_subscribe = lambda _c, _u, _m, reasons, _p: self._answers.put(str(reasons[0]))
        client.on_message = lambda _c, _u, message: self.read.append(message.payload)
        client.connect(bench.server.host, bench.server.port)
        client.loop_start()
        self._client = client
        assert self._answers.get(timeout=10) == "Success"

    def publish(self, topic: str, payload: bytes) -> str:
        self._client.publish(topic, payload, qos=1)
        return self._answers.get(timeout=10)

    def subscribe(self, topic: str) -> str:
        self._client.subscribe(topic, qos=1)
        return self._answers.get(timeout=10)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_with_paho_a_vehicle_neither_writes_nor_reads_anothers_topic(
    run_record: RunRecord, tmp_path: Path
) -> None:
    taken = ("Success", "No matching subscribers")
    with bench(run_record, tmp_path, "mqtt") as broker:
        for topic in (mqtt_topic(VICTIM), "vehicles/x/status", "elsewhere"):
            with closing(Paho(broker, INTRUDER)) as forger:
                assert (topic, forger.publish(topic, b"forged")) == (topic, "Not authorized")
        with closing(Paho(broker, INTRUDER)) as spy, closing(Paho(broker, VICTIM)) as victim:
            for topic in (mqtt_topic(VICTIM), mqtt_topic(INTRUDER), "vehicles/#", "vehicles/+/status", "#"):
                spy.subscribe(topic)
            assert victim.publish(mqtt_topic(VICTIM), b"secret") in taken
            # Whatever the broker owed the intruder comes before the answer to this.
            assert spy.publish(mqtt_topic(INTRUDER), b"mine") in taken
            assert spy.read == []


def test_with_pika_a_vehicle_neither_writes_nor_reads_anothers_key(
    run_record: RunRecord, tmp_path: Path
) -> None:
    with bench(run_record, tmp_path, "amqp") as broker:

        def connected(name: str, credentials: Any = None) -> Any:
            tls = broker.tls(name)
            context = ssl.create_default_context(cafile=tls.ca_file)
            context.load_cert_chain(str(tls.certificate_file), tls.key_file)
            parameters = pika.ConnectionParameters(
                broker.server.host,
                broker.server.port,
                credentials=credentials or pika.credentials.ExternalCredentials(),
                ssl_options=pika.SSLOptions(context, HOST),
            )
            return closing(pika.BlockingConnection(parameters))

        def does(name: str, what: Callable[[Any], Any]) -> None:
            with connected(name) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                what(channel)

        def publish(key: str) -> Callable[[Any], Any]:
            return lambda channel: channel.basic_publish("amq.topic", key, b"x")

        def bind(key: str) -> Callable[[Any], Any]:
            def act(channel: Any) -> None:
                channel.queue_declare(f"echo.{INTRUDER}", durable=True)
                channel.queue_bind(f"echo.{INTRUDER}", "amq.topic", key)

            return act

        does(VICTIM, publish(amqp_routing_key(VICTIM)))
        does(INTRUDER, publish(amqp_routing_key(INTRUDER)))
        refused: dict[str, Callable[[Any], Any]] = {
            "write another's key": publish(amqp_routing_key(VICTIM)),
            "bind another's key": bind(amqp_routing_key(VICTIM)),
            "bind every key": bind("vehicles.#"),
            "declare another's queue": lambda channel: channel.queue_declare(f"echo.{VICTIM}", durable=True),
            "read the gateway's queue": lambda channel: channel.basic_get("ivsim"),
        }
        allowed = []
        for what, act in refused.items():
            try:
                does(INTRUDER, act)
            except pika.exceptions.ChannelClosedByBroker as error:
                if error.reply_code == 403:
                    continue
            allowed.append(what)
        assert allowed == []
        for name, credentials in ((UNKNOWN, None), (INTRUDER, pika.PlainCredentials(VICTIM, ""))):
            with pytest.raises(pika.exceptions.AMQPConnectionError), connected(name, credentials):
                pytest.fail(name)
