"""Keeps what Kafka held of a run, without payloads: its ledger is made of that, by the run and whenever Kafka is gone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ivsim.runs.endpoints import KafkaAddress
from ivsim.testbed.process import NotReady
from ledger.kept import Tally
from ledger.sources import KAFKA_RECORD, KEPT_HEADERS, STATE_TOPIC, STATUS_TOPIC

NOT_KEPT: Final = "Kafka's records could not be kept"
SILENT_S: Final = 10.0
_BATCH: Final = 10_000
_POLL_S: Final = 0.2
_ROW_GROUP: Final = 100_000
# While the run goes on nobody waits for a record, and each answer costs broker and run 2.5 ms of CPU: 0.025 core at ten a second.
_ANSWER_MS, _ANSWER_AT_END_MS = 1_000, 50


class KafkaLog:
    """Keeps the records of vehicle.status and twin.state, while they are written or behind it; `close` ends it.

    Columns of the file, in no order of its rows: topic (without the run's prefix), partition, offset, appended_at_ns
    (Kafka's stamp, whole ms), key, value_bytes (null: no value), value_has_key (the key's bytes are somewhere in the value),
    and the last header of each name in `KEPT_HEADERS` as its raw bytes, null where it is missing.

    A run of an hour has millions of records, and keeping one takes 17 us: a thread reads them as they come (`follow`), so that
    few are left at the end. The thread is gone before `keep` reads those.

    Args:
        kafka: where the run's topics are.
        path: the file to write; it is there once all is in it.
        tally: counts the rows; closed with this.
        part: the unfinished file, on the same disk; beside `path` by default.
        silent_s: how long Kafka may say nothing before it has said where the topics end.
    """

    def __init__(
        self,
        kafka: KafkaAddress,
        path: Path,
        *,
        tally: Tally | None = None,
        part: Path | None = None,
        silent_s: float = SILENT_S,
    ) -> None:
        self._path, self._part = path, part or path.with_suffix(".parquet.part")
        self.tally, self._silent_s = tally, silent_s
        self._names = {kafka.topics.status: STATUS_TOPIC, kafka.topics.state: STATE_TOPIC}
        self._kafka = kafka
        self._consumer: Consumer | None = None
        self._writer: pq.ParquetWriter | None = None
        self._next: dict[tuple[str, int], int] = {}
        self._open: set[tuple[str, int]] = set()
        self._held: list[pa.Table] = []
        self._kept = self._counted = 0  # rows; of those that are held, tables
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: str | None = None

    def follow(self) -> None:
        """Read from now on in a thread; what goes wrong there is `problem`, and ends it."""
        self._problem = f"{NOT_KEPT}: their reader has failed"  # until it has ended in order
        self._thread = threading.Thread(target=self._follow, name="kafka-log", daemon=True)
        self._thread.start()

    def stop_following(self) -> None:
        """Let the thread end when it has what it reads just now."""
        self._over.set()

    def problem(self) -> str | None:
        """End the thread, if it goes on; return what went wrong there."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        return self._problem

    def keep(self, awaits_more: Callable[[], bool] = lambda: False) -> int:
        """Write what is left, to the end of the topics; return how many records there are.

        The log is closed behind it, whatever comes of it. Raises NotReady, and leaves no file, when Kafka does not answer.

        Args:
            awaits_more: asked now and then, with all rows counted; while it returns True, the end of the topics is not the
                end of what is kept.
        """
        try:
            if (problem := self.problem()) is not None:
                raise NotReady(problem)
            # Anew: Kafka says of each partition once more where it ends, and soon.
            self._read_on(self._begin(_ANSWER_AT_END_MS), awaits_more)
            self._write()
            self._finish_file()
        except KafkaException as error:
            raise NotReady(_why(error)) from error
        finally:
            self.close()
        return self._kept

    def close(self) -> None:
        """End the thread and the consumer; an unfinished file is removed. Idempotent."""
        self.problem()
        if self._consumer is not None:
            self._consumer.close()
        if self.tally is not None:
            self.tally.close()
        self._part.unlink(missing_ok=True)
        if self._writer is not None:
            with contextlib.suppress(OSError):  # the end of a file that is gone
                self._writer.close()
            self._writer = None

    def _follow(self) -> None:
        try:
            consumer = self._begin(_ANSWER_MS)
            while not self._over.is_set():
                self._read(consumer)
                if self._rows() >= _ROW_GROUP:
                    self._write()
        except KafkaException as error:
            self._problem = _why(error)
        except NotReady as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"{NOT_KEPT}: {error}"
        else:
            self._problem = None

    def _begin(self, answer_ms: int) -> Consumer:
        """Begin to read each partition at its first record that is not read yet; return who reads.

        Args:
            answer_ms: a broker that has little answers so late, with records and where a partition ends.
        """
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = consumer = Consumer(
            {
                **self._kafka.client_settings(),
                "group.id": "ivsim-keep",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # a record that is gone is not passed over in silence
                "enable.partition.eof": True,
                "fetch.wait.max.ms": answer_ms,
                "fetch.min.bytes": 1_000_000,
                "log_level": 2,
            }
        )
        if not self._next:
            known = consumer.list_topics(timeout=self._silent_s).topics
            for name in self._names:
                if name not in known or not known[name].partitions:
                    raise NotReady(f"{NOT_KEPT}: there is no topic {name}")
            self._next = {(name, number): 0 for name in self._names for number in known[name].partitions}
        self._open = set(self._next)
        consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])
        return consumer

    def _read_on(self, consumer: Consumer, awaits_more: Callable[[], bool]) -> None:
        heard_s = time.monotonic()
        waits = True
        while self._open or waits:
            if self._read(consumer):
                heard_s = time.monotonic()
            elif self._open and time.monotonic() - heard_s > self._silent_s:
                raise NotReady(f"{NOT_KEPT}: no word of Kafka for {self._silent_s:g} s")
            if self._rows() >= _ROW_GROUP:
                self._write()
            if not self._open:
                self._count_new()
            waits = not self._open and awaits_more()

    def _read(self, consumer: Consumer) -> bool:
        """Hold what comes next; False where nothing has come."""
        messages = consumer.consume(_BATCH, timeout=_POLL_S)
        records = []
        for message in messages:
            place = (str(message.topic()), int(message.partition() or 0))
            if (error := message.error()) is None:
                self._next[place] = int(message.offset() or 0) + 1
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so the library names it
                self._open.discard(place)
            else:
                raise KafkaException(error)
        if records:
            self._held.append(_table(records, self._names))
        return bool(messages)

    def _rows(self) -> int:
        return sum(map(len, self._held))

    def _count_new(self) -> None:
        if self.tally is not None and (new := self._held[self._counted :]):
            self.tally.add(pa.concat_tables(new))
            self._counted = len(self._held)

    def _write(self) -> None:
        """Count and write the rows that are held."""
        if not self._held:
            return
        self._count_new()
        rows = pa.concat_tables(self._held)
        self._held.clear()
        self._counted = 0
        self._file().write_table(rows)
        self._kept += rows.num_rows

    def _file(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._part, KAFKA_RECORD, compression="zstd")
        return self._writer

    def _finish_file(self) -> None:
        self._file().close()
        self._writer = None
        self._part.replace(self._path)


def keep(kafka: KafkaAddress, path: Path, *, silent_s: float = SILENT_S) -> int:
    """Write a row per record that Kafka holds, and return how many there are; as `KafkaLog.keep`."""
    return KafkaLog(kafka, path, silent_s=silent_s).keep()


def _why(error: KafkaException) -> str:
    return f"{NOT_KEPT}: {error.args[0].str()}"


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
