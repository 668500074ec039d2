"""One twin service from start to stop: socket, reader, HTTP server; gives all of it back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from starlette.types import ASGIApp

from schemas.errors import Refusal
from twin.service.api import make_app
from twin.service.config import ServiceConfig, token_for
from twin.service.connection import KEEP_ALIVE_S, Connection
from twin.service.fleet import Fleet
from twin.service.live_metrics import Figures
from twin.service.queries import Ask
from twin.service.reader import Reader
from twin.service.stream import Changed

STOP_S: Final = 3
LOOK_S: Final = 1.0


class ReaderDiedError(RuntimeError):
    """The service no longer reads Kafka and cannot: its twins would stand still."""


class _Server(uvicorn.Server):
    """Signals belong to whoever owns the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class TwinService:
    """`async with TwinService(config) as service`: it listens when that returns; `service.url` says where."""

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self._token = token_for(config)
        self.fleet, self.figures = Fleet(config), Figures(config.max_vehicles)
        ask = Ask(config, self.fleet, self.figures)
        self._socket = _bound(config)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.url = f"http://{host}:{self.port}/"
        self._changed = Changed()
        self.reader = Reader(config, self.fleet, self.figures, self._changed.announce)
        app = make_app(ask, self._changed, self.reader, self._token, self.port)
        self._server = _Server(settings(app))
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._changed.open()
        self.reader.__enter__()
        await asyncio.to_thread(self.reader.looked.wait)
        if self.reader.refusal is not None:
            await self.__aexit__(None, None, None)
            raise self._refusal()
        self._serving = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._changed.close()
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        await asyncio.to_thread(self.reader.close)
        self._socket.close()

    def _refusal(self) -> Refusal:
        return Refusal(f"{self.reader.refusal}; --wait starts before the run")

    async def until(self, stop: asyncio.Event) -> None:
        """Return once `stop` is set; ReaderDiedError when what reads Kafka ended before.

        Refusal when a Kafka that was away at the start has no such topics.
        """
        while not stop.is_set():
            if self.reader.refusal is not None:
                raise self._refusal()
            if self.reader.failure is not None:
                raise ReaderDiedError(self.reader.failure)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_S)

    async def caught_up(self, timeout_s: float) -> bool:
        """Return once the fleet was rebuilt from the compacted topic; False after `timeout_s`."""
        return await asyncio.to_thread(self.reader.caught_up.wait, timeout_s)

    def progress(self) -> dict[str, Any]:
        """Return the service's counts, for its owner."""
        return {
            "vehicles": len(self.fleet),
            "records": self.fleet.records,
            "bad_records": sum(self.fleet.bad.values()),
            "streams": self._changed.streams,
        }


def settings(app: ASGIApp) -> uvicorn.Config:
    """Return how uvicorn serves: its log goes by the process's own, as its own handler waits for whoever does not read."""
    return uvicorn.Config(
        app, http=Connection, log_config=None, log_level="warning", access_log=False, server_header=False,
        lifespan="off", ws="none", timeout_graceful_shutdown=STOP_S, timeout_keep_alive=KEEP_ALIVE_S,
    )  # fmt: skip


def _bound(config: ServiceConfig) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Refusal(f"host {config.host}: {error.strerror}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        raise Refusal(f"{config.host}:{config.port}: {error.strerror}") from error
    made.setblocking(False)
    return made
