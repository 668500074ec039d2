"""Both of our OSCORE ends against aiocoap's own, whole and in blocks: the same bytes on the wire mean the same to it.

aiocoap keeps its contexts in directories; ours are in memory. The vectors of RFC 8613's appendix C are aiocoap's affair:
keys are derived and messages encrypted by it on both sides.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap import resource
from aiocoap.credentials import CredentialsMap
from aiocoap.oscore_sitewrapper import OscoreSiteWrapper

from gateways.protocols.base import Endpoint, IntakeSettings, SharedKeys, VehicleSettings
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.oscore import sender_id
from gateways.protocols.coap.protocol import Coap
from schemas.topics import vehicle_id

WAIT_S = 20.0
ONE = vehicle_id(1)
SIZES = [1, 1000, 1025, 3000]


class Sink:
    """The bridge."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
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
        assert vehicle == ONE
        self.taken.append(payload)
        self.intake.acknowledge(receipt)

    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...


class Events:
    """The sender."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self._changed = asyncio.Event()

    def acknowledged(self, token: int, at_ns: int) -> None:
        self.acked.append(token)
        self._changed.set()

    def refused(self, token: int, reason: str) -> None:
        raise AssertionError(f"message {token}: {reason}")

    unanswered = refused

    def connected(self, at_ns: int, session_present: bool) -> None: ...

    def writable(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Status(resource.Resource):
    """A resource of aiocoap's own server."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []

    async def render_post(self, request: aiocoap.Message) -> aiocoap.Message:
        self.taken.append(request.payload)
        return aiocoap.Message(code=aiocoap.CHANGED)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
def keys(tmp_path: Path) -> SharedKeys:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({ONE: secrets.token_hex(16)}))
    return SharedKeys(str(file))


def theirs(keys: SharedKeys, directory: Path, *, client: bool) -> dict[str, Any]:
    """Return aiocoap's description of the same context, from the vehicle's side or from the gateway's."""
    directory.mkdir()
    ids = {"sender-id_hex": sender_id(1).hex(), "recipient-id_hex": ""}
    if not client:
        ids = {"sender-id_hex": "", "recipient-id_hex": sender_id(1).hex()}
    key = json.loads(Path(keys.file).read_text())[ONE]
    settings = {**ids, "secret_hex": key, "algorithm": "AES-CCM-16-64-128", "kdf-hashfun": "sha256"}
    (directory / "settings.json").write_text(json.dumps(settings))
    return {"oscore": {"basedir": f"{directory}/"}}


@pytest.mark.parametrize("size", SIZES)
async def test_aiocoaps_client_uploads_to_our_gateway(
    stack: AsyncExitStack, keys: SharedKeys, tmp_path: Path, size: int
) -> None:
    sink, protocol = Sink(), Coap()
    intake = protocol.intake(
        Endpoint("127.0.0.1", 0, keys=keys),
        protocol.modes["con"],
        sink,  # type: ignore[arg-type]
        IntakeSettings(),
    )
    sink.intake = intake
    await intake.open()
    stack.push_async_callback(intake.close)
    root = f"coap://127.0.0.1:{intake.endpoint()[1]}"
    context = await aiocoap.Context.create_client_context(transports=["oscore", "udp6"])
    stack.push_async_callback(context.shutdown)
    context.client_credentials.load_from_dict({f"{root}/*": theirs(keys, tmp_path / "theirs", client=True)})
    for _ in range(2):
        payload = os.urandom(size)
        uri = f"{root}/{'/'.join(coap_path(ONE))}"
        request = aiocoap.Message(code=aiocoap.POST, payload=payload, uri=uri)
        async with asyncio.timeout(WAIT_S):
            response = await context.request(request).response
        assert response.code == aiocoap.CHANGED
        assert sink.taken.pop() == payload
    assert intake.counters()["oscore_echoed"] == 1
    assert sink.taken == []


@pytest.mark.parametrize("mode", ["con", "non"])
async def test_our_vehicle_uploads_to_aiocoaps_server(
    stack: AsyncExitStack, keys: SharedKeys, tmp_path: Path, mode: str
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    site, status, credentials = resource.Site(), Status(), CredentialsMap()
    site.add_resource(coap_path(ONE), status)
    credentials.load_from_dict({":vehicle": theirs(keys, tmp_path / "theirs", client=False)})
    guarded = OscoreSiteWrapper(site, credentials)
    context = await aiocoap.Context.create_server_context(
        guarded, bind=("127.0.0.1", port), transports=["udp6"]
    )
    stack.push_async_callback(context.shutdown)
    events, protocol = Events(), Coap()
    client = protocol.vehicle_client(
        Endpoint("127.0.0.1", port, keys=keys),
        1,
        protocol.modes[mode],
        events,  # type: ignore[arg-type]
        VehicleSettings(),
    )
    await client.connect()
    stack.push_async_callback(client.close)
    payloads = [os.urandom(size) for size in SIZES]
    for token, payload in enumerate(payloads):
        await events.until(client.ready)
        client.send(token, payload)
        await events.until(lambda t=token: t in events.acked)
    assert status.taken == payloads
