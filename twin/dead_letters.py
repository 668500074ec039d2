"""What may not enter a twin, as records of vehicle.dead-letter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from twin import job, source
from twin.config import TwinConfig

NAME: Final = "dead-letter"
# What is kept of a bad record, whatever its size.
VALUE_BYTES: Final = 1_024
HEADERS: Final = 32
HEADER_BYTES: Final = 256
_UNHURRIED: Final = {"kafka.fetch.min.bytes": "1048576", "kafka.fetch.max.wait.ms": "1000"}
_BATCH_EVERY: Final = "2 seconds"
_POLL_S: Final = 0.2
_WAIT_S: Final = 5.0


def dead_letters(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Return what to write to vehicle.dead-letter: key, first KiB of the value, headers with reason and place, topic."""
    bad = source.parsed(records, config).where("reason is not null")
    said = (
        source.record_header(name, f"coalesce(cast({name} as string), '')")
        for name in ("reason", "partition", "offset", "payload_bytes")
    )
    every = "coalesce(headers, cast(array() as array<struct<key:string,value:binary>>))"
    short = f"filter({every}, h -> coalesce(length(h.value), 0) <= {HEADER_BYTES})"
    return bad.selectExpr(
        "cast(vehicle_id as binary) as key",
        f"substring(value, 1, {VALUE_BYTES}) as value",
        f"concat(slice({short}, 1, {HEADERS}), array({', '.join(said)})) as headers",
        f"{source.literals(config.topics.dead_letter)} as topic",
    )


def start(session: SparkSession, config: TwinConfig) -> StreamingQuery:
    """Start the query that writes them, by the trigger of the twin's."""
    # Nobody waits for a dead letter: its records come many at a time, and micro-batches, which cost the same whatever they
    # hold, come seldom.
    records = source.read_stream(session, config, config.topics.status, **_UNHURRIED)
    every = job.trigger(config) if config.trigger == "realtime" else {"processingTime": _BATCH_EVERY}
    return job.writer(dead_letters(records, config), config, NAME).trigger(**every).start()


def await_written(config: TwinConfig, due: int, alive: Callable[[], None], limit_s: float) -> None:
    """Wait until the topic holds the dead letters of that many records; TimeoutError where it does not after `limit_s`.

    Gateways write theirs to the same topic, without a record's offset. `alive` raises when a query has died.
    """
    if not due:
        return
    deadline_s = time.monotonic() + limit_s
    consumer = Consumer(
        {**config.kafka_client(), "group.id": "ivsim-dead-letters", "enable.auto.commit": False}
    )
    try:
        parts = consumer.list_topics(config.topics.dead_letter, timeout=_WAIT_S).topics[
            config.topics.dead_letter
        ]
        places = [
            TopicPartition(config.topics.dead_letter, one, OFFSET_BEGINNING) for one in parts.partitions
        ]
        consumer.assign(places)
        written: set[tuple[bytes, bytes]] = set()
        while len(written) < due:
            alive()
            if time.monotonic() >= deadline_s:
                raise TimeoutError(
                    f"{len(written)} of {due} dead letters of the twin are in {config.topics.dead_letter}"
                    f" after {limit_s:g} s"
                )
            for message in consumer.consume(1_000, _POLL_S):
                said = dict(message.headers() or [])
                if message.error() is None and {"partition", "offset"} <= said.keys():
                    written.add((said["partition"], said["offset"]))
    finally:
        consumer.close()
