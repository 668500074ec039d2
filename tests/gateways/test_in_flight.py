"""What a gateway notes of the records that it had sent and Kafka had not answered when it ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from gateways.counters import Counters
from gateways.in_flight import InFlightLog
from gateways.kafka_delivery import KafkaDelivery
from gateways.receive_log import to_table
from schemas.topics import KafkaTopics

TOPICS = KafkaTopics("t.")
QUEUED, SENT = KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT


class Producer:
    """Takes everything, and says of each record what it is told to."""

    def __init__(self) -> None:
        self.fatal: str | None = None
        self.reports: list = []

    def produce(self, _topic, _value, _key, *, on_delivery, headers) -> None:
        self.reports.append(on_delivery)


@pytest.mark.parametrize("noting", [True, False])
async def test_a_request_without_an_answer_is_noted_and_a_queued_record_is_not(
    tmp_path: Path, noting: bool
) -> None:
    producer, log = Producer(), InFlightLog(tmp_path / "in-flight-0.events", TOPICS.status)
    failures: list[str] = []
    delivery = KafkaDelivery(
        producer=producer, topics=TOPICS, counters=Counters(), fatal=failures.append,
        in_flight=log.note if noting else None,
    )  # fmt: skip
    for sequence in (1, 2, 3):
        headers = [("epoch", b"4"), ("sequence", b"%d" % sequence)]
        delivery.deliver(b"V" * 17, b"payload", headers, sequence)
    delivery.dead_letter(b"V", b"broken", [], 4, "no reason")
    for report, code in zip(producer.reports, (SENT, QUEUED, SENT, SENT), strict=True):
        report(KafkaError(code), None)
    log.close()
    found = to_table(tmp_path / "in-flight-0.events").to_pylist()
    assert [(row["epoch"], row["sequence"]) for row in found] == ([(4, 1), (4, 3)] if noting else [])
    assert not failures
    assert delivery.held == 4, "nobody has acknowledged them"
    assert len(producer.reports) == 4, "and none is sent again"
