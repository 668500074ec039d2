"""Keeps what Kafka held of a run, without payloads, so that its figures can be made again when Kafka is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ivsim.runs.endpoints import KafkaAddress
from ivsim.testbed.process import NotReady
from ledger.sources import KAFKA_RECORD, KEPT_HEADERS, STATE_TOPIC, STATUS_TOPIC

NOT_KEPT: Final = "Kafka's records could not be kept"
SILENT_S: Final = 10.0
_BATCH: Final = 10_000


def keep(kafka: KafkaAddress, path: Path, silent_s: float = SILENT_S) -> int:
    """Write a row per record of vehicle.status and twin.state, in no order; return how many there are.

    Columns: topic (without the run's prefix), partition, offset, appended_at_ns (Kafka's stamp, whole ms), key,
    value_bytes (null: no value), value_has_key (the key's bytes are somewhere in the value), and the last header of each
    name in `KEPT_HEADERS` as its raw bytes, null where it is missing.

    Raises NotReady, and leaves no file, when Kafka does not answer for `silent_s`.
    """
    temporary = path.with_suffix(".parquet.part")
    try:
        with pq.ParquetWriter(temporary, KAFKA_RECORD, compression="zstd") as writer:
            count = 0
            for rows in _batches(kafka, silent_s):
                writer.write_table(pa.Table.from_pylist(rows, KAFKA_RECORD))
                count += len(rows)
        temporary.replace(path)
    except KafkaException as error:
        raise NotReady(f"{NOT_KEPT}: {error.args[0].str()}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _batches(kafka: KafkaAddress, silent_s: float) -> Iterator[list[dict[str, Any]]]:
    names = {kafka.topics.status: STATUS_TOPIC, kafka.topics.state: STATE_TOPIC}
    consumer = Consumer(
        {
            **kafka.client_settings(),
            "group.id": "ivsim-keep",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,  # how long a broker keeps the word that a partition has ended
            "log_level": 2,
        }
    )
    try:
        known = consumer.list_topics(timeout=silent_s).topics
        for name in names:
            if name not in known or not known[name].partitions:
                raise NotReady(f"{NOT_KEPT}: there is no topic {name}")
        open_parts = {(name, p) for name in names for p in known[name].partitions}
        consumer.assign([TopicPartition(name, part, 0) for name, part in open_parts])
        heard_s = time.monotonic()
        while open_parts:
            messages = consumer.consume(_BATCH, timeout=0.2)
            if messages:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > silent_s:
                raise NotReady(f"{NOT_KEPT}: no word of Kafka for {silent_s:g} s")
            rows = []
            for message in messages:
                if (error := message.error()) is None:
                    rows.append(_row(message, names[str(message.topic())]))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so the library names it
                    open_parts.discard((str(message.topic()), int(message.partition() or 0)))
                else:
                    raise KafkaException(error)
            if rows:
                yield rows
    finally:
        consumer.close()


def _row(message: Message, topic: str) -> dict[str, Any]:
    key, value = message.key(), message.value()
    headers = dict(message.headers() or [])  # of two with one name the last stays
    return {
        "topic": topic,
        "partition": message.partition(),
        "offset": message.offset(),
        "appended_at_ns": message.timestamp()[1] * 1_000_000,
        "key": key,
        "value_bytes": None if value is None else len(value),
        "value_has_key": None if value is None or key is None else key in value,
        **{f"header_{name}": headers.get(name) for name in KEPT_HEADERS},
    }
