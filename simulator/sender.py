"""`python -m simulator.sender CONFIG.json`: sends what is due when it is due, whatever became of the last.

It obeys its owner's commands and says what it has come to; its vehicles are a `Shard`, their schedule is an `OpenLoop`.
What is late all the same is not hidden: `emitted_at_ns` stands beside `due_at_ns` in the log, and the report shows the
lag. Latency counts from when a message was due.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from schemas.config import read_config
from schemas.control import emit, failure_line
from schemas.errors import Refusal
from schemas.loop_commands import Commands, stop_on_signal
from schemas.outlet import log_to_stderr
from simulator.background import first_of, in_background
from simulator.priority import go_first
from simulator.sender_config import SenderConfig
from simulator.shard import Shard

_PROGRESS_S = 0.5


async def run(config: SenderConfig) -> int:
    """Obey the owner until everything is sent, or told to stop, or alone."""
    scheduling = go_first()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    failures: list[str] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End rather than go on with a part missing: a silent vehicle would look like a lossy network."""
        loop.default_exception_handler(context)
        failures.append(failure_line(context))
        stop.set()

    loop.set_exception_handler(failed)
    stop_on_signal(stop)
    shard = Shard(config)
    tasks: list[asyncio.Task[Any]] = []
    try:
        opening = asyncio.ensure_future(shard.open())
        tasks.append(opening)
        await first_of(stop.wait(), asyncio.wait((opening,)))
        if not stop.is_set():
            connected = await opening
            emit("ready", vehicles=len(config.numbers()), connected=connected, scheduling=scheduling)
            tasks += [
                in_background("a command", _obey(shard, stop)),
                in_background("the progress report", _report(shard)),
            ]
            await first_of(stop.wait(), shard.finish())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await shard.close()
    if failures:
        emit("error", message=failures[0])
        return 1
    emit("done", stopped=stop.is_set(), cpu_s=shard.cpu_s(), **shard.numbers())
    return 0


async def _obey(shard: Shard, stop: asyncio.Event) -> None:
    commands = await Commands.open("start", "stop")
    while (command := await commands.next()) is not None and command["command"] == "start":
        shard.start(int(command["at_ns"]), int(command.get("clock_ahead_ns", 0)))
    stop.set()


async def _report(shard: Shard) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", **shard.numbers(), emission_lag_max_ns=shard.lag.take_max_ns())


def main(argv: list[str]) -> int:
    """Return 0 after the work or a stop, 2 for a refusal."""
    log_to_stderr("%(asctime)s %(name)s %(levelname)s %(message)s")
    if len(argv) != 1:
        emit("error", message="usage: python -m simulator.sender CONFIG.json")
        return 2
    try:
        return asyncio.run(run(read_config(argv[0], SenderConfig)))
    except Refusal as refusal:
        emit("error", message=str(refusal))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
