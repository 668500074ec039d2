"""A reader of Kafka that ends by an error ends its service: a twin that stands still is no twin."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from twin.service.config import ServiceConfig
from twin.service.reader import Reader
from twin.service.server import ReaderDiedError, TwinService


def broken(_: Reader) -> None:
    raise RuntimeError("no such thing")


async def test_health_says_it_and_the_owner_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_look", broken)
    async with TwinService(ServiceConfig(bootstrap="127.0.0.1:1", port=0)) as service:
        with pytest.raises(ReaderDiedError, match="no such thing"):
            await asyncio.wait_for(service.until(asyncio.Event()), 10)
        async with httpx.AsyncClient(base_url=service.url) as client:
            answer = await client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "READER_ENDED")


async def test_an_owner_that_stops_is_not_told_of_anything() -> None:
    stop = asyncio.Event()
    async with TwinService(ServiceConfig(bootstrap="127.0.0.1:1", port=0)) as service:
        stop.set()
        await asyncio.wait_for(service.until(stop), 10)
        assert service.reader.failure is None
