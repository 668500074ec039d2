"""Keeps what Kafka held of a run, without payloads: its ledger is made of that, by the run and whenever Kafka is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ivsim.runs.endpoints import KafkaAddress
from ivsim.testbed.process import NotReady
from ledger.sources import KAFKA_RECORD, KEPT_HEADERS, STATE_TOPIC, STATUS_TOPIC

NOT_KEPT: Final = "Kafka's records could not be kept"
SILENT_S: Final = 10.0
_BATCH: Final = 10_000
_POLL_S: Final = 0.2
_ROW_GROUP: Final = 100_000


def keep(
    kafka: KafkaAddress,
    path: Path,
    *,
    awaits_more: Callable[[pa.Table], bool] = lambda _: False,
    silent_s: float = SILENT_S,
) -> int:
    """Write a row per record of vehicle.status and twin.state, in no order; return how many there are.

    Columns: topic (without the run's prefix), partition, offset, appended_at_ns (Kafka's stamp, whole ms), key,
    value_bytes (null: no value), value_has_key (the key's bytes are somewhere in the value), and the last header of each
    name in `KEPT_HEADERS` as its raw bytes, null where it is missing.

    Args:
        kafka: where the run's topics are.
        path: the file to write.
        awaits_more: is given the rows as they are read, and none now and then; while it returns True, the end of the
            topics is not the end of what is kept.
        silent_s: how long Kafka may say nothing before it has said where the topics end.

    Raises NotReady, and leaves no file, when Kafka does not answer.
    """
    temporary = path.with_suffix(".parquet.part")
    count = 0
    held: list[pa.Table] = []
    try:
        with pq.ParquetWriter(temporary, KAFKA_RECORD, compression="zstd") as writer:
            for rows in _batches(kafka, awaits_more, silent_s):
                held.append(rows)
                count += rows.num_rows
                if sum(map(len, held)) >= _ROW_GROUP:
                    writer.write_table(pa.concat_tables(held))
                    held.clear()
            if held:
                writer.write_table(pa.concat_tables(held))
        temporary.replace(path)
    except KafkaException as error:
        raise NotReady(f"{NOT_KEPT}: {error.args[0].str()}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _batches(
    kafka: KafkaAddress, awaits_more: Callable[[pa.Table], bool], silent_s: float
) -> Iterator[pa.Table]:
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
        waits = True
        while open_parts or waits:
            messages = consumer.consume(_BATCH, timeout=_POLL_S)
            if messages:
                heard_s = time.monotonic()
            elif open_parts and time.monotonic() - heard_s > silent_s:
                raise NotReady(f"{NOT_KEPT}: no word of Kafka for {silent_s:g} s")
            rows = _table(_records(messages, open_parts), names)
            if rows.num_rows:
                yield rows
            waits = awaits_more(rows)
    finally:
        consumer.close()


def _records(messages: list[Message], open_parts: set[tuple[str, int]]) -> list[Message]:
    """Return the records among these, and take out the partitions that have ended."""
    records = []
    for message in messages:
        if (error := message.error()) is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so the library names it
            open_parts.discard((str(message.topic()), int(message.partition() or 0)))
        else:
            raise KafkaException(error)
    return records


def _table(records: list[Message], names: dict[str, str]) -> pa.Table:
    keys = [record.key() for record in records]
    values = [record.value() for record in records]
    headers = [dict(record.headers() or ()) for record in records]  # of two with one name the last stays
    columns = {
        "topic": [names[record.topic()] for record in records],
        "partition": [record.partition() for record in records],
        "offset": [record.offset() for record in records],
        "appended_at_ns": [record.timestamp()[1] * 1_000_000 for record in records],
        "key": keys,
        "value_bytes": [None if value is None else len(value) for value in values],
        "value_has_key": [
            None if value is None or key is None else key in value
            for key, value in zip(keys, values, strict=True)
        ],
        **{f"header_{name}": [said.get(name) for said in headers] for name in KEPT_HEADERS},
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in KAFKA_RECORD], KAFKA_RECORD)
