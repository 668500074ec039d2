"""What may not enter a twin, as records of vehicle.dead-letter.

In real time they leave by the twin query's own output: a second query would read and parse every message again. A bad
record is folded as if it were a vehicle's, under a key of its partition, whose twin's head is the whole letter; offsets
are sequences there, so that each is the newest, and each update, one for each record, is one letter. A micro-batch makes
one update of many records of a key: there they have a query of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import DataFrame

from twin import source
from twin.config import TwinConfig

NAME: Final = "dead-letter"
# What is kept of a bad record, whatever its size.
VALUE_BYTES: Final = 1_024
KEY_BYTES: Final = 256
HEADERS: Final = 32
HEADER_BYTES: Final = 256
# No vehicle's name begins with it.
_MARK: Final = "!"
# Of a letter between the fold and the output, as SQL.
LETTER: Final = "key binary, value binary, headers array<struct<key:string,value:binary>>"
IS_LETTER: Final = f"startswith(vehicle_id, '{_MARK}')"
_POLL_S: Final = 0.2
_WAIT_S: Final = 5.0


def _letter() -> dict[str, str]:
    """Return SQL for each field of LETTER: key, first KiB of the value, headers with reason and place."""
    said = (
        source.record_header(name, f"coalesce(cast({name} as string), '')")
        for name in ("reason", "partition", "offset", "payload_bytes")
    )
    every = "coalesce(headers, cast(array() as array<struct<key:string,value:binary>>))"
    long = " or ".join(f"coalesce(octet_length(h.{part}), 0) > {HEADER_BYTES}" for part in ("key", "value"))
    return {
        "key": f"substring(cast(vehicle_id as binary), 1, {KEY_BYTES})",
        "value": f"substring(value, 1, {VALUE_BYTES})",
        "headers": f"concat(slice(filter({every}, h -> not ({long})), 1, {HEADERS}), array({', '.join(said)}))",
    }


def among_twins(parsed: DataFrame, config: TwinConfig, twin: Mapping[str, str]) -> DataFrame:
    """Return what the fold takes: a good record's columns by `twin` (name to SQL), a bad one's by the rule above."""
    fields = ", ".join(f"{text} as {name}" for name, text in _letter().items())
    letter = {
        "vehicle_id": f"concat('{_MARK}', partition)",
        "epoch": "0L",
        "sequence": "offset + 1",
        "received_at_ns": "0L",
        "sampled_at_ns": "cast(null as bigint)",
        "value": "X''",
        "head": f"to_json(struct({fields}))",
    }
    # A stranger's record among those of the warm-up is dropped: a letter's place is one in vehicle.status.
    known = parsed.where(f"reason is null or topic = {source.literals(config.topics.status)}")
    chosen = (
        f"if(reason is null, {text}, {letter.get(name, text)}) as {name}" for name, text in twin.items()
    )
    return known.selectExpr(*chosen)


def dead_letters(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Return what a query of their own writes to vehicle.dead-letter."""
    fields = (f"{text} as {name}" for name, text in _letter().items())
    topic = f"{source.literals(config.topics.dead_letter)} as topic"
    return source.parsed(records, config).where("reason is not null").selectExpr(*fields, topic)


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
