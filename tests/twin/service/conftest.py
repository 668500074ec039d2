"""Fleets in memory for tests without Kafka, and the headless browser."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright

from bench.twin_load import Fleet as Drivers
from bench.twin_load import state_headers
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from twin.service.api import make_app
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet, Record
from twin.service.live_metrics import Figures
from twin.service.queries import Ask
from twin.service.server import settings
from twin.service.stream import Changed

START_NS = 1_800_000_000_000_000_000
CHROMIUM = "/usr/bin/chromium"
CHROMIUM_OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Stand:
    """A fleet that tests write to, a clock that they move, and the application over both."""

    def __init__(self, vehicles: int = 5, format_name: str = "protobuf", **settings: Any) -> None:
        self.config = ServiceConfig(bootstrap="127.0.0.1:1", **settings)
        self.fleet, self.figures = Fleet(self.config), Figures(self.config.max_vehicles)
        self.now_ns = START_NS
        self.ask = Ask(self.config, self.fleet, self.figures, lambda: self.now_ns)
        self.changed = Changed()
        self.format = format_name
        self.drivers = Drivers(vehicles)
        self.vehicles = vehicles

    def record(self, k: int = 0, **headers: Any) -> Record:
        """Return vehicle k's next record, sampled now and 50 ms on its way."""
        status, sequence = self.drivers.status(k, self.now_ns)
        payload = FORMATS[self.format].encode(status)
        sampled = None if self.format == "small" else self.now_ns
        received = self.now_ns + 30_000_000
        words = {"format": self.format, "received_at_ns": received, "first_received_at_ns": START_NS,
                 "last_received_at_ns": received} | headers  # fmt: skip
        made = state_headers(sequence, sampled, **words)
        return Record(
            vehicle_id(k + 1).encode(), payload, list(made), (self.now_ns + 50_000_000) // 1_000_000
        )

    def take_all(self) -> None:
        self.fleet.take([self.record(k) for k in range(self.vehicles)])

    def client(self, token: str = "", host: str = "127.0.0.1") -> httpx.AsyncClient:
        app = make_app(self.ask, self.changed, None, token, 8080)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}:8080")


@dataclass
class Api:
    stand: Stand
    client: httpx.AsyncClient

    async def json(self, path: str, status: int = 200, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def stand() -> Callable[..., Stand]:
    return Stand


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Five vehicles, one state each, asked 200 ms after it was sampled."""
    stand = Stand()
    stand.take_all()
    stand.now_ns += 200_000_000
    async with stand.client() as client:
        yield Api(stand, client)


@dataclass
class Served:
    """A stand whose service answers on a port: the whole of it but Kafka's reader, which the test is."""

    stand: Stand
    url: str
    stop: Callable[[], None]

    def tell(self) -> None:
        self.stand.changed.announce()


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    opened: list[Served] = []

    def serve(stand: Stand) -> Served:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        app = make_app(stand.ask, stand.changed, None, "", port)
        server = uvicorn.Server(settings(app))
        ready = threading.Event()

        async def run() -> None:
            stand.changed.open()
            ready.set()
            await server.serve([listening])

        thread = threading.Thread(target=lambda: asyncio.run(run()))
        thread.start()
        assert ready.wait(30)

        def stop() -> None:
            server.should_exit = True
            thread.join()
            listening.close()

        opened.append(Served(stand, f"http://127.0.0.1:{port}/", stop))
        return opened[-1]

    yield serve
    for one in opened:
        one.stop()


# Of the module, not of the session: while it is open, playwright keeps an event loop marked as running in this
# thread, and whatever runs a loop of its own afterwards (pyroute2 does) is refused.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()
