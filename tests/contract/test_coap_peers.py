"""Each of our CoAP ends against an independent one: aiocoap's own `Context`, and libcoap's client."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiocoap
import pytest
from aiocoap import resource

from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.echo import CoapEcho
from gateways.protocols.coap.protocol import Coap
from schemas.topics import vehicle_id

WAIT_S = 20.0
SIZES = [1, 1024, 1025, 3000]
PATH = coap_path(vehicle_id(1))


class Sink:
    """The bridge: keeps what comes, acknowledges after `delay_s`."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.delay_s = 0.0
        self.intake: Any = None

    def take(
        self,
        vehicle: str,
        payload: bytes,
        received_at_ns: int,
        duplicate: bool,
        receipt: Any,
        content_type: str = "",
    ) -> None:
        assert vehicle == vehicle_id(1)
        self.taken.append(payload)
        asyncio.get_running_loop().call_later(self.delay_s, self.intake.acknowledge, receipt)

    def misaddressed(self, *_: Any) -> None:
        raise AssertionError("every path here names a vehicle")

    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...


class Events:
    """The sender, at a vehicle's end and its subscriber's."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.gone: list[tuple[int, str]] = []
        self.payloads: list[bytes] = []
        self._changed = asyncio.Event()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.acked.append(token)
        self._changed.set()

    def refused(self, token: int, reason: str) -> None:
        self.gone.append((token, reason))
        self._changed.set()

    def postponed(self, token: int, reason: str) -> None: ...

    def unanswered(self, token: int, reason: str) -> None:
        raise AssertionError(f"message {token}: {reason}")

    def connected(self, at_ns: int, session_present: bool) -> None: ...

    def disconnected(self, at_ns: int, reason: str) -> None: ...

    def writable(self) -> None:
        self._changed.set()

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:
        self.payloads.append(payload)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Status(resource.ObservableResource):
    """A resource of aiocoap's own server: takes a POST after `delay_s`, tells its observers the newest."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []
        self.kinds: list[str] = []
        self.delay_s = 0.0

    async def render_post(self, request: aiocoap.Message) -> aiocoap.Message:
        self.kinds.append(request.mtype.name)
        await asyncio.sleep(self.delay_s)
        self.taken.append(request.payload)
        self.updated_state()
        return aiocoap.Message(code=aiocoap.CHANGED)

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(code=aiocoap.CONTENT, payload=self.taken[-1] if self.taken else b"none yet")


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def their_client(stack: AsyncExitStack) -> aiocoap.Context:
    context = await aiocoap.Context.create_client_context()
    stack.push_async_callback(context.shutdown)
    return context


