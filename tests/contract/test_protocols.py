"""What every protocol promises at both ends, over real servers; a new row of `PROTOCOLS` joins by itself."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from importlib import metadata
from typing import Any

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings, Mode, Protocol, VehicleSettings
from gateways.protocols.ends import ConnectError
from ivsim.options import OPTIONS
from ivsim.testbed.process import hold_port
from ivsim.testbed.servers import SERVERS
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

MODES = [(name, mode) for name, protocol in PROTOCOLS.items() for mode in protocol.modes]
ACKNOWLEDGED = [(n, m) for n, m in MODES if PROTOCOLS[n].modes[m].acknowledged]
DEFAULTS = [(name, protocol.default_mode) for name, protocol in PROTOCOLS.items()]
# Kept apart from other tests on the shared brokers by number.
_NUMBERS = itertools.count(40_000)
WAIT_S = 15.0


class Watched:
    """Wakes whoever waits for a condition on it, at every change."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def change(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Events(Watched):
    """A vehicle's and a subscriber's events."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[int] = []
        self.refusals: list[tuple[int, str]] = []
        self.connections: list[bool] = []
        self.losses: list[str] = []
        self.payloads: list[bytes] = []

    def acknowledged(self, token: int, at_ns: int) -> None:
        assert at_ns > 0
        self.tokens.append(token)
        self.change()

    def refused(self, token: int, reason: str) -> None:
        self.refusals.append((token, reason))
        self.change()

    def postponed(self, token: int, reason: str) -> None: ...

    def unanswered(self, token: int, reason: str) -> None:
        self.refusals.append((token, reason))
        self.change()

    def connected(self, at_ns: int, session_present: bool) -> None:
        assert at_ns > 0
        self.connections.append(session_present)
        self.change()

    def disconnected(self, at_ns: int, reason: str) -> None:
        assert at_ns > 0
        self.losses.append(reason)
        self.change()

    def writable(self) -> None:
        self.change()

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:
        assert at_ns > 0
        assert duplicate in {True, False}
        self.payloads.append(payload)
        self.change()


class Sink(Watched):
    """Keeps the messages of the test's own vehicles; acknowledges all, or none of its own while `holding`."""

    def __init__(self) -> None:
        super().__init__()
        self.intake: Any = None
        self.mine: set[str] = set()
        self.taken: list[tuple[str, bytes]] = []
        self.flags: list[bool] = []
        self.held: list[Any] = []
        self.holding = False

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any
    ) -> None:
        assert received_at_ns > 0
        if vehicle_id in self.mine:
            assert type(payload) is bytes
            self.taken.append((vehicle_id, payload))
            self.flags.append(duplicate)
        if vehicle_id in self.mine and self.holding:
            self.held.append(receipt)
        else:
            self.intake.acknowledge(receipt)
            asyncio.get_running_loop().call_soon(self.intake.flush)
        self.change()

    def misaddressed(
        self, address: str, payload: bytes, received_at_ns: int, receipt: Any, reason: str
    ) -> None:
        assert address
        assert reason
        self.intake.acknowledge(receipt)
        self.intake.flush()

    def turned_away(self, reason: str) -> None: ...

    def link(self, up: bool, reason: str) -> None:
        self.change()

    def release(self) -> None:
        """Acknowledge what is held."""
        self.holding = False
        for receipt in self.held:
            self.intake.acknowledge(receipt)
        self.held.clear()
        self.intake.flush()


async def at_rest(client: Any) -> None:
    """Wait until nothing is in flight; where only TCP acknowledges there is no event to wait for."""
    async with asyncio.timeout(WAIT_S):
        while client.in_flight():
            await asyncio.sleep(0.01)


class BothEnds:
    """Opens the ends of one protocol and closes them."""

    def __init__(self, protocol: Protocol, mode: Mode, endpoint: Endpoint, stack: AsyncExitStack) -> None:
        self.protocol = protocol
        self.mode = mode
        self.endpoint = endpoint
        self.stack = stack
        self.name = f"contract-{next(_NUMBERS)}-{os.getpid()}"
        self.sink = Sink()

    async def intake(self, **settings: Any) -> Any:
        made = self.protocol.intake(
            self.endpoint, self.mode, self.sink, IntakeSettings(**{"name": self.name, **settings})
        )
        self.sink.intake = made
        await made.open()
        self.stack.push_async_callback(made.close)
        host, port = made.endpoint()
        if self.protocol.broker is None:
            self.endpoint = Endpoint(host, port)
        return made

    async def vehicle(self, **settings: Any) -> tuple[Any, Events, str]:
        number = next(_NUMBERS)
        self.sink.mine.add(vehicle_id(number))
        events = Events()
        client = self.protocol.vehicle_client(
            self.endpoint, number, self.mode, events, VehicleSettings(client_prefix=self.name, **settings)
        )
        self.stack.push_async_callback(client.close)
        await client.connect()
        return client, events, vehicle_id(number)

    async def send(self, client: Any, events: Events, payloads: list[bytes]) -> None:
        for token, payload in enumerate(payloads, 1):
            await events.until(client.ready)
            client.send(token, payload)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


