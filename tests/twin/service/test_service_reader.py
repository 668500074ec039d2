"""A reader of Kafka that ends by an error ends its service: a twin that stands still is no twin."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException

from schemas.errors import Refusal
from twin.service.client import open_source
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet
from twin.service.live_metrics import Figures
from twin.service.reader import Reader
from twin.service.server import ReaderDiedError, TwinService


class Message:
    """A record of `twin.state`, or with an error what librdkafka says in its place: the end, without any record."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.error = lambda: error
        self.topic, self.partition = (lambda: "twin.state"), (lambda: 0)
        self.key, self.value, self.headers = (lambda: b"v"), (lambda: b"x"), list
        self.timestamp = lambda: (2, 1)


class Broken:
    """A consumer with an error of ours."""

    def list_topics(self, timeout: float) -> None:
        raise RuntimeError("no such thing")

    def close(self) -> None:
        pass


async def test_health_says_it_and_the_owner_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twin.service.reader.Consumer", lambda _: Broken())
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


class Metadata:
    """What librdkafka answers when it is asked for topics; the first answers are none."""

    def __init__(self, names: list[str], silent: int = 0) -> None:
        self.names, self.silent = names, silent

    def list_topics(self, timeout: float) -> Metadata:
        if self.silent:
            self.silent -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self

    @property
    def topics(self) -> dict[str, Any]:
        return dict.fromkeys(self.names)

    def close(self) -> None:
        pass


TOPICS = ["run7.twin.state", "run70.twin.state", "other", *(f"x{k}.twin.state" for k in range(9))]


async def test_a_prefix_that_no_run_has_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("twin.service.reader.Consumer", lambda _: Metadata(TOPICS))
    config = ServiceConfig(bootstrap="127.0.0.1:1", topics_prefix="rnu7.")
    with pytest.raises(
        Refusal, match=r"no topic rnu7\.twin\.state .*'run7\.', 'run70\.'.* and 6 more\); --wait starts"
    ):
        async with TwinService(config):
            pass
    with pytest.raises(Refusal, match="no topic rnu7") as refused, open_source(config, "", ""):
        pass
    assert "--wait" not in str(refused.value)  # which only what serves has


async def test_a_kafka_that_comes_later_without_the_topic_ends_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("twin.service.reader.Consumer", lambda _: Metadata(["other"], silent=1))
    async with TwinService(ServiceConfig(bootstrap="127.0.0.1:1")) as service:
        with pytest.raises(Refusal, match=r"no topic there ends in twin\.state"):
            await asyncio.wait_for(service.until(asyncio.Event()), 10)


async def test_the_prefix_of_none_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twin.service.reader.Consumer", lambda _: Metadata(["twin.state"]))
    with pytest.raises(Refusal, match="there are ''"):
        async with TwinService(ServiceConfig(bootstrap="127.0.0.1:1", topics_prefix="a.")):
            pass


class OneBatch(Metadata):
    """A consumer of one partition that has a record, and its end in the same batch."""

    def __init__(self) -> None:
        super().__init__([])
        self.batches = [[Message(), Message(KafkaError(KafkaError._PARTITION_EOF))]]

    @property
    def topics(self) -> dict[str, Any]:
        return {"twin.state": SimpleNamespace(error=None, partitions=[0])}

    def incremental_assign(self, _partitions: object) -> None:
        pass

    def consume(self, _count: int, timeout: float) -> list[Message]:
        return self.batches.pop() if self.batches else []


def test_a_fleet_is_rebuilt_once_it_holds_what_came_with_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twin.service.reader.Consumer", lambda _: OneBatch())
    config = ServiceConfig(bootstrap="127.0.0.1:1")
    fleet = Fleet(config)
    reader = Reader(config, fleet, Figures(1), lambda: None)
    before: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        fleet, "take", lambda records: before.append((len(records), reader.caught_up.is_set()))
    )
    with reader:
        assert reader.caught_up.wait(10)
    assert before == [(1, False)]
