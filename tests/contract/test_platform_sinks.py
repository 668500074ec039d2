"""What gateways' sinks of other platforms promise, asked of a real Redis by the delivery that a gateway has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis

from gateways.confirmed_delivery import ConfirmedDelivery
from gateways.counters import Counters
from gateways.receive_log import ReceiveLog, to_table
from gateways.sinks import PLATFORM_SINKS
from gateways.sinks.kinds import SinkSettings
from ivsim.ingest.by_redis import RedisReceiver
from ivsim.runs.platforms import OpenRedis
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.platforms import stream
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = pytest.mark.broker

TOPICS = KafkaTopics("s.")
PARTITIONS = 2
WAIT_S = 30.0


@pytest.fixture
def platform(run_record: RunRecord) -> Iterator[OpenRedis]:
    made = OpenRedis(run_record)
    with made.server:
        made.make_topics(TOPICS, PARTITIONS, synced=False)
        yield made


@pytest.fixture
def asked(platform: OpenRedis) -> Iterator[redis.Redis]:
    with contextlib.closing(redis.Redis(platform.server.host, platform.server.port)) as made:
        yield made


class Stand:
    """A sink under a gateway's delivery."""

    def __init__(self, bootstrap: str, log: ReceiveLog) -> None:
        self.sink = PLATFORM_SINKS["redis"].open(SinkSettings(bootstrap, 1 << 26))
        self.failures: list[str] = []
        self.acknowledged: list[int] = []
        self.delivery = ConfirmedDelivery(
            log=log, producer=self.sink, topics=TOPICS, counters=Counters(), fatal=self.failures.append
        )
        self.delivery.acknowledge = self.acknowledged.append

    def give(self, *numbers: int, size: int = 10) -> None:
        for number in numbers:
            key = vehicle_id(1 + number % 5).encode()
            names = ("format", "protocol", "mode", "epoch", "sequence")
            headers = [(name, b"%d" % (number if name == "sequence" else 1)) for name in names]
            self.delivery.deliver(key, b"p" * size, headers, number)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.delivery.poll()
                await asyncio.sleep(0.001)  # reports come by polling alone, as in a gateway


@pytest.fixture
async def stand(platform: OpenRedis, tmp_path: Any) -> AsyncIterator[Stand]:
    with contextlib.closing(ReceiveLog(tmp_path / "confirmed-0.events")) as log:
        made = Stand(platform.bootstrap, log)
        made.sink.require_topics((TOPICS.status, TOPICS.dead_letter))
        yield made
        assert made.sink.close() == made.delivery.held


def taken(platform: OpenRedis) -> list[tuple[bytes, int]]:
    """Return whose each record is, with its number, as a consumer has them."""
    host = f"{platform.server.host}:{platform.server.port}"
    with contextlib.closing(RedisReceiver(host, TOPICS.status, PARTITIONS)) as receiver:
        found = []
        while receiver.behind():
            found += [(one.key, int(one.sequence)) for one in receiver.take(1.0)]
        return found


async def test_records_are_acknowledged_once_redis_has_them_and_keep_their_order(
    platform: OpenRedis, stand: Stand, tmp_path: Any
) -> None:
    stand.give(*range(1, 1_001))
    assert stand.acknowledged == []
    await stand.until(lambda: len(stand.acknowledged) == 1_000)
    assert stand.delivery.held == 0
    found = taken(platform)
    for key in {key for key, _ in found}:
        own = [number for one, number in found if one == key]
        assert own == sorted(own)
    assert sorted(number for _, number in found) == list(range(1, 1_001))
    assert to_table(tmp_path / "confirmed-0.events").num_rows == 1_000


async def test_a_memory_that_is_full_is_waited_for(
    platform: OpenRedis, stand: Stand, asked: redis.Redis
) -> None:
    asked.config_set("maxmemory", "1")
    stand.give(1, 2, 3)
    with pytest.raises(redis.OutOfMemoryError):
        asked.xadd("other", {"a": "b"})
    for _ in range(200):
        stand.delivery.poll()
        await asyncio.sleep(0.001)
    assert (stand.acknowledged, stand.delivery.held, stand.failures) == ([], 3, [])
    asked.config_set("maxmemory", "0")
    await stand.until(lambda: stand.acknowledged == [1, 2, 3])
    assert len(taken(platform)) == 3


async def test_a_redis_that_is_killed_and_comes_back_gets_every_record(
    platform: OpenRedis, stand: Stand
) -> None:
    stand.give(*range(1, 101))
    await stand.until(lambda: len(stand.acknowledged) == 100)
    platform.server.process.kill()
    stand.give(*range(101, 201))
    for _ in range(100):
        stand.delivery.poll()
        await asyncio.sleep(0.001)
    assert stand.delivery.held == 100
    await asyncio.to_thread(platform.server.restart)
    await stand.until(lambda: len(stand.acknowledged) == 200)
    assert {number for _, number in taken(platform)} >= set(range(101, 201))
    assert stand.failures == []


async def test_what_redis_will_never_take_ends_the_gateway_with_its_words(
    stand: Stand, asked: redis.Redis
) -> None:
    for partition in range(PARTITIONS):
        asked.set(stream(TOPICS.status, partition), "no stream")
    stand.give(1)
    await stand.until(lambda: stand.failures)
    assert "WRONGTYPE" in stand.failures[0]
    assert stand.acknowledged == []


def test_a_consumer_of_what_is_no_stream_says_so(platform: OpenRedis, asked: redis.Redis) -> None:
    asked.set(stream(TOPICS.status, 0), "no stream")
    with (
        contextlib.closing(RedisReceiver(platform.bootstrap, TOPICS.status, PARTITIONS)) as receiver,
        pytest.raises(redis.ResponseError, match="WRONGTYPE"),
    ):
        receiver.take(0.1)


def test_a_topic_that_nobody_made_is_refused(platform: OpenRedis) -> None:
    sink = PLATFORM_SINKS["redis"].open(SinkSettings(platform.bootstrap, 1 << 26))
    with pytest.raises(Refusal, match=rf"^Redis at {platform.bootstrap} has no topic other$"):
        sink.require_topics((TOPICS.status, "other"))
    assert sink.close() == 0
