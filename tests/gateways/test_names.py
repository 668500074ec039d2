"""A name whose resolver does not answer: nobody who waits for it stops the event loop, or waits for ever."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.amqp import intake as amqp_intake
from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.coap import datagram
from gateways.protocols.ends import ConnectError
from gateways.protocols.names import address_of

NAME = Endpoint("gateway.invalid", 5683)
LIMIT_S = 0.3


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """Have a resolver that answers nobody; return the threads in which it was asked."""
    threads: list[int] = []
    over = threading.Event()
    system = socket.getaddrinfo

    def silent(host: Any, *words: Any, flags: int = 0, **others: Any) -> Any:
        if host != NAME.host or flags & socket.AI_NUMERICHOST:
            return system(host, *words, flags=flags, **others)
        threads.append(threading.get_ident())
        over.wait(20)
        raise socket.gaierror("nobody answers")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    yield threads
    over.set()  # while there is a loop, whose end waits for the thread


async def turns(attempt: Any) -> int:
    """Return how often the loop turns until the attempt has failed, a hundred times a second."""
    task = asyncio.ensure_future(attempt)
    count = 0
    async with asyncio.timeout(10):
        while not task.done():
            await asyncio.sleep(0.01)
            count += 1
    with pytest.raises(ConnectError, match=r"no answer in 0\.3 s|no address in 0\.3 s"):
        await task
    return count


class Sink:
    def link(self, up: bool, reason: str) -> None: ...

    def turned_away(self, reason: str) -> None: ...


@pytest.mark.parametrize("end", ["gateway", "receiver"])
@pytest.mark.parametrize("name", ["amqp", "coap"])
async def test_a_resolver_that_does_not_answer_stops_nothing(
    name: str, end: str, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_intake, "CONNECT_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(datagram, "RESOLVE_S", LIMIT_S)
    protocol = PROTOCOLS[name]
    mode = protocol.modes[protocol.default_mode]
    if end == "gateway":
        attempt = protocol.intake(NAME, mode, Sink(), IntakeSettings()).open()
    else:
        settings = VehicleSettings(connect_timeout_s=LIMIT_S)
        attempt = protocol.subscriber(NAME, 1, mode, None, settings).open()
    assert await turns(attempt) >= 5
    assert threading.get_ident() not in asked
    assert len(asked) == 1


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
async def test_a_literal_needs_no_thread(
    host: str, family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(asyncio.BaseEventLoop, "getaddrinfo")
    found = await address_of(host, 5683, socket.SOCK_STREAM)
    assert (found[0], found[4][:2]) == (family, (host, 5683))


async def test_a_name_has_an_address() -> None:
    found = await address_of("localhost", 5683, socket.SOCK_DGRAM, socket.AF_INET)
    assert found[4] == ("127.0.0.1", 5683)
