"""Kafka records at the twin: a Kafka and a Spark of its own; what may not enter ends as a dead letter, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from ivsim.study.engines.codec.fuzz import hostile
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.paths import installed_jars
from ivsim.testbed.registry import RunRecord
from schemas.topics import HEADERS, KafkaTopics, vehicle_id
from tests.fuzz.surface import VEHICLES, Payloads, Surface
from tests.fuzz.words import ODD, damaged

READY_S: Final = 180.0
TAKEN_S: Final = 120.0
Headers = list[tuple[str, bytes | None]]


class Twin(Surface):
    """Records of vehicle.status; a good one must come out in twin.state, and in the end each has a place.

    The Java heap grows to what it is allowed, so only what goes beyond is held against it.
    """

    name, good_every = "twin", 5_000
    growth_bytes = 400_000_000

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._payloads = Payloads("protobuf")
        self._made = [self._payloads.next(k) for k in range(VEHICLES)]
        self._bad = hostile(self._made, self.rng)
        self._topics = KafkaTopics(f"fuzz{uuid.uuid4().hex[:8]}.")
        self._stack = ExitStack()
        self._produced = 0
        self._letters = 0
        self._messages: dict[bytes, int] = {}
        self._newest: dict[bytes, bytes] = {}

    async def __aenter__(self) -> Self:
        with self._stack:
            directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ivsim-fuzz-")))
            record = self._stack.enter_context(RunRecord(f"fuzz{uuid.uuid4().hex[:8]}", directory))
            self._kafka = self._stack.enter_context(KafkaServer(record))
            create_topics(self._kafka.bootstrap, self._topics)
            (directory / "run").mkdir()
            (directory / "twin.json").write_text(json.dumps({
                "run_dir": str(directory / "run"), "bootstrap": self._kafka.bootstrap, "topics_prefix": self._topics.prefix,
                "jars_dir": str(installed_jars("spark")), "rehearse": False, "warm_records": 200,
            }))  # fmt: skip
            self._child = self._stack.enter_context(
                Child("twin", ["twin", str(directory / "twin.json")], record)
            )
            await asyncio.to_thread(self._child.wait_for, "ready", READY_S)
            self._producer = Producer(
                {
                    "bootstrap.servers": self._kafka.bootstrap,
                    "linger.ms": 5,
                    "message.max.bytes": 16_000_000,
                    "log_level": 0,
                }
            )
            self._consumer = self._stack.enter_context(_reader(self._kafka.bootstrap, self._topics))
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None:
                await asyncio.to_thread(self._all_have_a_place)

    def resident_bytes(self) -> int:
        return sum(_resident_bytes(pid) for pid in _tree(self._child.popen.pid))

    async def hostile(self) -> None:
        rng = self.rng
        k = rng.randrange(VEHICLES)
        key: bytes | None = vehicle_id(k + 1).encode()
        value: bytes | None = self._made[k]
        now = time.time_ns()
        words = ("protobuf", "mqtt", "qos1", "1", str(rng.randrange(1, 2**40)), str(now), str(now))
        headers: Headers | None = [(name, word.encode()) for name, word in zip(HEADERS, words, strict=True)]
        share = rng.random()
        if share < 0.3:
            value = next(self._bad)
        if share > 0.25:
            headers = self._headers(headers or [])
        if rng.random() < 0.15:
            key = rng.choice((None, b"", b"\xff\x00", rng.randbytes(40), b"V%d" % rng.randrange(300), b"a b"))
        if rng.random() < 0.03:
            value = rng.choice((None, b"", rng.randbytes(1_048_577)))
        if rng.random() < 0.02:
            headers = None
        self.last = (key, None if value is None else value[:2_000], headers)
        self._send(key, value, headers)
        if self._produced % 500 == 0:
            await asyncio.sleep(0)

    async def good(self) -> None:
        """Send the next status of a vehicle of its own, and wait until it is the newest of its twin."""
        k, now = 0, time.time_ns()
        key, payload = vehicle_id(1).encode(), self._payloads.next(k)
        # Above every sequence that a malformed one may have: the newest wins.
        words = (
            "protobuf",
            "mqtt",
            "qos1",
            str(2**53 - 10_000_000 + self._produced),
            "1",
            str(now),
            str(now),
        )
        headers: Headers = [(name, word.encode()) for name, word in zip(HEADERS, words, strict=True)]
        self._send(key, payload, headers)
        await asyncio.to_thread(
            self._await, lambda: self._newest.get(key) == payload, "a good record is not in its twin"
        )

    def _send(self, key: bytes | None, value: bytes | None, headers: Headers | None) -> None:
        self._produced += 1
        while True:
            try:
                self._producer.produce(self._topics.status, value, key, headers=headers)
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def _headers(self, headers: Headers) -> Headers:
        rng = self.rng
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(headers))
            name, text = headers[at]
            odd: tuple[bytes | None, ...] = (
                None, b"", b"-1", b"0", b"9" * 19, b"9" * 400, b"1e9", b" 7", rng.randbytes(rng.randrange(80)),
                rng.choice(ODD).encode("utf-8", "replace"), damaged(rng, (text or b"").decode("latin-1")).encode(),
            )  # fmt: skip
            change = rng.randrange(4)
            if change == 0 and len(headers) > 1:
                del headers[at]
            elif change == 1:
                headers.append((name, rng.choice(odd)))
            else:
                headers[at] = name, rng.choice(odd)
        return headers

    def _all_have_a_place(self) -> None:
        def placed() -> bool:
            return self._letters + sum(self._messages.values()) >= self._produced

        self._await(placed, "records that are neither in a twin nor a dead letter")
        taken = sum(self._messages.values())
        assert self._letters + taken == self._produced, (self._letters, taken, self._produced)
        self.outcomes |= {"dead letters": self._letters, "in a twin": taken}

    def _await(self, true: Any, what: str) -> None:
        assert self._producer.flush(60) == 0
        end_s = time.monotonic() + TAKEN_S
        while not true():
            self._child.check()
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is not None:
                    continue
                if message.topic() == self._topics.dead_letter:
                    self._letters += 1
                    continue
                key, headers = message.key(), dict(message.headers() or ())
                self._messages[key] = max(self._messages.get(key, 0), int(headers["messages"]))
                self._newest[key] = message.value()
            counts = (self._letters, sum(self._messages.values()), self._produced)
            assert time.monotonic() < end_s, f"{what}: dead letters, in twins, produced: {counts}"


class _reader:  # noqa: N801 - a context manager that reads as a function
    """A consumer of twin.state and the dead letters from their beginning."""

    def __init__(self, bootstrap: str, topics: KafkaTopics) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "fuzz", "enable.auto.commit": False, "log_level": 2}
        )
        known = self._consumer.list_topics(timeout=30).topics
        names = (topics.state, topics.dead_letter)
        self._consumer.assign([TopicPartition(name, p, 0) for name in names for p in known[name].partitions])

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(found for child in children for found in _tree(int(child)))]


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4_096
    except (OSError, ValueError):
        return 0
