"""`python -m gateways PROTOCOL-echo --config FILE`: what echoes where no broker does; it has no Kafka."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gateways.protocols.base import Endpoint, Protocol
from gateways.protocols.ends import ConnectError, EchoServer
from schemas.config import Strict, read_config
from schemas.control import emit
from schemas.errors import Refusal
from schemas.loop_commands import Commands, stop_on_signal
from schemas.namespace import enter

_PROGRESS_S = 0.5


class EchoConfig(Strict):
    """What the process is told.

    Attributes:
        mode: one of the protocol's; its default without.
        namespace: a name under /run/netns, or a path, to stand in towards the vehicles; None stays.
    """

    host: str
    port: Annotated[int, Field(ge=0, le=65_535)]
    mode: str | None = None
    namespace: str | None = None


def read_echo_config(path: Path, protocol: Protocol) -> EchoConfig:
    """Return the checked configuration; Refusal names the file, the key and what is wrong with it."""
    config = read_config(path, EchoConfig)
    if config.mode is None:
        return config.model_copy(update={"mode": protocol.default_mode})
    if config.mode not in protocol.modes:
        raise Refusal(
            f"{path}: mode {config.mode!r}: allowed with {protocol.name}-echo {', '.join(protocol.modes)}"
        )
    return config


async def run(config: EchoConfig, protocol: Protocol) -> int:
    """From `ready` to `done`, by the line protocol of schemas.control; return the exit code."""
    if config.namespace is not None:
        enter(config.namespace)
    stop = asyncio.Event()
    stop_on_signal(stop)
    server = protocol.echo_server(
        Endpoint(config.host, config.port), protocol.modes[config.mode or protocol.default_mode]
    )
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
    commands = await Commands.open("stop")
    await commands.next()
    stop.set()


async def _report(server: EchoServer) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", observers=server.observers(), **server.counters())
