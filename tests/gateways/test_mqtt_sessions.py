"""Connections cut at random bytes and brokers killed: what each QoS promises holds at both ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from standing_still import stand_still

from gateways.protocols import PROTOCOLS
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.ends import ConnectError
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import vehicle_id

pytestmark = pytest.mark.broker

MQTT = PROTOCOLS["mqtt"]
MESSAGES = 150
# All messages together are more than seven of the longest pieces, so that every cut comes, even if none is sent twice.
CUT_BYTES = (400, 3_000)
WAIT_S = 40.0


async def keep_trying(connect: Callable[[], Awaitable[None]], backoff: Backoff) -> None:
    """Wait and call `connect` until it raises no ConnectError any more."""
    while True:
        await asyncio.sleep(backoff.next_s())
        with contextlib.suppress(ConnectError):
            return await connect()


@pytest.fixture
def broker(run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record) as server:
        yield server


class Relay:
    """Passes bytes both ways and cuts each connection after a random number of them, `cuts` times."""

    def __init__(self, target: tuple[str, int], seed: int, cuts: int) -> None:
        self._target = target
        self._rng = random.Random(seed)
        self.cuts = cuts
        self._server: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Endpoint:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Endpoint(*self._server.sockets[0].getsockname())

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        left = [10**9]
        if self.cuts:
            self.cuts -= 1
            left = [self._rng.randrange(*CUT_BYTES)]
        ways = [
            asyncio.ensure_future(_pump(reader, far_writer, left)),
            asyncio.ensure_future(_pump(far_reader, writer, left)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, far_writer):
                end.transport.abort()
                with contextlib.suppress(ConnectionError):
                    await end.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(200):
            writer.write(data[: left[0]])
            await writer.drain()
            left[0] -= len(data)
            if left[0] <= 0:
                return


class Both:
    """Vehicle's events and gateway's sink in one; reconnects the vehicle as the sender does."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.refusals: list[str] = []
        self.taken: list[bytes] = []
        self.sessions: list[bool] = []
        self.client: Any = None
        self.intake: Any = None
        self.changed = asyncio.Event()
        self.again: asyncio.Task[None] | None = None

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.tokens.append(token)
        self.changed.set()

    def refused(self, token: int, reason: str) -> None:
        self.refusals.append(reason)

    def connected(self, at_ns: int, session_present: bool) -> None:
        self.sessions.append(session_present)
        self.changed.set()

    def disconnected(self, at_ns: int, reason: str) -> None:
        self.again = asyncio.ensure_future(keep_trying(self.client.connect, Backoff(0.01, 0.2)))

    def writable(self) -> None:
        self.changed.set()

    def turned_away(self, reason: str) -> None: ...

    def link(self, up: bool, reason: str) -> None:
        self.changed.set()

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any
    ) -> None:
        self.taken.append(payload)
        loop = asyncio.get_running_loop()
        loop.call_later(0.002, self._give_back, receipt)
        self.changed.set()

    def _give_back(self, receipt: Any) -> None:
        self.intake.acknowledge(receipt)
        self.intake.flush()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.1)


