"""Changes as server-sent events: each reader at its own pace; nothing is queued for anyone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from twin.service import decoded
from twin.service.errors import ApiError
from twin.service.fleet import Twin
from twin.service.live_metrics import VehicleFigures
from twin.service.queries import FIGURE_COLUMNS, Ask, figures_row
from twin.service.selection import Path, select
from twin.service.things import Thing, thing_id

SUMMARY_S: Final = 1.0
FIGURES_S: Final = 2.0
HEARTBEAT_S: Final = 15.0
# One event is small enough that decoding it does not hold up other requests.
EVENT_S: Final = 0.015
EVENT_ROWS: Final = 500


class Changed:
    """Tells readers on the event loop that the fleet changed; `announce` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._announced = False
        self.closing = False
        self.streams = 0

    def open(self) -> None:
        """Attach to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End all streams; on the event loop."""
        self.closing = True
        self._wake()

    def announce(self) -> None:
        """Wake all readers soon; many announcements are one."""
        if self._loop is not None and not self._announced and not self.closing:
            self._announced = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                self.closing = True  # the loop has ended

    def next(self) -> asyncio.Event:
        """Return the event of the next change; take it before looking at the fleet."""
        return self._event

    def _wake(self) -> None:
        self._announced = False
        event, self._event = self._event, asyncio.Event()
        event.set()


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def _event(name: str, body: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(body) + b"\n\n"


class Streams:
    """Makes the streams, and counts who listens."""

    def __init__(self, ask: Ask, changed: Changed) -> None:
        self._ask, self._changed = ask, changed
        self._interval_s = ask.config.stream_interval_s

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places that there are for streams; ApiError when all are taken."""
        if self._changed.streams >= self._ask.config.max_streams:
            raise ApiError(
                503, "streams.toomany", f"{self._changed.streams} streams are open already; try later."
            )
        self._changed.streams += 1
        try:
            yield
        finally:
            self._changed.streams -= 1

    async def rows(self) -> AsyncIterator[bytes]:
        """Yield hello, then the fleet and its changes: rows, figures, summaries (docs/twin-service.md)."""
        ask, seen, seen_figures = self._ask, 0, 0
        hello = {"columns": list(decoded.COLUMNS), "figureColumns": FIGURE_COLUMNS, **ask.summary()}
        yield _event("hello", hello)
        summary_at_s = figures_at_s = time.monotonic()
        while not self._changed.closing:
            event = self._changed.next()
            changes = ask.fleet.changes(seen)
            seen = changes.serial
            if changes.removed:
                yield _event("removed", changes.removed)
            for body in _chunks(changes.twins, decoded.row):
                yield _event("rows", {"nowMs": ask.now_ns() // 1_000_000, "rows": body})
                await asyncio.sleep(0)
            now_s = time.monotonic()
            if now_s >= figures_at_s:
                found, seen_figures = ask.figures.changes(seen_figures)
                for body in _chunks(found, _figures_row):
                    yield _event("figures", body)
                    await asyncio.sleep(0)
                figures_at_s = now_s + FIGURES_S
            if now_s >= summary_at_s:
                yield _event("summary", ask.summary(windows=2, seconds=5))
                summary_at_s = now_s + SUMMARY_S
            await asyncio.sleep(self._interval_s)
            await _wait(event, max(0.01, summary_at_s - time.monotonic()))

    async def things(
        self, ids: set[str] | None, fields: list[Path] | None, fits: Callable[[Thing], bool] | None
    ) -> AsyncIterator[bytes]:
        """Yield each thing that changes from now on, as Ditto does; a comment keeps the connection alive."""
        seen, said_s = self._ask.fleet.serial, time.monotonic()
        while not self._changed.closing:
            event = self._changed.next()
            changes = self._ask.fleet.changes(seen)
            seen = changes.serial
            for twin in changes.twins:
                body = self._thing(twin, ids, fields, fits)
                if body is not None:
                    said_s = time.monotonic()
                    yield b"data: " + orjson.dumps(body) + b"\n\n"
                    await asyncio.sleep(0)
            await asyncio.sleep(self._interval_s)
            # Also while others change, of which this reader is told nothing.
            await _wait(event, max(0.0, said_s + HEARTBEAT_S - time.monotonic()))
            if time.monotonic() >= said_s + HEARTBEAT_S:
                said_s = time.monotonic()
                yield b":\n\n"

    def _thing(
        self,
        twin: Twin,
        ids: set[str] | None,
        fields: list[Path] | None,
        fits: Callable[[Thing], bool] | None,
    ) -> dict[str, Any] | None:
        if ids is not None and thing_id(twin.vehicle_id) not in ids:
            return None
        thing = self._ask.thing(twin)
        return None if fits is not None and not fits(thing) else select(thing, fields)


class EventStream(StreamingResponse):
    """A stream as an answer; it holds its place from its first byte to its last, whoever ends it."""

    def __init__(self, streams: Streams, events: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Asked and taken in one step of the event loop: two that come at once cannot both have the last place.
        with self._streams.place():
            await super().__call__(scope, receive, send)


def _figures_row(named: tuple[str, VehicleFigures]) -> list[Any]:
    return figures_row(*named)


def _chunks(items: list[Any], row: Callable[[Any], list[Any]]) -> Iterator[list[list[Any]]]:
    made: list[list[Any]] = []
    end_s = time.perf_counter() + EVENT_S
    for item in items:
        made.append(row(item))
        if len(made) >= EVENT_ROWS or time.perf_counter() >= end_s:
            yield made
            made = []
            end_s = time.perf_counter() + EVENT_S
    if made:
        yield made
