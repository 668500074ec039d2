"""What every sink promises, asked of each by the delivery that a gateway has, over a real Kafka."""

from __future__ import annotations

import asyncio
import gc
import logging
import uuid
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from gateways.batching.partition import partitioner
from gateways.counters import Counters
from gateways.kafka_delivery import DEAD_LETTER_BYTES, KafkaDelivery
from gateways.sinks import SINKS
from gateways.sinks.kinds import Java, SinkSettings
from gateways.sinks.records import LARGEST_BYTES
from gateways.sinks.topics import message_limits
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import class_path
from ivsim.testbed.java_client import libjvm
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.kafka_login import client_settings
from schemas.topics import KafkaTopics, vehicle_id

pytestmark = pytest.mark.kafka

VEHICLES = 5
WAIT_S = 60.0
# Long enough for an answer of a Kafka that is there.
AWAY_S = 0.5


class Stand:
    """A sink under a gateway's delivery, with topics of its own."""

    def __init__(self, name: str, bootstrap: str, login: str = "") -> None:
        self.topics = KafkaTopics(f"s{uuid.uuid4().hex[:8]}.")
        self._settings = client_settings(bootstrap, login)
        create_topics(bootstrap, self.topics, login=login)
        # A process has one Java machine: the pipe's rows may have started it with a few classes more.
        java = Java(str(libjvm()), tuple(class_path())) if SINKS[name].java else None
        self.sink = SINKS[name].open(SinkSettings(bootstrap, 1 << 26, login, java=java))
        self.failures: list[str] = []
        self.acknowledged: list[int] = []
        self.delivery = KafkaDelivery(
            producer=self.sink, topics=self.topics, counters=Counters(), fatal=self.failures.append
        )
        self.delivery.acknowledge = self.acknowledged.append

    def __enter__(self) -> Self:
        return self

    def open(self) -> None:
        self.sink.require_topics((self.topics.status, self.topics.dead_letter))

    async def limit(self, most: int) -> None:
        """Have the topics take batches of so many bytes; before `open`."""
        told = (self.topics.status, self.topics.dead_letter)
        change = ConfigEntry("max.message.bytes", str(most), incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource(ConfigResource.Type.TOPIC, one, incremental_configs=[change]) for one in told
        ]
        admin = AdminClient(self._settings)
        for answer in admin.incremental_alter_configs(resources).values():
            answer.result()
        while set(message_limits(admin, "here", told, LARGEST_BYTES).values()) != {most}:
            await asyncio.sleep(0.01)  # Kafka tells nobody when a topic's new limit holds

    def __exit__(self, *_: object) -> None:
        assert self.sink.close() == self.delivery.held

    def give(self, number: int, value: bytes | None = None) -> None:
        key = vehicle_id(1 + number % VEHICLES).encode()
        headers = [("sequence", b"%d" % number), ("empty", b"")]
        self.delivery.deliver(key, b"%d of %s" % (number, key) if value is None else value, headers, number)

    def give_all(self, numbers: range) -> None:
        for number in numbers:
            self.give(number)

    def read(self, topic: str) -> list[Any]:
        """Return the topic's records, those of a partition in their order."""
        consumer = Consumer({**self._settings, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(topic, 10.0).topics[topic].partitions
            begins = [TopicPartition(topic, partition, 0) for partition in partitions]
            count = sum(consumer.get_watermark_offsets(begin, 10.0)[1] for begin in begins)
            consumer.assign(begins)
            found: list[Any] = []
            while len(found) < count:
                found += [message for message in consumer.consume(1_000, 1.0) if message.error() is None]
            return found
        finally:
            consumer.close()

    def numbers(self) -> dict[bytes, list[int]]:
        """Return by key the numbers that Kafka has, in its order."""
        found = defaultdict(list)
        for record in self.read(self.topics.status):
            found[record.key()].append(int(dict(record.headers())["sequence"]))
        return found


async def until(stands: Sequence[Stand], enough: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Poll until it is so; TimeoutError when it is not in time."""

    async def polled() -> None:
        while not enough():
            for stand in stands:
                stand.delivery.poll()
                assert stand.failures == []
            await asyncio.sleep(0.001)  # reports come by polling alone, as in a gateway

    await asyncio.wait_for(polled(), timeout_s)


@pytest.fixture(params=SINKS)
async def stand(request: pytest.FixtureRequest, kafka: str) -> AsyncIterator[Stand]:
    with Stand(request.param, kafka) as made:
        yield made


async def test_records_come_as_they_were_given_and_are_acknowledged_by_polling(stand: Stand) -> None:
    stand.open()
    stand.give_all(range(300))
    assert (stand.acknowledged, stand.delivery.held) == ([], 300)
    await until([stand], lambda: len(stand.acknowledged) == 300)
    assert sorted(stand.acknowledged) == list(range(300))
    assert (stand.delivery.held, stand.delivery.held_bytes) == (0, 0)
    by_key = defaultdict(list)
    for record in stand.read(stand.topics.status):
        headers = dict(record.headers())
        number = int(headers["sequence"])
        assert record.value() == b"%d of %s" % (number, record.key())
        assert (list(headers), headers["empty"]) == (["sequence", "empty"], b"")
        assert record.partition() == partitioner(2)(record.key())
        by_key[record.key()].append(number)
    assert by_key == {
        vehicle_id(1 + vehicle).encode(): list(range(vehicle, 300, VEHICLES)) for vehicle in range(VEHICLES)
    }


async def test_what_kafka_or_its_client_never_takes_becomes_a_dead_letter_and_the_others_pass(
    stand: Stand,
) -> None:
    """These topics take 1 MiB, and a client 16 MB."""
    await stand.limit(2**20)
    large = {10: bytes(2_000_000), 15: bytes(LARGEST_BYTES + 100_000)}
    stand.open()
    for number in range(20):
        stand.give(number, large.get(number))
    await until([stand], lambda: len(stand.acknowledged) == 20)
    assert sorted(number for several in stand.numbers().values() for number in several) == [
        number for number in range(20) if number not in large
    ]
    letters = {int(dict(one.headers())["sequence"]): one for one in stand.read(stand.topics.dead_letter)}
    assert {number: len(one.value()) for number, one in letters.items()} == dict.fromkeys(
        large, DEAD_LETTER_BYTES
    )
    for number, letter in letters.items():
        headers = dict(letter.headers())
        assert headers["payload_bytes"] == b"%d" % len(large[number])
        assert headers["reason"].startswith(b"Kafka: ")
    assert (stand.delivery.held, stand.delivery.held_bytes) == (0, 0)


@pytest.fixture
def secured(run_record: RunRecord) -> Iterator[KafkaServer]:
    with KafkaServer(run_record, name="kafka-sinks", security="sasl-ssl") as server:
        yield server


@pytest.fixture
def unclosed_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python leaves the socket of an attempt to connect that fails to the collector; have it collected here.

    Records of its log would keep it: they have the error, whose traceback has the socket.
    """
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.filterwarnings(r"ignore:unclosed <(socket|ssl\.SSLSocket):ResourceWarning")
@pytest.mark.usefixtures("unclosed_sockets")
async def test_a_killed_kafka_costs_no_record_none_comes_twice_and_their_order_stays(
    secured: KafkaServer,
) -> None:
    """All sinks at once, each logged in over TLS: one Kafka is killed and comes back once."""
    with ExitStack() as stack:
        stands = [stack.enter_context(Stand(name, secured.bootstrap, secured.login)) for name in SINKS]
        for stand in stands:
            stand.open()
            stand.give_all(range(100))
        await until(stands, lambda: all(len(stand.acknowledged) == 100 for stand in stands))
        for stand in stands:
            stand.give_all(range(100, 300))
        secured.process.kill()
        for stand in stands:
            stand.give_all(range(300, 400))
        with pytest.raises(TimeoutError):
            await until(stands, lambda: any(max(stand.acknowledged) >= 300 for stand in stands), AWAY_S)
        secured.relaunch()
        await asyncio.to_thread(secured.await_answer)
        await until(stands, lambda: all(len(stand.acknowledged) >= 400 for stand in stands))
        for name, stand in zip(SINKS, stands, strict=True):
            assert sorted(stand.acknowledged) == list(range(400)), name
            assert stand.numbers() == {
                vehicle_id(1 + vehicle).encode(): list(range(vehicle, 400, VEHICLES))
                for vehicle in range(VEHICLES)
            }, name
