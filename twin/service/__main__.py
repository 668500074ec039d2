"""`python -m twin.service CONFIG.json`: the service as a child process, ruled by lines of JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from schemas.config import read_config
from schemas.control import emit
from schemas.errors import Refusal
from schemas.loop_commands import Commands, stop_on_signal
from schemas.outlet import log_to_stderr
from twin.service.config import ServiceConfig
from twin.service.server import ReaderDiedError, TwinService

PROGRESS_S: Final = 1.0


async def serve(config: ServiceConfig) -> None:
    """Serve until the owner says stop, dies, or sends SIGTERM."""
    stop = asyncio.Event()
    stop_on_signal(stop)
    async with TwinService(config) as service:
        emit("ready", url=service.url, host=config.host, port=service.port)
        tasks = [asyncio.create_task(_obey(service, stop)), asyncio.create_task(_report(service))]
        try:
            await service.until(stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        progress = service.progress()
    emit("done", **progress)


async def _obey(service: TwinService, stop: asyncio.Event) -> None:
    commands = await Commands.open("status", "stop")
    while (command := await commands.next()) is not None and command["command"] == "status":
        emit("progress", **service.progress())
    stop.set()


async def _report(service: TwinService) -> None:
    last: dict[str, object] = {}
    while True:
        await asyncio.sleep(PROGRESS_S)
        now = service.progress()
        if now != last:
            emit("progress", **now)
            last = now


def main(arguments: list[str]) -> int:
    """Return 0 after an ordered end, 2 for bad input, 1 when the service could not go on."""
    if len(arguments) != 1:
        print("usage: python -m twin.service CONFIG.json", file=sys.stderr)
        return 2
    log_to_stderr("%(asctime)s %(message)s")
    try:
        asyncio.run(serve(read_config(arguments[0], ServiceConfig)))
    except Refusal as error:
        emit("error", message=str(error))
        print(error, file=sys.stderr)
        return 2
    except ReaderDiedError as error:
        emit("error", message=str(error))
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
