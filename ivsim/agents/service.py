"""`ivsim agent`: takes one coordinator at a time that knows the token, and runs senders for it; refuses all others."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Final, Self

from ivsim.agents.address import Address
from ivsim.agents.login import difference, new_nonce, proof, proves
from ivsim.agents.messages import (
    MAX_LINE_BYTES,
    MAX_LOGIN_BYTES,
    PROTOCOL,
    Hello,
    Login,
    Message,
    ProtocolError,
    Refused,
    Welcome,
    line_of,
    message_of,
)
from ivsim.agents.session import Session
from schemas.errors import Refusal
from schemas.outlet import ERR

LOGIN_S: Final = 10.0
MAX_CONNECTIONS: Final = 16


class Agent:
    """Listens for coordinators; an asynchronous context manager, at whose end nothing that it started is left.

    Args:
        address: to listen at; port 0 takes a free one.
        token: that a coordinator has to know.
        version: of this code, which must be the coordinator's too.
    """

    def __init__(self, address: Address, token: str, version: str) -> None:
        self.address, self._token, self._version = address, token, version
        self._busy_with = ""
        self._taken: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._take, self.address.host, self.address.port, limit=MAX_LINE_BYTES
            )
        except OSError as error:
            raise Refusal(f"--listen {self.address}: {error.strerror or error}") from None
        self.address = Address(self.address.host, self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._taken):
            task.cancel()
        await asyncio.gather(*self._taken, return_exceptions=True)
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._taken) >= MAX_CONNECTIONS:
            # Each may send megabytes before it has logged in.
            writer.transport.abort()
            return
        self._taken.add(task)
        who = _name_of(writer)
        try:
            await self._serve(reader, writer, who)
        except OSError:
            pass  # it is gone
        except asyncio.CancelledError:
            writer.transport.abort()  # what it does not read is not waited for
            raise
        finally:
            self._taken.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: str) -> None:
        try:
            async with asyncio.timeout(LOGIN_S):
                welcome = await self._logged_in(reader, writer)
        except (Refusal, ProtocolError, TimeoutError) as error:
            reason = str(error) or f"no login within {LOGIN_S:g} s"
            _say(f"refused {who}: {reason}")
            await _send(writer, Refused(reason=reason))
            return
        if self._busy_with:
            _say(f"refused {who}: busy with {self._busy_with}")
            await _send(writer, Refused(reason=f"it is busy with the run of {self._busy_with}"))
            return
        self._busy_with = who
        try:
            await _send(writer, welcome)
            _say(f"coordinator {who}: {await Session(reader, writer).run()}")
        finally:
            self._busy_with = ""

    async def _logged_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Welcome:
        """Return the welcome for a coordinator of the same code that knows the token; Refusal for all others."""
        nonce = new_nonce()
        await _send(writer, Hello(protocol=PROTOCOL, version=self._version, nonce=nonce))
        try:
            line = await reader.readline()
        except ValueError:  # it is longer than any message
            raise ProtocolError("no login") from None
        if not line or len(line) > MAX_LOGIN_BYTES:
            raise ProtocolError("no login")
        message = message_of(line)
        if not isinstance(message, Login):
            raise ProtocolError(f"{message.type}: no login")
        if (another := difference(message, self._version)) is not None:
            raise Refusal(another)
        if not proves(message.proof, self._token, "coordinator", nonce, message.nonce):
            raise Refusal("it does not know the token of this agent")
        return Welcome(
            proof=proof(self._token, "agent", nonce, message.nonce),
            name=socket.gethostname(),
            cores=len(os.sched_getaffinity(0)),
            open_files=_open_files(),
        )


def _open_files() -> int:
    """Return how many files a sender may have open, 0 where there is no limit; it inherits the most that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 0 if hard == resource.RLIM_INFINITY else hard


async def _send(writer: asyncio.StreamWriter, message: Message) -> None:
    writer.write(line_of(message))
    await writer.drain()


def _name_of(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(Address(str(peer[0]), int(peer[1]))) if peer else "somebody"


def _say(words: str) -> None:
    ERR.write(f"ivsim: {words}\n", 0.0)
