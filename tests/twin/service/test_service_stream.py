"""The stream of changes: all first, then each change; a reader that sleeps gets the newest, and no queue grows."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from schemas.topics import vehicle_id
from twin.service.api import make_app
from twin.service.stream import Streams

MakeStand = Callable[..., Any]
SOON_S = 5.0


async def next_event(events: AsyncIterator[bytes], name: str) -> Any:
    """Return the body of the next event of that name."""
    async with asyncio.timeout(SOON_S):
        async for event in events:
            head, _, body = event.decode().partition("\ndata: ")
            if head == f"event: {name}":
                return json.loads(body)
    raise AssertionError("the stream ended")


async def whole_fleet(events: AsyncIterator[bytes]) -> list[Any]:
    """Return the rows that a stream begins with: in one event or several, as long as decoding them takes."""
    rows: list[Any] = []
    async with asyncio.timeout(SOON_S):
        async for event in events:
            head, _, body = event.decode().partition("\ndata: ")
            if head == "event: rows":
                rows += json.loads(body)["rows"]
            elif head == "event: summary":
                return rows
    raise AssertionError("the stream ended")


async def test_a_stream_begins_with_the_whole_fleet(stand: MakeStand) -> None:
    made = stand(3)
    made.take_all()
    made.changed.open()
    events = Streams(made.ask, made.changed).rows()
    hello = await next_event(events, "hello")
    rows = await whole_fleet(events)
    assert hello["columns"][0] == "vehicleId"
    assert hello["vehicles"] == 3
    assert {row[0] for row in rows} == {vehicle_id(k) for k in (1, 2, 3)}
    await events.aclose()


async def test_a_change_wakes_the_stream_and_is_sent_once(stand: MakeStand) -> None:
    made = stand(2)
    made.take_all()
    made.changed.open()
    events = Streams(made.ask, made.changed).rows()
    await whole_fleet(events)
    waiting = asyncio.create_task(next_event(events, "rows"))
    await asyncio.sleep(0)
    await asyncio.to_thread(lambda: (made.fleet.take([made.record(1)]), made.changed.announce()))
    rows = (await waiting)["rows"]
    assert [(row[0], row[5]) for row in rows] == [(vehicle_id(2), 2)]
    await events.aclose()


async def test_a_sleeping_reader_costs_nothing_and_gets_the_newest(stand: MakeStand) -> None:
    made = stand(2, history_bytes=0)
    made.take_all()
    made.changed.open()
    readers = [Streams(made.ask, made.changed).rows() for _ in range(20)]
    for events in readers:
        await whole_fleet(events)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(3_000):
        made.fleet.take([made.record(0)])
        made.changed.announce()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200_000
    for events in readers:
        rows = (await next_event(events, "rows"))["rows"]
        assert [(row[0], row[5]) for row in rows] == [(vehicle_id(1), 3_001)]
        await events.aclose()


async def test_a_removed_vehicle_is_named(stand: MakeStand) -> None:
    made = stand(2)
    made.take_all()
    made.changed.open()
    events = Streams(made.ask, made.changed).rows()
    await whole_fleet(events)
    made.fleet.take([made.record(0)._replace(value=None)])
    made.changed.announce()
    assert await next_event(events, "removed") == [vehicle_id(1)]
    await events.aclose()


async def test_things_that_change_come_as_ditto_sends_them(stand: MakeStand) -> None:
    made = stand(3)
    made.take_all()
    made.changed.open()
    streams = Streams(made.ask, made.changed)
    fits = made.ask.filter('eq(attributes/format,"protobuf")', None)
    events = streams.things({f"ivsim:{vehicle_id(2)}"}, [("thingId",), ("_revision",)], fits)
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    made.take_all()
    made.changed.announce()
    async with asyncio.timeout(SOON_S):
        event = await waiting
    assert json.loads(event.removeprefix(b"data: ")) == {"thingId": f"ivsim:{vehicle_id(2)}", "_revision": 2}
    await events.aclose()


async def test_streams_end_when_the_service_does(stand: MakeStand) -> None:
    made = stand(1)
    made.changed.open()
    events = Streams(made.ask, made.changed).rows()
    await anext(events)
    made.changed.close()
    async with asyncio.timeout(SOON_S):
        assert [event async for event in events] == []


async def test_a_fleet_that_takes_long_to_decode_comes_in_several_events(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twin.service.stream.EVENT_S", 0.0)
    made = stand(3)
    made.take_all()
    made.changed.open()
    events = Streams(made.ask, made.changed).rows()
    assert [len((await next_event(events, "rows"))["rows"]) for _ in range(3)] == [1, 1, 1]
    await events.aclose()


async def ask(app: Any, path: str, status: list[int], gone: asyncio.Event) -> None:
    """Ask for a stream of changes and stay until `gone`."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"accept", b"text/event-stream")], "http_version": "1.1",
        "scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "asgi": {"version": "3.0"},
    }  # fmt: skip
    first = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if first:
            return first.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)


@pytest.mark.parametrize("path", ["/api/events", "/api/2/things"])
async def test_streams_are_bounded_however_many_come_at_once(stand: MakeStand, path: str) -> None:
    made = stand(1, max_streams=2)
    made.take_all()
    made.changed.open()
    app = make_app(made.ask, made.changed)
    for _ in range(2):  # the places are free again after the first round
        status: list[int] = []
        gone = asyncio.Event()
        asked = [asyncio.create_task(ask(app, path, status, gone)) for _ in range(10)]
        async with asyncio.timeout(SOON_S):
            while len(status) < 10:
                await asyncio.sleep(0.01)
            assert sorted(status) == [200] * 2 + [503] * 8
            assert made.changed.streams == 2
            gone.set()
            await asyncio.gather(*asked)
        assert made.changed.streams == 0


async def test_who_is_told_nothing_of_what_changes_hears_a_comment(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twin.service.stream.HEARTBEAT_S", 0.3)
    made = stand(2)
    made.take_all()
    made.changed.open()
    events = Streams(made.ask, made.changed).things({f"ivsim:{vehicle_id(2)}"}, None, None)
    heard = asyncio.ensure_future(anext(events))
    async with asyncio.timeout(SOON_S):
        while not heard.done():  # another vehicle's changes do not stop
            made.fleet.take([made.record(0)])
            made.changed.announce()
            await asyncio.sleep(0.02)
    assert heard.result() == b":\n\n"
    await events.aclose()
