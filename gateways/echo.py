"""`python -m gateways coap-echo --config FILE`: the CoAP server of the echo topology; it has no Kafka."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gateways import namespace
from gateways.protocols.base import ConnectError, Endpoint
from gateways.protocols.coap import Coap
from gateways.protocols.coap_echo import CoapEcho
from schemas.config import read_config
from schemas.control import Commands, emit
from schemas.errors import Refusal

_PROGRESS_S = 0.5


class EchoConfig(BaseModel):
    """What the process is told.

    Attributes:
        mode: one of CoAP's; notifications are confirmable in `con`.
        namespace: a name under /run/netns, or a path, to stand in towards the vehicles; None stays.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    port: Annotated[int, Field(ge=0, le=65_535)]
    mode: str = Coap.default_mode
    namespace: str | None = None


def read_echo_config(path: Path) -> EchoConfig:
    """Return the checked configuration; Refusal names the file, the key and what is wrong with it."""
    config = read_config(path, EchoConfig)
    if config.mode not in Coap.modes:
        raise Refusal(f"{path}: mode {config.mode!r}: allowed with coap-echo {', '.join(Coap.modes)}")
    return config


async def run(config: EchoConfig) -> int:
    """From `ready` to `done`, by the line protocol of schemas.control; return the exit code."""
    if config.namespace is not None:
        namespace.enter(config.namespace)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = CoapEcho(Endpoint(config.host, config.port), con=Coap.modes[config.mode].options["con"])
    try:
        await server.open()
    except ConnectError as error:
        raise Refusal(str(error)) from None
    host, port = server.endpoint()
    emit("ready", host=host, port=port)
    tasks = [asyncio.ensure_future(_obey(stop)), asyncio.ensure_future(_report(server))]
    try:
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.close()
    emit("done", **server.counters())
    return 0


async def _obey(stop: asyncio.Event) -> None:
    """Follow the owner's commands; the end of the pipe means that the owner is gone."""
    commands = await Commands.open()
    while (command := await commands.next()) is not None:
        if command.get("command") == "stop":
            break
    stop.set()


async def _report(server: CoapEcho) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", observers=server.observers(), **server.counters())
