"""Kafka's clients by aiokafka: an event loop of their own that turns while they are called.

Whoever sends and reads here is no coroutine. Records gather until the loop is entered, since entering it for each would
cost more than sending it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries import ends
from ivsim.study.engines.pipe.platforms.kafka_libraries.ends import (
    Answers,
    Calls,
    Turns,
    checked_size,
    library_settings,
)

QUEUE_MESSAGES = ends.QUEUE_MESSAGES
ANSWER_S: Final = 30.0
END_S: Final = 1.0
GATHERED: Final = 128
T = TypeVar("T")

# What it would write to standard error, the measurement's own checks say.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


def producer_settings(place: Place, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return aiokafka's arguments of a producer."""
    return {"bootstrap_servers": place["bootstrap"], **library_settings(settings).for_aiokafka()}


def consumer_settings(place: Place, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return aiokafka's arguments of a consumer."""
    return {
        "bootstrap_servers": place["bootstrap"],
        "group_id": place["topic"],
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 500,
        "fetch_min_bytes": settings.get("tuning", {}).get("fetch_min_bytes", 1),
    }


class Turning:
    """An event loop that turns while something is awaited."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def until(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Return what comes of a coroutine."""
        return self._loop.run_until_complete(awaited)

    def close(self) -> None:
        """Cancel what still runs."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()


class AioSender:
    """A producer in its own event loop."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        self._settings = producer_settings(place, settings)
        self._topic: str = place["topic"]
        self._origin_ms: int = place["origin_ms"]
        self._turns = Turns(settings, index, place["partitions"])
        self._report = report
        self._answers = Answers(report, QUEUE_MESSAGES, asyncio.Future.done, _problem)
        self._gathered: list[tuple[int, int, int | None, bytes | None, bytes]] = []
        self._turning: Turning | None = None

    def open(self) -> None:
        self._turning = Turning()
        self._turning.until(self._start())

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(**self._settings)
        await self._producer.start()
        await self._producer.partitions_for(self._topic)

    def _until(self, awaited: Coroutine[Any, Any, T]) -> T:
        assert self._turning is not None, "it is not open"
        return self._turning.until(awaited)

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns  # the place of a timestamp is the number's
        size = checked_size(key, value)
        self._answers.check_room(len(self._gathered))
        self._gathered.append((number, size, self._turns.take(), key, value))
        if len(self._gathered) >= GATHERED:
            self._until(self._hand_on())

    async def _hand_on(self) -> None:
        gathered, self._gathered = self._gathered, []
        send, topic, origin_ms, add = self._producer.send, self._topic, self._origin_ms, self._answers.add
        for number, size, partition, key, value in gathered:
            try:
                add(number, size, await send(topic, value, key, partition, origin_ms + number))
            except KafkaError as error:
                self._report(number, str(error))

    async def _turn(self, timeout_s: float) -> None:
        await self._hand_on()
        first = self._answers.first
        if first is None or not timeout_s:
            await asyncio.sleep(timeout_s)
        else:
            await asyncio.wait({first}, timeout=timeout_s)

    def poll(self, timeout_s: float) -> None:
        self._until(self._turn(timeout_s))
        self._answers.hand_over()

    def flush(self, timeout_s: float) -> int:
        with suppress(TimeoutError):
            self._until(self._flushed(timeout_s))
        self._answers.hand_over()
        return len(self._answers)

    async def _flushed(self, timeout_s: float) -> None:
        await self._hand_on()
        await asyncio.wait_for(self._producer.flush(), timeout_s)

    def statistics(self) -> Mapping[str, float | None]:
        """Return nothing: the library counts none of it."""
        return {"wire_bytes": None, "batches": None, "batch_records": None}

    def close(self) -> None:
        """Forget what is still waiting after a moment: the measurement is over."""
        if self._turning is None:
            return
        try:
            with suppress(TimeoutError):
                self._until(asyncio.wait_for(self._producer.stop(), END_S))
        finally:
            self._turning.close()


def _problem(future: asyncio.Future[Any]) -> str | None:
    error = future.exception()
    return None if error is None else str(error) or type(error).__name__


class AioReceiver:
    """A consumer that is assigned its partitions, in its own event loop."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._settings = consumer_settings(place, settings)
        self._origin_ms: int = place["origin_ms"]
        self._most: int = settings["take_records"]
        self._assigned = {one: TopicPartition(place["topic"], one) for one in partitions}
        self._calls = Calls(settings, self._fetch)
        self._turning: Turning | None = None

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        self._turning = Turning()
        return self._turning.until(self._start(resumed))

    async def _start(self, resumed: bool) -> dict[int, int]:
        self._consumer = AIOKafkaConsumer(**self._settings)
        await self._consumer.start()
        begins = dict.fromkeys(self._assigned, 0)
        if resumed:
            for partition, one in self._assigned.items():
                begins[partition] = await self._consumer.committed(one) or 0
        self._consumer.assign(list(self._assigned.values()))
        for partition, one in self._assigned.items():
            self._consumer.seek(one, begins[partition])
        await self._consumer.end_offsets(list(self._assigned.values()))
        return begins

    def _until(self, awaited: Coroutine[Any, Any, T]) -> T:
        assert self._turning is not None, "it is not open"
        return self._turning.until(awaited)

    def poll(self) -> Arrivals:
        return self._calls.take()

    def _fetch(self, wait_s: float) -> Arrivals:
        found = self._until(self._consumer.getmany(timeout_ms=round(wait_s * 1_000), max_records=self._most))
        return columns(found, self._origin_ms)

    def acknowledge(self, partition: int, offset: int) -> None:
        self._until(self._consumer.commit({self._assigned[partition]: offset + 1}))

    def close(self) -> None:
        if self._turning is None:
            return
        try:
            self._until(self._consumer.stop())
        finally:
            self._turning.close()


def columns(found: Mapping[Any, Sequence[Any]], origin_ms: int) -> Arrivals:
    """Return the records of a poll, by partition, as columns."""
    records = [one for several in found.values() for one in several]
    if not records:
        return NONE
    return Arrivals(
        [one.timestamp - origin_ms for one in records],
        [one.partition for one in records],
        [one.offset for one in records],
        [one.value for one in records],
    )


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> AioSender:
    """Return the producer's end."""
    return AioSender(place, settings, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> AioReceiver:
    """Return the consumer's end."""
    return AioReceiver(place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone, in one coroutine, and see that each has its answer; return nanoseconds."""

    async def produce() -> int:
        producer = AIOKafkaProducer(**producer_settings(place, settings))
        await producer.start()
        topic = place["topic"]
        await producer.partitions_for(topic)
        began_ns = time.perf_counter_ns()
        sent = [
            await producer.send(topic, values[number % len(values)], key, 0)
            for number, key in enumerate(keys)
        ]
        await producer.flush()
        for one in sent:
            await one
        spent_ns = time.perf_counter_ns() - began_ns
        await producer.stop()
        return spent_ns

    return asyncio.run(produce())


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""

    async def consume() -> int:
        consumer = AIOKafkaConsumer(**consumer_settings(place, settings))
        await consumer.start()
        one = TopicPartition(place["topic"], 0)
        began_ns = time.perf_counter_ns()
        consumer.assign([one])
        consumer.seek(one, 0)
        came, until_s = 0, time.monotonic() + ANSWER_S
        while came < count and time.monotonic() < until_s:
            found = await consumer.getmany(
                timeout_ms=round(settings["take_ms"]), max_records=settings["take_records"]
            )
            came += sum(len([(each.key, each.value) for each in several]) for several in found.values())
        spent_ns = time.perf_counter_ns() - began_ns
        await consumer.stop()
        if came < count:
            raise TimeoutError(f"{came} of {count} records within {ANSWER_S:g} s")
        return spent_ns

    return asyncio.run(consume())