class Holding(Both):
    """Takes and acknowledges nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.receipts: list[Any] = []

    def take(
        self, vehicle_id: str, payload: bytes, received_at_ns: int, duplicate: bool, receipt: Any
    ) -> None:
        self.taken.append(payload)
        self.receipts.append(receipt)
        self.changed.set()

    async def open(self, at: Endpoint, mode: str) -> None:
        self.intake = MQTT.intake(at, MQTT.modes[mode], self, IntakeSettings(name="leaving-gateway"))
        await self.intake.open()


@pytest.fixture
async def both() -> AsyncIterator[Both]:
    made = Both()
    yield made
    if made.again is not None:
        made.again.cancel()
        await asyncio.gather(made.again, return_exceptions=True)
    for end in (made.client, made.intake):
        if end is not None:
            await end.close()


async def drive(both: Both, mode: str, vehicle_at: Endpoint, gateway_at: Endpoint) -> list[bytes]:
    """Send all messages and wait until both ends are at rest; return what was sent."""
    chosen = MQTT.modes[mode]
    both.intake = MQTT.intake(gateway_at, chosen, both, IntakeSettings(name="cut-gateway", receive_max=20))
    await keep_trying(both.intake.open, Backoff(0.01, 0.05))
    both.client = MQTT.vehicle_client(vehicle_at, 1, chosen, both, VehicleSettings(receive_max=10))
    await keep_trying(both.client.connect, Backoff(0.01, 0.05))
    sent = [f"{vehicle_id(1)} {k} ".encode() + bytes(100) for k in range(MESSAGES)]
    for token, payload in enumerate(sent):
        await both.until(both.client.ready)
        both.client.send(token, payload)
    await both.until(lambda: len(set(both.tokens)) == MESSAGES)
    await both.until(lambda: len(set(both.taken)) == MESSAGES)
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
@pytest.mark.parametrize("mode", ["qos1", "qos2", "qos1-v311", "qos2-v311"])
async def test_cut_connections_keep_the_promise(broker, both: Both, mode: str, seed: int) -> None:
    vehicles = Relay((broker.host, broker.port), seed, cuts=8)
    # A gateway waits longer from one attempt to the next.
    gateways = Relay((broker.host, broker.port), seed + 100, cuts=4)
    async with vehicles as vehicle_at, gateways as gateway_at:
        sent = await drive(both, mode, vehicle_at, gateway_at)
        await both.until(lambda: both.client.in_flight() == 0)
        assert (vehicles.cuts, both.refusals) == (0, [])
        assert sum(both.sessions[1:]) >= 6
        assert Counter(both.tokens) == Counter(range(MESSAGES))
        assert set(both.taken) == set(sent)
        if mode.startswith("qos2"):
            assert Counter(both.taken) == Counter(sent)
        await both.client.close()
        await both.intake.close()


@pytest.mark.parametrize("mode", ["qos1", "qos2", "qos2-v311"])
async def test_what_was_acknowledged_before_leaving_never_comes_again(broker, both: Both, mode: str) -> None:
    here, first, second = Endpoint(broker.host, broker.port), Holding(), Holding()
    await first.open(here, mode)
    both.client = MQTT.vehicle_client(here, 1, MQTT.modes[mode], both, VehicleSettings())
    await both.client.connect()
    for token in range(100):
        await both.until(both.client.ready)
        both.client.send(token, b"early")
    await first.until(lambda: len(first.receipts) == 100)
    for receipt in first.receipts:
        first.intake.acknowledge(receipt)
    await first.intake.close()
    await both.until(both.client.ready)
    both.client.send(100, b"late")
    await second.open(here, mode)
    both.intake = second.intake
    # What the broker has to send again it sends first (MQTT-4.4.0-1).
    await second.until(lambda: b"late" in second.taken)
    assert second.taken == [b"late"]


@pytest.mark.parametrize("mode", ["qos1", "qos2"])
async def test_a_broker_without_our_session_is_told_everything_again(broker, both: Both, mode: str) -> None:
    """Killed before its first save mosquitto knows nothing: what it had not acknowledged must come again."""
    here = Endpoint(broker.host, broker.port)
    both.client = MQTT.vehicle_client(here, 1, MQTT.modes[mode], both, VehicleSettings())
    await both.client.connect()
    stand_still(broker.process.pid)
    payloads = [b"%d" % k for k in range(8)]
    for token, payload in enumerate(payloads):
        assert both.client.ready()
        both.client.send(token, payload)
    assert both.tokens == []
    broker.process.kill()
    await both.until(lambda: both.again is not None)
    await asyncio.to_thread(broker.restart)
    both.intake = MQTT.intake(here, MQTT.modes[mode], both, IntakeSettings(name="late-gateway"))
    await both.until(lambda: both.sessions == [False, False])
    await both.until(lambda: sorted(both.tokens) == list(range(8)))
    assert both.client.in_flight() == 0


async def test_the_peers_receive_maximum_is_respected(broker, both: Both) -> None:
    """mosquitto's own limit stands in CONNACK; a vehicle allowed more than that keeps to it."""
    here = Endpoint(broker.host, broker.port)
    both.client = MQTT.vehicle_client(here, 1, MQTT.modes["qos1"], both, VehicleSettings(receive_max=7))
    await both.client.connect()
    stand_still(broker.process.pid)
    try:
        sent = 0
        while both.client.ready():
            both.client.send(sent, b"x")
            sent += 1
        assert sent == both.client.in_flight() == 7
    finally:
        os.killpg(broker.process.pid, signal.SIGCONT)
    await both.until(lambda: len(both.tokens) == 7)
    assert both.client.ready()
