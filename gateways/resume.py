"""Where sequences wrap, a restarted gateway asks Kafka how far each vehicle had come; it only reads."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import Consumer, KafkaException, TopicPartition

from schemas.errors import Refusal
from schemas.kafka_login import client_settings

# Key of a vehicle -> (epoch, highest sequence of that epoch).
Progress = dict[bytes, tuple[int, int]]


def read_progress(bootstrap: str, topic: str, timeout_s: float = 30.0, login: str = "") -> Progress:
    """Return how far each vehicle's records in `topic` have come; empty for an empty topic.

    Raises Refusal when Kafka does not answer in time.
    """
    consumer = Consumer(
        {
            **client_settings(bootstrap, login),
            "group.id": f"ivsim-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
        }
    )
    try:
        return _read(consumer, topic, time.monotonic() + timeout_s)
    except KafkaException as error:
        raise Refusal(f"Kafka at {bootstrap} does not tell {topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, end_s: float) -> Progress:
    progress: Progress = {}
    ends: dict[int, int] = {}
    begins: list[TopicPartition] = []
    for partition in consumer.list_topics(topic, 10.0).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10.0)
        if high > low:
            ends[partition] = high
            begins.append(TopicPartition(topic, partition, low))
    consumer.assign(begins)
    while ends:
        if time.monotonic() > end_s:
            raise Refusal(f"topic {topic}: not read to its end in time")
        for message in consumer.consume(1_000, 0.2):
            if message.error() is not None:
                continue
            headers = dict(message.headers() or ())
            found = (int(headers["epoch"]), int(headers["sequence"]))
            progress[message.key()] = max(found, progress.get(message.key(), found))
            if message.offset() + 1 >= ends.get(message.partition(), 0):
                ends.pop(message.partition(), None)
    return progress
