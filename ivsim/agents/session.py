"""One coordinator's run on an agent: its senders, from the first to the last word; nothing of it stays behind."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from ivsim.agents.hosted import HostedSender, sender_config
from ivsim.agents.messages import (
    Bye,
    Clock,
    Command,
    Ended,
    Message,
    ProtocolError,
    StartSender,
    line_of,
    message_of,
)
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal

# A coordinator asks for the time each second; one of which nothing is heard for so long is gone.
SILENCE_S: Final = 10.0
_LOG_PERIOD_S: Final = 0.1


class Session:
    """The senders of one coordinator.

    Args:
        reader: what the coordinator says.
        writer: to it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._senders: dict[int, HostedSender] = {}
        self._over: set[int] = set()

    async def run(self) -> str:
        """Serve until the coordinator takes its leave or is gone; return in words which it was. All is closed then."""
        identity = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-agent-{secrets.token_hex(3)}"
        async with AsyncExitStack() as stack:
            work = Path(tempfile.mkdtemp(prefix="ivsim-agent-"))
            stack.callback(shutil.rmtree, work, ignore_errors=True)
            record = RunRecord(identity, work)
            stack.callback(record.close)
            record.scratch(work)
            stack.push_async_callback(self._stop_senders)
            tasks = [asyncio.ensure_future(self._speak()), asyncio.ensure_future(self._follow())]
            stack.push_async_callback(_cancelled, tasks)
            listening = asyncio.ensure_future(self._listen(record))
            stack.push_async_callback(_cancelled, [listening])
            done, _ = await asyncio.wait([*tasks, listening], return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening in done else str(next(iter(done)).exception())

    async def _listen(self, record: RunRecord) -> str:
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    line = await self._reader.readline()
            except TimeoutError:
                return f"nothing heard of it for {SILENCE_S:g} s"
            except (OSError, ValueError) as error:  # a line that is too long is a ValueError
                return f"the connection broke: {error}"
            received_at_ns = time.time_ns()
            if not line:
                return "it is gone"
            try:
                message = message_of(line)
            except ProtocolError as error:
                return f"it said what is no message: {error}"
            if isinstance(message, Bye):
                return "it is done"
            await self._take(message, received_at_ns, record)

    async def _take(self, message: Message, received_at_ns: int, record: RunRecord) -> None:
        match message:
            case Clock():
                answer = Clock(
                    sent_at_ns=message.sent_at_ns,
                    received_at_ns=received_at_ns,
                    answered_at_ns=time.time_ns(),
                )
                self._writer.write(line_of(answer))
            case StartSender():
                self._start(message, record)
            case Command() if message.sender in self._senders:
                await self._senders[message.sender].command(message.command)
            case _:
                pass  # a sender that has ended meanwhile, or a word that is not a coordinator's

    def _start(self, message: StartSender, record: RunRecord) -> None:
        number = message.sender
        if number in self._senders:
            return
        try:
            config = sender_config(message.config, record.directory / f"emissions-{number}.events")
            self._senders[number] = HostedSender(number, config, record, self._said)
        except (Refusal, OSError) as error:
            self._said.put_nowait(Ended(sender=number, exit_code=2, words=str(error)))

    async def _speak(self) -> None:
        """Send what there is to say, as fast as the coordinator takes it."""
        while True:
            self._writer.write(line_of(await self._said.get()))
            await self._writer.drain()

    async def _follow(self) -> None:
        """Say what the logs gain, and which sender has ended."""
        while True:
            await asyncio.sleep(_LOG_PERIOD_S)
            for number, sender in self._senders.items():
                if number not in self._over:
                    sender.send_log()
                    if await sender.ended():
                        self._over.add(number)

    async def _stop_senders(self) -> None:
        await asyncio.gather(*(sender.stop() for sender in self._senders.values()))


async def _cancelled(tasks: list[asyncio.Task[None]] | list[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