async def their_server(stack: AsyncExitStack) -> tuple[Status, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    site, status = resource.Site(), Status()
    site.add_resource(PATH, status)
    context = await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", port), transports=["udp6"])
    stack.push_async_callback(context.shutdown)
    return status, port


async def our_gateway(stack: AsyncExitStack) -> tuple[Sink, int]:
    sink = Sink()
    protocol = Coap()
    intake = protocol.intake(Endpoint("127.0.0.1", 0), protocol.modes["con"], sink, IntakeSettings())
    sink.intake = intake
    await intake.open()
    stack.push_async_callback(intake.close)
    return sink, intake.endpoint()[1]


async def our_vehicle(stack: AsyncExitStack, port: int, mode: str, **settings: Any) -> tuple[Any, Events]:
    events, protocol = Events(), Coap()
    client = protocol.vehicle_client(
        Endpoint("127.0.0.1", port), 1, protocol.modes[mode], events, VehicleSettings(**settings)
    )
    await client.connect()
    stack.push_async_callback(client.close)
    return client, events


def tuning(mode: str) -> aiocoap.TransportTuning:
    return aiocoap.Reliable() if mode == "con" else aiocoap.Unreliable()


@pytest.mark.parametrize("mode", ["con", "non"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("delay_s", [0.0, 0.3], ids=["piggybacked", "separate"])
async def test_aiocoaps_client_uploads_to_our_gateway(
    stack: AsyncExitStack, mode: str, size: int, delay_s: float
) -> None:
    sink, port = await our_gateway(stack)
    sink.delay_s = delay_s
    context = await their_client(stack)
    payload = os.urandom(size)
    request = aiocoap.Message(
        code=aiocoap.POST, payload=payload, uri=f"coap://127.0.0.1:{port}/{'/'.join(PATH)}",
        transport_tuning=tuning(mode),
    )  # fmt: skip
    async with asyncio.timeout(WAIT_S):
        response = await context.request(request).response
    assert response.code == aiocoap.CHANGED
    assert sink.taken == [payload]


@pytest.mark.parametrize("mode", ["con", "non"])
@pytest.mark.parametrize("delay_s", [0.0, 0.3], ids=["piggybacked", "separate"])
async def test_our_vehicle_uploads_to_aiocoaps_server(
    stack: AsyncExitStack, mode: str, delay_s: float
) -> None:
    status, port = await their_server(stack)
    status.delay_s = delay_s
    client, events = await our_vehicle(stack, port, mode)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        await events.until(client.ready)
        client.send(token, payload)
        await events.until(lambda t=token: t in events.acked)
    assert (status.taken, events.gone) == (payloads, [])
    assert set(status.kinds) == {mode.upper()}


@pytest.mark.parametrize("block_bytes", [16, 256, None])
async def test_aiocoaps_server_takes_blocks_of_every_size_and_none(
    stack: AsyncExitStack, block_bytes: int | None
) -> None:
    status, port = await their_server(stack)
    client, events = await our_vehicle(stack, port, "con", coap_block_bytes=block_bytes)
    payload = os.urandom(1157)
    client.send(1, payload)
    await events.until(lambda: events.acked == [1])
    assert status.taken == [payload]


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_our_observer_follows_aiocoaps_server(stack: AsyncExitStack, mode: str) -> None:
    status, port = await their_server(stack)
    client, events = await our_vehicle(stack, port, mode)
    protocol = Coap()
    observer = protocol.subscriber(
        Endpoint("127.0.0.1", port), 1, protocol.modes[mode], events, VehicleSettings()
    )
    await observer.open()
    stack.push_async_callback(observer.close)
    for token, payload in enumerate((b"first", os.urandom(2500), b"third")):
        client.send(token, payload)
        await events.until(lambda p=payload: p in events.payloads)
        await events.until(lambda t=token: t in events.acked)
    assert status.taken == events.payloads


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_aiocoaps_client_observes_our_echo_server(stack: AsyncExitStack, mode: str) -> None:
    server = CoapEcho(Endpoint("127.0.0.1", 0), con=mode == "con")
    await server.open()
    stack.push_async_callback(server.close)
    port = server.endpoint()[1]
    context = await their_client(stack)
    observing = aiocoap.Message(code=aiocoap.GET, uri=f"coap://127.0.0.1:{port}/{'/'.join(PATH)}", observe=0)
    request = context.request(observing)
    async with asyncio.timeout(WAIT_S):
        await request.response
    client, events = await our_vehicle(stack, port, mode)
    notifications = aiter(request.observation)
    for token, payload in enumerate((b"first", os.urandom(2500))):
        client.send(token, payload)
        async with asyncio.timeout(WAIT_S):
            seen = await anext(notifications)
        assert seen.payload == payload
        await events.until(lambda t=token: t in events.acked)
    request.observation.cancel()


async def test_our_vehicle_puts_the_same_bytes_on_the_wire_as_aiocoaps_client(stack: AsyncExitStack) -> None:
    """But for Message ID and token, which are each end's own; and Uri-Host, which a literal address needs not."""
    heard = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.setblocking(False)
        port = silent.getsockname()[1]
        client, _ = await our_vehicle(stack, port, "con")
        client.send(1, b"payload")
        context = await their_client(stack)
        uri = f"coap://127.0.0.1:{port}/{'/'.join(PATH)}"
        theirs = context.request(aiocoap.Message(code=aiocoap.POST, payload=b"payload", uri=uri))
        for _ in range(2):
            async with asyncio.timeout(WAIT_S):
                heard.append(await asyncio.get_running_loop().sock_recv(silent, 2000))
        theirs.response.cancel()
    ours, their = ((d[0] & 0xF0, d[1], d[4 + (d[0] & 15) :]) for d in heard)
    assert ours == their


@pytest.mark.broker
@pytest.mark.parametrize("words", [[], ["-N"], ["-b", "64"], ["-N", "-b", "256"]], ids=" ".join)
async def test_libcoaps_client_uploads_to_our_gateway(stack: AsyncExitStack, words: list[str]) -> None:
    sink, port = await our_gateway(stack)
    payload = os.urandom(900).hex()[:700]
    uri = f"coap://127.0.0.1:{port}/{'/'.join(PATH)}"
    code, text = await libcoap("-m", "post", "-e", payload, "-v", "7", *words, uri)
    assert code == 0
    assert "2.04" in text
    assert sink.taken == [payload.encode()]


@pytest.mark.broker
async def test_libcoaps_client_observes_our_echo_server(stack: AsyncExitStack) -> None:
    server = CoapEcho(Endpoint("127.0.0.1", 0), con=True)
    await server.open()
    stack.push_async_callback(server.close)
    port = server.endpoint()[1]
    uri = f"coap://127.0.0.1:{port}/{'/'.join(PATH)}"
    observing = asyncio.ensure_future(libcoap("-m", "get", "-s", "2", uri))
    async with asyncio.timeout(WAIT_S):
        while not server.observers():
            await asyncio.sleep(0.01)
    client, events = await our_vehicle(stack, port, "con")
    client.send(1, b"seen by libcoap")
    await events.until(lambda: events.acked == [1])
    code, text = await observing
    assert code == 0
    assert "seen by libcoap" in text


async def libcoap(*words: str) -> tuple[int, str]:
    """Run libcoap's client; return its exit code and all it printed."""
    process = await asyncio.create_subprocess_exec(
        "coap-client-notls",
        "-B",
        "10",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(WAIT_S):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")
