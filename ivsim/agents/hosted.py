"""A sender process that an agent has started for a coordinator: its events, its log as it grows, its end."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from ivsim.agents.messages import LOG_BYTES_AT_ONCE, WORDS_CHARACTERS, Ended, Event, Log, Message
from ivsim.testbed.child import Child, write_config
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.config import checked
from schemas.errors import Refusal
from schemas.last_words import end_of
from simulator.emission_log import RECORD
from simulator.sender_config import SenderConfig

_CONFIG: Final = "start_sender"
_STOP_S: Final = 15.0
_WORDS_LINES: Final = 200


def sender_config(words: dict[str, Any], events_path: Path) -> SenderConfig:
    """Return what a coordinator asks for, with a log of the agent's own.

    Refusal for what is no configuration, and for one that names files: those are on the coordinator's machine.
    """
    config = checked({**words, "events_path": str(events_path)}, SenderConfig, _CONFIG)
    files = {
        "tls": config.tls,
        "keys": config.keys,
        "certificates": config.certificates,
        "scenario.vehicle_log": config.scenario.vehicle_log,
        "scenario.vehicle_mapping": config.scenario.vehicle_mapping,
    }
    for key, value in files.items():
        if value is not None:
            raise Refusal(f"{_CONFIG}: {key}: names a file, and an agent has none of the coordinator's")
    if config.bind_addresses:
        raise Refusal(f"{_CONFIG}: bind_addresses: vehicles of an agent have no addresses of their own")
    return config


class HostedSender:
    """One sender process and what it has come to.

    Args:
        number: by which the coordinator knows it.
        config: what it is told.
        record: of the session, whose directory takes its files.
        said: takes what there is to tell the coordinator, in the event loop's thread.

    It is made in the main thread, whose death its process does not outlive.
    """

    def __init__(
        self, number: int, config: SenderConfig, record: RunRecord, said: asyncio.Queue[Message]
    ) -> None:
        self.number, self._said = number, said
        self._loop = asyncio.get_running_loop()
        self._log, self._sent_bytes = Path(config.events_path), 0
        name = f"sender-{number}"
        path = record.directory / f"{name}.json"
        write_config(path, config)
        self._child = Child(name, ["simulator.sender", str(path)], record, on_event=self._on_event)
        self._stopping: asyncio.Task[int] | None = None

    def _on_event(self, event: dict[str, Any]) -> None:
        """Hand on an event, which the reader's thread brings; a loop that is closed wants none any more."""
        message = Event(sender=self.number, event=event)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._said.put_nowait, message)

    async def command(self, words: dict[str, Any]) -> None:
        """Hand on a command; one that is told to stop is stopped, whatever it does about it."""
        if words.get("command") == "stop":
            self.begin_to_stop()
        elif self._child.running():
            fields = {key: value for key, value in words.items() if key != "command"}
            await asyncio.to_thread(_send, self._child, str(words.get("command")), fields)

    def begin_to_stop(self) -> None:
        """Let the process end, at the latest by force; its log has everything then."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(asyncio.to_thread(self._child.stop, _STOP_S))

    async def stop(self) -> None:
        """Return once the process has ended; it is ended also where nobody waits for it any more."""
        self.begin_to_stop()
        assert self._stopping is not None
        await asyncio.shield(self._stopping)

    def send_log(self) -> None:
        """Say what the log has gained, in whole records."""
        while records := self._gained():
            self._said.put_nowait(Log.of(self.number, records))

    def _gained(self) -> bytes:
        try:
            with self._log.open("rb") as file:
                file.seek(self._sent_bytes)
                found = file.read(LOG_BYTES_AT_ONCE)
        except FileNotFoundError:
            return b""
        whole = found[: len(found) // RECORD.size * RECORD.size]
        self._sent_bytes += len(whole)
        return whole

    async def ended(self) -> bool:
        """Say whether the process has ended; then all that its log has is said, and how it ended."""
        if self._child.running() or (self._stopping is not None and not self._stopping.done()):
            return False
        await self.stop()
        code = self._child.popen.returncode
        self.send_log()
        words = "" if code == 0 else end_of(self._child.last_words(), _WORDS_LINES)[-WORDS_CHARACTERS:]
        self._said.put_nowait(Ended(sender=self.number, exit_code=code, words=words))
        return True


def _send(child: Child, command: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(ProcessDied):  # its end is said by itself
        child.send(command, **fields)
