"""The life of one connection, the same for every client and gateway: down, dialling, up, and down again until closed.

A connection that nobody watches is how a vehicle falls silent. The usual way to reconnect is to start a task when a
callback says "lost". It fails when the loss comes at a moment that its author did not think of: inside the callback
that says "connected", before the first task has ended, twice, or as an exception of another kind. The vehicle then
stays offline for the rest of the run, and its messages look like the network's loss.

Here nothing depends on when a callback comes. `ConnectionState` is a pure automaton in which *lost* is legal in every
phase, and `KeptConnection` is one task per connection that looks at the phase, not at events: as long as it is not
closed and not up, it dials. Each attempt has a number, its *generation*. What belongs to one connection (receipts,
timers, callbacks of an old socket) carries that number, and `current` tells whether it still means anything.

Expected failures are `ConnectError`. Any other exception goes to the event loop's exception handler, which ends the
process with the reason: a process that goes on with one connection missing reports wrong numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from gateways.protocols.backoff import Backoff
from gateways.protocols.ends import ConnectError


class Phase(enum.Enum):
    """Where a connection is in its life."""

    DOWN = "down"
    DIALLING = "dialling"
    UP = "up"
    CLOSED = "closed"


class ConnectionState:
    """The automaton; it knows neither time nor sockets.

        DOWN --dial--> DIALLING --accepted--> UP        close: from each phase to CLOSED, which is final
         ^                 |                   |
         +------lost-------+--------lost-------+

    Attributes:
        generation: the number of the newest attempt; 0 before the first.
        accepted_generation: the number of the newest attempt that the peer accepted; 0 before the first.
    """

    __slots__ = ("accepted_generation", "generation", "phase")

    def __init__(self) -> None:
        self.phase = Phase.DOWN
        self.generation = 0
        self.accepted_generation = 0

    def dial(self) -> int:
        """Begin an attempt and return its generation. ValueError unless the connection is down."""
        if self.phase is not Phase.DOWN:
            raise ValueError(f"cannot dial: the connection is {self.phase.value}")
        self.phase = Phase.DIALLING
        self.generation += 1
        return self.generation

    def accepted(self, generation: int) -> bool:
        """The peer has accepted; return False when this attempt was lost or closed before."""
        if self.phase is Phase.DIALLING and generation == self.generation:
            self.phase = Phase.UP
            self.accepted_generation = generation
        return self.phase is Phase.UP and generation == self.generation

    def lost(self, generation: int) -> Phase:
        """End that generation; return the phase it was in, DOWN or CLOSED when it had ended before."""
        before = self.phase
        if before is Phase.CLOSED:
            return before
        if before is Phase.DOWN or generation != self.generation:
            return Phase.DOWN
        self.phase = Phase.DOWN
        return before

    def close(self) -> None:
        """Never dial again; idempotent."""
        self.phase = Phase.CLOSED

    def current(self, generation: int) -> bool:
        """Say whether what carries this generation belongs to the connection that there is now."""
        return generation == self.generation and self.phase in {Phase.DIALLING, Phase.UP}


class ConnectionEvents(typing.Protocol):
    """Whoever owns a kept connection; called from the event loop's thread."""

    def dialling(self) -> None:
        """An attempt begins."""

    def dial_failed(self, error: ConnectError) -> None:
        """The attempt has failed; another one follows after a wait."""

    def connection_lost(self, reason: str) -> None:
        """A connection that was up is gone; an attempt follows after a wait."""


class KeptConnection:
    """Keeps one connection up until it is closed.

    Args:
        name: for the message of an error that nobody expected ("vehicle 7").
        dial: makes one attempt, given its generation. It returns once the peer has accepted, raises ConnectError
            otherwise, limits its own time, and leaves nothing open when it raises or is cancelled.
        gate: how many connections of this process may dial at once; None sets no limit.
        lasting_s: for which a connection must stay up before the waits begin anew, unless it has proved useful before. 0: that
            the peer accepts is enough, also if it closes every connection at once.
    """

    def __init__(
        self,
        name: str,
        dial: Callable[[int], Awaitable[None]],
        events: ConnectionEvents,
        *,
        backoff: Backoff,
        gate: asyncio.Semaphore | None = None,
        lasting_s: float = 0.0,
    ) -> None:
        self.state = ConnectionState()
        self._name = name
        self._dial = dial
        self._events = events
        self._backoff = backoff
        self._gate: contextlib.AbstractAsyncContextManager[object] = gate or contextlib.nullcontext()
        self._lasting_s = lasting_s
        self._reason = ""
        self._down = asyncio.Event()
        self._first: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make one attempt; once it has succeeded the connection is kept. Raises ConnectError."""
        await self._attempt()
        self._keep(dialled=True)

    def start(self) -> asyncio.Future[None]:
        """Dial until it works and keep the connection; the future ends with the first success."""
        self._first = asyncio.get_running_loop().create_future()
        self._keep(dialled=False)
        return self._first

    def stop(self) -> None:
        """Never dial again. Idempotent."""
        self.state.close()
        if self._task is not None:
            self._task.cancel()
        if self._first is not None:
            self._first.cancel()

    async def close(self) -> None:
        """Never dial again, and wait until an attempt under way has ended; what is open is its owner's. Idempotent."""
        self.stop()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def accepted(self) -> bool:
        """Note that the peer has accepted, for a `dial` that goes on after that; False when it is lost already."""
        return self.state.accepted(self.state.generation)

    def useful(self) -> None:
        """Note that the peer does what the connection is for: once it is lost, the waits begin anew."""
        self._backoff.reset()

    def lost(self, reason: str, generation: int | None = None) -> None:
        """The connection (of that generation) is gone; legal at any time, any number of times."""
        before = self.state.lost(self.state.generation if generation is None else generation)
        if before in {Phase.DIALLING, Phase.UP}:
            self._reason = reason
            self._down.set()
        if before is Phase.UP:
            self._events.connection_lost(reason)

    def _keep(self, *, dialled: bool) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep_up(dialled=dialled))
        self._task.add_done_callback(self._ended)

    async def _keep_up(self, *, dialled: bool) -> None:
        loop = asyncio.get_running_loop()
        up_at_s = loop.time()
        while True:
            if dialled:
                await self._down.wait()
                if (
                    self.state.accepted_generation == self.state.generation
                    and loop.time() - up_at_s >= self._lasting_s
                ):
                    self._backoff.reset()
                await asyncio.sleep(self._backoff.next_s())
            dialled = True
            try:
                await self._attempt()
            except ConnectError as error:
                self._events.dial_failed(error)
                continue
            up_at_s = loop.time()
            if self._first is not None and not self._first.done():
                self._first.set_result(None)

    async def _attempt(self) -> None:
        """Dial once; return when the peer has accepted, even if the connection is lost again by then."""
        failure: ConnectError | None = None
        async with self._gate:
            self._down.clear()
            generation = self.state.dial()
            self._events.dialling()
            try:
                await self._dial(generation)
            except ConnectError as error:
                failure = error
                self.lost(str(error), generation)
            except BaseException:
                self.state.lost(generation)
                raise
            self.state.accepted(generation)
        if self.state.accepted_generation != generation:
            raise failure or ConnectError(self._reason)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report an end that nobody asked for; `close` cancels the task."""
        error = None if task.cancelled() else task.exception()
        if error is None and self.state.phase is Phase.CLOSED:
            return
        context: dict[str, Any] = {
            "message": f"the connection of {self._name} is kept no longer",
            "task": task,
        }
        if error is not None:
            context["exception"] = error
        task.get_loop().call_exception_handler(context)
