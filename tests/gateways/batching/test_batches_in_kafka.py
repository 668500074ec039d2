"""The gateway's batches as a real Kafka keeps them: read from the segments of its log."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateways.batched_delivery import BatchedDelivery
from gateways.batching.batcher import BatchSetting
from gateways.batching.partition import partitioner
from gateways.counters import Counters
from gateways.producer import RecordProducer
from ivsim.testbed.kafka_admin import create_topics
from schemas.topics import KafkaTopics, vehicle_id
from tests.shared_kafka import Kafka

pytestmark = pytest.mark.kafka

WAIT_S = 30.0
VEHICLES = 12
# A batch in Kafka's log (format 2): baseOffset int64, batchLength int32 of what follows; producerId, producerEpoch,
# baseSequence and recordsCount end its header of 61 bytes.
PREFIX, HEADER = struct.Struct(">qi"), struct.Struct(">qhii")
HEADER_AT = 43


class Stand:
    """The gateway's delivery and producer at a real Kafka."""

    def __init__(self, kafka: Kafka, setting: BatchSetting, most: int) -> None:
        self.topics = KafkaTopics(f"b{uuid.uuid4().hex[:8]}.")
        create_topics(kafka.bootstrap, self.topics)
        self.log = Path(kafka.log)
        # With the gateway's own 2 ms a batch is cut in two where this process is off its processor while it hands it over.
        self.producer = RecordProducer(kafka.bootstrap, 1 << 26, "", most, more={"linger.ms": "200"})
        self.producer.require_topics((self.topics.status,))
        self.partitions = self.producer.partitions(self.topics.status)
        self.acknowledged: list[Any] = []
        self.delivery = BatchedDelivery(
            setting=setting,
            partition_of=partitioner(self.partitions),
            producer=self.producer,
            topics=self.topics,
            counters=Counters(),
            fatal=pytest.fail,
        )
        self.delivery.acknowledge = self.acknowledged.append

    def give(self, count: int, vehicle: int | None = None) -> None:
        for number in range(count):
            key = vehicle_id(1 + number % VEHICLES if vehicle is None else vehicle).encode()
            self.delivery.deliver(key, b"%s %d" % (key, number), [], (key, number))

    async def until(self, acknowledged: int) -> None:
        async def polled() -> None:
            while len(self.acknowledged) < acknowledged:
                self.delivery.poll()
                await asyncio.sleep(0.001)

        await asyncio.wait_for(polled(), WAIT_S)

    def batches(self) -> dict[int, list[int]]:
        """Return the counts of Kafka's batches by partition, in their order; all of one idempotent producer, unbroken."""
        found = {p: list(_batches(self.log, f"{self.topics.status}-{p}")) for p in range(self.partitions)}
        for headers in found.values():
            expected = 0
            for producer_id, _epoch, base_sequence, count in headers:
                assert (producer_id >= 0, base_sequence) == (True, expected)
                expected += count
        return {partition: [header[3] for header in headers] for partition, headers in found.items()}


def _batches(log: Path, partition: str) -> Iterator[tuple[int, int, int, int]]:
    (directory,) = (path for path in log.glob(partition) if path.is_dir())
    for segment in sorted(directory.glob("*.log")):
        content, at = segment.read_bytes(), 0
        while at < len(content):
            yield HEADER.unpack_from(content, at + HEADER_AT)
            at += PREFIX.size + PREFIX.unpack_from(content, at)[1]


@pytest.fixture
async def stand(session_kafka: Kafka, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    setting, most = request.param
    made = Stand(session_kafka, setting, most)
    yield made
    made.producer.close()


FIVE = (BatchSetting(5, 60_000.0), 5)


@pytest.mark.parametrize("stand", [FIVE], indirect=True)
async def test_count_closes_batches_of_each_partition(stand: Stand) -> None:
    stand.give(600)
    stand.delivery.flush()
    await stand.until(600)
    counts = stand.batches()
    assert sum(map(sum, counts.values())) == 600
    # The last one of a partition may be short: so the partitions counted here are those that Kafka's producer chose.
    assert all(count == 5 for batches in counts.values() for count in batches[:-1])
    assert all(0 < batches[-1] <= 5 for batches in counts.values())
    numbers = defaultdict(list)
    for key, number in stand.acknowledged:
        numbers[key].append(number)
    assert all(several == sorted(several) for several in numbers.values())


@pytest.mark.parametrize("stand", [FIVE], indirect=True)
async def test_what_is_no_full_batch_stays_until_it_is(stand: Stand) -> None:
    stand.give(4, vehicle=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stand.until(1), 0.2)
    assert stand.delivery.held == 4
    stand.give(1, vehicle=1)
    await stand.until(5)
    assert sorted(stand.batches().values()) == [[], [5]]


@pytest.mark.parametrize("stand", [(BatchSetting(1_000, 50.0), 1_000)], indirect=True)
async def test_age_closes_batches(stand: Stand) -> None:
    for round_ in range(1, 4):
        stand.give(7, vehicle=1)
        await stand.until(7 * round_)
    assert sorted(stand.batches().values()) == [[], [7, 7, 7]]


@pytest.mark.parametrize("stand", [(BatchSetting(50, 60_000.0), 50)], indirect=True)
async def test_a_new_setting_holds_at_once_and_breaks_no_sequence(stand: Stand) -> None:
    stand.give(20, vehicle=1)
    stand.delivery.change(BatchSetting(3, 60_000.0))
    await stand.until(20)
    for round_ in range(1, 4):
        stand.give(3, vehicle=1)
        await stand.until(20 + 3 * round_)
    (counts,) = (counts for counts in stand.batches().values() if counts)
    assert counts[-3:] == [3, 3, 3]
    assert sum(counts) == 29
    assert [number for _, number in stand.acknowledged] == [*range(20), *[0, 1, 2] * 3]