@pytest.fixture
def both_ends(request: pytest.FixtureRequest, stack: AsyncExitStack) -> Callable[[str, str], BothEnds]:
    def make(name: str, mode: str) -> BothEnds:
        protocol = PROTOCOLS[name]
        host, port = "127.0.0.1", 0
        if protocol.broker is not None:
            host, port = request.getfixturevalue(f"{protocol.broker}_loopback")
        return BothEnds(protocol, protocol.modes[mode], Endpoint(host, port), stack)

    return make


@pytest.mark.parametrize(("name", "mode"), MODES)
async def test_payloads_arrive_unchanged_and_in_order(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    await ends.intake()
    client, events, identity = await ends.vehicle()
    assert events.connections == [False]
    payloads = [b"\x00", b"message001", bytes(range(256)), os.urandom(1157), os.urandom(13_000)]
    await ends.send(client, events, payloads)
    await ends.sink.until(lambda: len(ends.sink.taken) >= len(payloads))
    assert ends.sink.taken == [(identity, payload) for payload in payloads]
    assert not any(ends.sink.flags)
    if ends.mode.acknowledged:
        await events.until(lambda: len(events.tokens) == len(payloads))
        # RabbitMQ confirms a persistent message once it is on disk or consumed: a later one may be so before it.
        assert (sorted(events.tokens) if name == "amqp" else events.tokens) == [1, 2, 3, 4, 5]
    await at_rest(client)
    assert (events.refusals, events.losses) == ([], [])


@pytest.mark.parametrize(("name", "mode"), MODES)
async def test_vehicles_are_kept_apart(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    await ends.intake()
    vehicles = [await ends.vehicle() for _ in range(5)]
    await asyncio.gather(
        *(
            ends.send(client, events, [f"{identity} {k}".encode() for k in range(4)])
            for client, events, identity in vehicles
        )
    )
    await ends.sink.until(lambda: len(ends.sink.taken) >= 20)
    assert all(payload.decode().split()[0] == identity for identity, payload in ends.sink.taken)
    assert len(set(ends.sink.taken)) == 20


@pytest.mark.parametrize(("name", "mode"), ACKNOWLEDGED)
async def test_acknowledgement_without_a_broker_waits_for_the_bridge(both_ends, name: str, mode: str) -> None:
    """Where the gateway is the server its acknowledgement is the vehicle's own."""
    ends = both_ends(name, mode)
    ends.sink.holding = True
    await ends.intake()
    client, events, _ = await ends.vehicle()
    await ends.send(client, events, [b"one"])
    await ends.sink.until(lambda: len(ends.sink.taken) == 1)
    if ends.protocol.broker is None:
        assert events.tokens == []
        assert client.in_flight() == 1
    ends.sink.release()
    await events.until(lambda: events.tokens == [1])


@pytest.mark.parametrize(
    ("name", "mode"),
    [(n, m) for n, m in MODES if PROTOCOLS[n].broker and PROTOCOLS[n].modes[m].guarantee != "at_most_once"],
)
async def test_unacknowledged_messages_come_again(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    ends.sink.holding = True
    first = await ends.intake()
    client, events, identity = await ends.vehicle()
    await ends.send(client, events, [b"one", b"two"])
    await ends.sink.until(lambda: len(ends.sink.taken) == 2)
    await first.close()
    ends.sink.taken.clear()
    ends.sink.holding = False
    await ends.intake()
    await ends.sink.until(lambda: len(ends.sink.taken) == 2)
    assert sorted(ends.sink.taken) == [(identity, b"one"), (identity, b"two")]


@pytest.mark.parametrize(
    ("name", "mode"),
    [(n, m) for n, m in MODES if PROTOCOLS[n].broker and PROTOCOLS[n].modes[m].guarantee != "at_most_once"],
)
async def test_no_more_are_held_than_allowed(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    ends.sink.holding = True
    intake = await ends.intake(receive_max=5)
    client, events, identity = await ends.vehicle()
    payloads = [b"%d" % k for k in range(30)]
    sending = asyncio.ensure_future(ends.send(client, events, payloads))
    await ends.sink.until(lambda: len(ends.sink.held) >= 5)
    if "v311" not in mode:  # MQTT 3.1.1 has no receive maximum: there the bridge pauses the socket
        await asyncio.wait([sending], timeout=0.3)
        assert len(ends.sink.held) == 5
    while len(ends.sink.taken) < len(payloads):
        intake.acknowledge(ends.sink.held.pop(0))
        intake.flush()
        await ends.sink.until(lambda: bool(ends.sink.held) or len(ends.sink.taken) == len(payloads))
    await sending
    assert ends.sink.taken == [(identity, payload) for payload in payloads]
    ends.sink.release()


@pytest.mark.parametrize(("name", "mode"), DEFAULTS)
async def test_a_paused_intake_loses_nothing(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    intake = await ends.intake()
    client, events, identity = await ends.vehicle()
    await ends.send(client, events, [b"first"])
    await ends.sink.until(lambda: len(ends.sink.taken) == 1)
    intake.pause()
    sending = asyncio.ensure_future(ends.send(client, events, [b"%d" % k for k in range(10)]))
    await asyncio.wait([sending], timeout=0.3)
    # What was already on its way to the gateway may still come; a server says 5.03 instead.
    assert len(ends.sink.taken) <= 11
    intake.resume()
    await sending
    if not any(events.refusals):
        await ends.sink.until(lambda: len(ends.sink.taken) == 11)
    assert len(ends.sink.taken) + len({token for token, _ in events.refusals}) >= 11
    assert {i for i, _ in ends.sink.taken} == {identity}


@pytest.mark.parametrize(("name", "mode"), MODES)
async def test_the_echo_comes_back(both_ends, stack: AsyncExitStack, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    if ends.protocol.broker is None:
        server = ends.protocol.echo_server(Endpoint("127.0.0.1", 0), ends.mode)
        await server.open()
        stack.push_async_callback(server.close)
        ends.endpoint = Endpoint(*server.endpoint())
    number = next(_NUMBERS)
    echo, events = Events(), Events()
    settings = VehicleSettings(client_prefix=ends.name)
    subscriber = ends.protocol.subscriber(ends.endpoint, number, ends.mode, echo, settings)
    stack.push_async_callback(subscriber.close)
    await subscriber.open()
    client = ends.protocol.vehicle_client(ends.endpoint, number, ends.mode, events, settings)
    stack.push_async_callback(client.close)
    await client.connect()
    payloads = [b"message001", os.urandom(1157), b"message003"]
    for token, payload in enumerate(payloads, 1):
        await events.until(client.ready)
        client.send(token, payload)
        await echo.until(lambda token=token: len(echo.payloads) >= token)
    assert echo.payloads == payloads


@pytest.mark.parametrize(("name", "mode"), [d for d in DEFAULTS if PROTOCOLS[d[0]].broker])
async def test_nobody_listening_is_a_connect_error(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    with hold_port() as silent:
        ends.endpoint = Endpoint(*silent.getsockname())
        with pytest.raises(ConnectError, match=str(ends.endpoint.port)) as error:
            await ends.vehicle(connect_timeout_s=3.0)
        assert "\n" not in str(error.value)
        with pytest.raises(ConnectError):
            await ends.intake()


@pytest.mark.parametrize(("name", "mode"), DEFAULTS)
async def test_closing_twice_is_harmless(both_ends, name: str, mode: str) -> None:
    ends = both_ends(name, mode)
    intake = await ends.intake()
    client, events, _ = await ends.vehicle()
    for _ in range(2):
        await client.close()
        await intake.close()
    assert events.losses == []
    assert not client.ready()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_tables_are_complete(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.name == name
    assert protocol.default_mode in protocol.modes
    assert protocol.broker is None or protocol.broker in SERVERS
    # Without a broker somebody else must listen: the gateway, and an echo server for each mode.
    assert (protocol.broker is None) == (protocol.port is not None)
    assert set(protocol.echo_ports) == (set(protocol.modes) if protocol.broker is None else set())
    assert set(protocol.ladder) <= set(protocol.modes)
    assert protocol.settings <= set(OPTIONS)
    assert all(metadata.version(package) for package in protocol.packages)
    for key, mode in protocol.modes.items():
        assert mode.name == key
        assert set(mode.options) == set(protocol.words)
        assert all(mode.options[name] in word.values for name, word in protocol.words.items())
